use mongo_patterns_core::size;

use super::prelude::*;
use crate::form::document::check_parent;
use crate::write::refused;

impl<P: Serialize, C> EmbeddedRepository<P, C> {
    /// Inserts a parent with its children. One without the array of children gets an empty one.
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
    /// The parent is stored with its children, or not at all. Retry it: `AlreadyExists` means that it is stored. Without an
    /// `_id`, a retry can store it twice. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing sent: [`Encode`], [`InvalidArgument`] when its `_id` has an invalid type, its children are not an
    /// array, one of them is not a document, or two have the same id, [`InvalidItemId`] when a child has no valid id,
    /// [`LimitReached`] when it has more children than it may, and [`TooLarge`] when it would exceed 16 MiB.
    ///
    /// With nothing stored: [`AlreadyExists`] when there is a parent with this `_id`, and [`DuplicateKey`] by a unique
    /// index of your own.
    pub fn insert(&self, parent: &P) -> Insert<'_> {
        let shared = self.shared();
        let checked = encode(parent).and_then(|mut parent| {
            check_parent(&shared.settings, &mut parent)?;
            Ok(parent)
        });
        Insert::create(shared, checked)
    }
}

action! {
    /// Inserts a parent; returned by [`EmbeddedRepository::insert`].
    pub struct Insert<'a> {
        shared: &'a Shared,
        parent: Result<Document>,
    }
    with session;
    "insert" => Inserted
}

impl Insert<'_> {
    async fn execute(self) -> Result<Inserted> {
        let parent = RawDocumentBuf::try_from(&self.parent?).map_err(|error| {
            let message = "the parent cannot be written as BSON, nothing was stored";
            Error::from_driver(ErrorKind::Encode, message, error)
        })?;
        size::check(&parent)?;
        let mut conn = Conn::of_caller(self.session).await?;
        match send::insert_one(&mut conn, &self.shared.collection, parent, None).await {
            Ok(inserted) => Ok(Inserted {
                id: inserted.inserted_id,
            }),
            Err(error) if is_of_id(&error) => Err(Error::from_driver(
                ErrorKind::AlreadyExists,
                "there is a parent with this `_id` already, nothing was stored: add children to it with add_child()",
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
