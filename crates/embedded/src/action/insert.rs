use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::error::duplicate_key;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{Error, ErrorKind, Result, send, size};
use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, RawDocumentBuf};
use serde::Serialize;

use crate::EmbeddedRepository;
use crate::document::{check_parent, encode};
use crate::repository::Shared;
use crate::write::refused;

impl<P: Serialize, C> EmbeddedRepository<P, C> {
    /// Stores a new parent, with the children that it has. One without the array of children gets an empty one.
    ///
    /// ```no_run
    /// # use mongo_patterns_embedded::EmbeddedRepository;
    /// # use mongodb::bson::{Bson, Document, doc};
    /// # async fn f(patrons: EmbeddedRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// let joe = doc! { "_id": "joe", "name": "Joe Bookreader", "addresses": [] };
    /// let inserted = patrons.insert(&joe).await?;
    /// assert_eq!(inserted.id, Bson::from("joe"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip.
    ///
    /// # Cancel safety
    /// The parent is stored with its children, or not at all. Call it again: `AlreadyExists` says that it is stored.
    /// Without an `_id`, a second call may store it twice. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing sent: [`Encode`](ErrorKind::Encode), [`InvalidArgument`](ErrorKind::InvalidArgument) when its `_id`
    /// is of a type that it cannot have, its children are no array, one of them is no document, or two have the same id,
    /// [`InvalidItemId`](ErrorKind::InvalidItemId) when a child has no usable id, [`LimitReached`](ErrorKind::LimitReached) when there are
    /// more than a parent may have, and [`TooLarge`](ErrorKind::TooLarge) when it would pass 16 MiB.
    ///
    /// With nothing stored: [`AlreadyExists`](ErrorKind::AlreadyExists) when there is a parent with this `_id`, and
    /// [`DuplicateKey`](ErrorKind::DuplicateKey) by a unique index of your own.
    pub fn insert(&self, parent: &P) -> Insert<'_> {
        let shared = self.shared();
        let checked = encode(parent).and_then(|mut parent| {
            check_parent(&shared.settings, &mut parent)?;
            Ok(parent)
        });
        Insert {
            shared,
            parent: checked,
            session: None,
        }
    }
}

/// Stores a parent; made by [`EmbeddedRepository::insert`].
///
/// ```no_run
/// # use mongo_patterns_embedded::EmbeddedRepository;
/// # use mongodb::{ClientSession, bson::{Document, doc}};
/// # async fn f(
/// #     patrons: EmbeddedRepository<Document, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let joe = doc! { "_id": "joe", "name": "Joe Bookreader", "addresses": [] };
/// patrons.insert(&joe).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct Insert<'a> {
    shared: &'a Shared,
    parent: Result<Document>,
    session: Option<&'a mut ClientSession>,
}

/// What an insert did.
///
/// ```no_run
/// # use mongo_patterns_embedded::EmbeddedRepository;
/// # use mongodb::bson::{Document, doc};
/// # async fn f(patrons: EmbeddedRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let inserted = patrons.insert(&doc! { "addresses": [] }).await?;
/// println!("{} is the ObjectId that it got", inserted.id);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Inserted {
    /// The `_id` of the parent: its own, or the ObjectId that the driver gave to one without.
    pub id: Bson,
}

impl<'a> Insert<'a> {
    /// Stores in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }

    async fn execute(self) -> Result<Inserted> {
        let parent = RawDocumentBuf::try_from(&self.parent?).map_err(|error| {
            let message = "the parent cannot be written as BSON, nothing was stored";
            Error::from_driver(ErrorKind::Encode, message, error.into())
        })?;
        size::check(&parent)?;
        let mut session = Session::of_caller(self.session).await?;
        match send::insert_one(session.as_mut(), &self.shared.collection, &parent, None).await {
            Ok(inserted) => Ok(Inserted {
                id: inserted.inserted_id,
            }),
            Err(error) if is_of_id(&error) => Err(Error::from_driver(
                ErrorKind::AlreadyExists,
                "there is a parent with this `_id` already, nothing was stored: add the children to it",
                error,
            )),
            Err(error) => Err(refused(error)),
        }
    }
}

fn is_of_id(error: &mongodb::error::Error) -> bool {
    duplicate_key(error)
        .is_some_and(|duplicate| duplicate.fields == ["_id"] || duplicate.index.as_deref() == Some("_id_"))
}

impl<'a> IntoFuture for Insert<'a> {
    type Output = Result<Inserted>;
    type IntoFuture = ActionFuture<'a, Inserted>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("insert"), |_| self.execute())
    }
}

/// Does not show the parent.
impl std::fmt::Debug for Insert<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Insert")
            .field("shared", self.shared)
            .finish_non_exhaustive()
    }
}
