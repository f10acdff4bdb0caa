use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, FieldChange, IntoId, Result};
use mongodb::ClientSession;
use mongodb::bson::Document;

use crate::ids::ChildId;
use crate::repository::Shared;
use crate::write::{Needs, Write};
use crate::{EmbeddedRepository, query};

impl<P, C> EmbeddedRepository<P, C> {
    /// Changes fields of one child, and leaves its others as they are, whoever changes those at the same time.
    ///
    /// ```no_run
    /// # use mongo_patterns_embedded::EmbeddedRepository;
    /// # use mongodb::bson::doc;
    /// # async fn f(patrons: EmbeddedRepository<(), ()>) -> mongo_patterns_core::Result<()> {
    /// patrons.update_child("joe", "home", doc! { "city": "Faketon", "zip": "12345" }).unset(["state"]).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The names are those of plain fields of the child, never paths or operators, and the values are stored as they are.
    /// It may be called again when its outcome was unknown.
    ///
    /// # Cost
    /// One round trip, in which the server examines one document. A second one, to say why, when it finds no place.
    ///
    /// # Cancel safety
    /// All of the fields are changed, or none. Call it again: it is idempotent. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing sent: [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument) when there is nothing to change, a name is none
    /// of a plain field or comes twice, or it is that of the child's id, and [`InvalidItemId`](mongo_patterns_core::ErrorKind::InvalidItemId).
    ///
    /// With nothing changed: [`NotFound`](mongo_patterns_core::ErrorKind::NotFound) when there is no such parent,
    /// [`ChildNotFound`](mongo_patterns_core::ErrorKind::ChildNotFound) when it has no such child, [`Corrupt`](mongo_patterns_core::ErrorKind::Corrupt),
    /// [`TooLarge`](mongo_patterns_core::ErrorKind::TooLarge), [`DuplicateKey`](mongo_patterns_core::ErrorKind::DuplicateKey) and
    /// [`Contention`](mongo_patterns_core::ErrorKind::Contention).
    pub fn update_child(&self, parent: impl IntoId, child_id: impl IntoId, set: Document) -> UpdateChild<'_> {
        UpdateChild {
            shared: self.shared(),
            parent: DocumentId::new(parent),
            child: child_id.into_id().and_then(ChildId::new),
            set,
            unset: Vec::new(),
            session: None,
        }
    }
}

/// Changes fields of a child; made by [`EmbeddedRepository::update_child`].
///
/// ```no_run
/// # use mongo_patterns_embedded::EmbeddedRepository;
/// # use mongodb::{ClientSession, bson::{Document, doc}};
/// # async fn f(
/// #     patrons: EmbeddedRepository<Document, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let set = doc! { "zip": "54321" };
/// patrons.update_child("joe", "home", set).unset(["state"]).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct UpdateChild<'a> {
    shared: &'a Shared,
    parent: Result<DocumentId>,
    child: Result<ChildId>,
    set: Document,
    unset: Vec<String>,
    session: Option<&'a mut ClientSession>,
}

/// What a change or a replacement did.
///
/// ```no_run
/// # use mongo_patterns_embedded::EmbeddedRepository;
/// # use mongodb::bson::{Document, doc};
/// # async fn f(patrons: EmbeddedRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let updated = patrons.update_child("joe", "home", doc! { "zip": "54321" }).await?;
/// println!("other than before: {}", updated.modified);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Updated {
    /// Whether anything is other than before.
    pub modified: bool,
}

impl<'a> UpdateChild<'a> {
    /// Removes these fields of the child.
    pub fn unset<F: Into<String>>(mut self, fields: impl IntoIterator<Item = F>) -> Self {
        self.unset.extend(fields.into_iter().map(Into::into));
        self
    }

    /// Writes in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a> IntoFuture for UpdateChild<'a> {
    type Output = Result<Updated>;
    type IntoFuture = ActionFuture<'a, Updated>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("update_child"), |span| async move {
            let settings = &self.shared.settings;
            let (parent, child) = (self.parent?, self.child?);
            let fixed = "the id of a child cannot be changed, and nothing was sent: remove it and add another";
            let change = FieldChange::new(self.set, self.unset, &[(settings.child_id.as_str(), fixed)])?;
            let write = Write {
                shared: self.shared,
                span: &span,
                parent: &parent,
                needs: Needs::Child(&child),
                filter: query::parent_with(settings, &parent, &child),
                update: query::change(settings, change).into(),
            };
            let mut session = Session::of_caller(self.session).await?;
            let modified = write.run(session.as_mut()).await?;
            Ok(Updated { modified })
        })
    }
}

/// Does not show the fields and values.
impl std::fmt::Debug for UpdateChild<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UpdateChild")
            .field("shared", self.shared)
            .finish_non_exhaustive()
    }
}
