use super::prelude::*;
use crate::form::document::Encoded;
use crate::write;

impl<D: Serialize, S> ReferenceRepository<D, S> {
    /// Inserts a document with copies of its sources.
    ///
    /// Each reference field of the document has a document with the `_id` of a source, or an array of such documents. It may
    /// also be missing or null, for no reference. The repository sets the copied fields and the version, whatever the
    /// document has in them, and keeps further fields, such as the quantity of a product.
    ///
    /// ```no_run
    /// # use mongo_patterns_reference::ReferenceRepository;
    /// # use mongodb::bson::{Bson, Document, doc};
    /// # async fn f(orders: ReferenceRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// let order = doc! { "_id": 1, "total": 42.5, "customer": { "_id": 456 } };
    /// let inserted = orders.insert(&order).await?; // with the name and the address of the customer
    /// assert_eq!(inserted.id, Bson::from(1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// Three round trips: the sources, the insert, and the sources again. One without references. One more for each copy
    /// whose source was updated in between.
    ///
    /// # Sessions and transactions
    /// In a transaction of the caller four: the sources are locked by two writes that change nothing, and not read again.
    /// Another transaction that inserts a document with the same source waits or conflicts.
    ///
    /// # Cancel safety
    /// The document can be stored. Its copies can be outdated then, if a source was updated or deleted concurrently:
    /// [`sweep`](Self::sweep) and [`repair`](Self::repair) correct them. Call it again: `AlreadyExists` means that the
    /// document is stored. Without an `_id`, a retry can store it twice. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing sent: [`Encode`], [`InvalidArgument`] when its `_id` has an invalid type, when a reference field has
    /// another value than a reference, or when an array refers to a source twice, and [`TooLarge`].
    ///
    /// With nothing stored: [`NotFound`] when a source does not exist, or was deleted concurrently, [`AlreadyExists`] when
    /// there is a document with this `_id`, [`DuplicateKey`] by a unique index of your own, [`TooLarge`] when the document
    /// exceeds 16 MiB with its copies, and [`Corrupt`] when the version of a source is not an integer.
    ///
    /// After an error with a [`stored_count`](mongo_patterns_core::Error::stored_count) of 1 the document is stored, and its
    /// copies can be outdated.
    pub fn insert(&self, document: &D) -> Insert<'_> {
        let shared = self.shared();
        Insert::create(shared, Encoded::new(&shared.settings, document))
    }
}

action! {
    /// Inserts a document; returned by [`ReferenceRepository::insert`].
    pub struct Insert<'a> {
        shared: &'a Shared,
        document: Result<Encoded>,
    }
    with session;
    "insert" => Inserted
}

impl Insert<'_> {
    async fn execute(self) -> Result<Inserted> {
        write::insert::run(self.shared, &self.document?, self.session).await
    }
}
