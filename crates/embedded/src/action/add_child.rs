use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, IntoId, Result};
use mongodb::ClientSession;
use mongodb::bson::Document;
use serde::Serialize;

use crate::document::encode;
use crate::ids::ChildId;
use crate::repository::Shared;
use crate::write::{Needs, Write};
use crate::{EmbeddedRepository, query};

impl<P, C: Serialize> EmbeddedRepository<P, C> {
    /// Adds a child to a parent, behind those that are there.
    ///
    /// ```no_run
    /// # use mongo_patterns_core::ErrorKind;
    /// # use mongo_patterns_embedded::EmbeddedRepository;
    /// # use mongodb::bson::{Document, doc};
    /// # async fn f(patrons: EmbeddedRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// let home = doc! { "id": "home", "street": "123 Fake Street", "city": "Faketon", "zip": "12345" };
    /// match patrons.add_child("joe", &home).await {
    ///     Err(error) if error.kind() == ErrorKind::LimitReached => println!("joe must remove an address first"),
    ///     added => added?,
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// When it returns, the child is stored once, to the collection's write concern. However many writers add at a time,
    /// no parent gets more children than it may have, and no two of them have the same id.
    ///
    /// An error means that it is not stored, unless
    /// [`is_outcome_unknown`](mongo_patterns_core::Error::is_outcome_unknown). Then call it again: `AlreadyExists` says
    /// that the first call did store it.
    ///
    /// A parent without the array gets one.
    ///
    /// # Cost
    /// One round trip, in which the server examines one document. A second one, to say why, when it finds no place. Only
    /// when another writer has made room just in between, it tries again.
    ///
    /// # In a session
    /// Nothing is retried; that other writers are faster is [`Contention`].
    ///
    /// # Cancel safety
    /// The child is stored or not, as a whole. Call it again: `AlreadyExists` says that it is stored. A [transaction of
    /// the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing stored: [`LimitReached`], [`NotFound`] when there is no such parent, [`AlreadyExists`] when it has a child with this id, [`InvalidArgument`] and
    /// [`InvalidItemId`] for ids of types that they cannot have, [`Encode`], [`TooLarge`] when the parent would pass
    /// 16 MiB, [`Corrupt`] when its children are no array, [`DuplicateKey`] by a unique index of your own, and
    /// [`Contention`].
    ///
    /// [`LimitReached`]: mongo_patterns_core::ErrorKind::LimitReached
    /// [`NotFound`]: mongo_patterns_core::ErrorKind::NotFound
    /// [`AlreadyExists`]: mongo_patterns_core::ErrorKind::AlreadyExists
    /// [`InvalidArgument`]: mongo_patterns_core::ErrorKind::InvalidArgument
    /// [`InvalidItemId`]: mongo_patterns_core::ErrorKind::InvalidItemId
    /// [`Encode`]: mongo_patterns_core::ErrorKind::Encode
    /// [`TooLarge`]: mongo_patterns_core::ErrorKind::TooLarge
    /// [`Corrupt`]: mongo_patterns_core::ErrorKind::Corrupt
    /// [`DuplicateKey`]: mongo_patterns_core::ErrorKind::DuplicateKey
    /// [`Contention`]: mongo_patterns_core::ErrorKind::Contention
    pub fn add_child(&self, parent: impl IntoId, child: &C) -> AddChild<'_> {
        AddChild {
            shared: self.shared(),
            parent: DocumentId::new(parent),
            child: encode(child),
            session: None,
        }
    }
}

/// Adds a child; made by [`EmbeddedRepository::add_child`].
///
/// ```no_run
/// # use mongo_patterns_embedded::EmbeddedRepository;
/// # use mongodb::{ClientSession, bson::{Document, doc}};
/// # async fn f(
/// #     patrons: EmbeddedRepository<Document, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let home = doc! { "id": "home", "street": "123 Fake Street" };
/// patrons.add_child("joe", &home).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct AddChild<'a> {
    shared: &'a Shared,
    parent: Result<DocumentId>,
    child: Result<Document>,
    session: Option<&'a mut ClientSession>,
}

impl<'a> AddChild<'a> {
    /// Writes in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a> IntoFuture for AddChild<'a> {
    type Output = Result<()>;
    type IntoFuture = ActionFuture<'a, ()>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("add_child"), |span| async move {
            let settings = &self.shared.settings;
            let (parent, child) = (self.parent?, self.child?);
            let id = ChildId::of_child(settings, &child)?;
            let write = Write {
                shared: self.shared,
                span: &span,
                parent: &parent,
                needs: Needs::Room(&id),
                filter: query::parent_with_room(settings, &parent, &id),
                update: query::push(settings, child).into(),
            };
            let mut session = Session::of_caller(self.session).await?;
            write.run(session.as_mut()).await?;
            Ok(())
        })
    }
}

/// Does not show the child.
impl std::fmt::Debug for AddChild<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AddChild")
            .field("shared", self.shared)
            .finish_non_exhaustive()
    }
}
