use super::prelude::*;
use crate::form::split::Split;
use crate::write::insert::insert;

impl<D: Serialize, E> OutlierRepository<D, E> {
    /// Inserts a document. If it has more elements than the threshold, the first ones stay in its array, the others go
    /// to overflow documents, and the flag is set. Otherwise the flag is not set.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # use mongodb::bson::{Document, doc};
    /// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
    /// let book = doc! { "_id": 2, "title": "The Wooden Amulet", "customers_purchased": ["user00", "user01"] };
    /// let inserted = books.insert(&book).await?;
    /// println!("{} customers in the book, {} in overflow documents", inserted.inline, inserted.overflow);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It stores all elements or nothing: a document with overflow documents in one transaction.
    ///
    /// # Cost
    /// One round trip. For a document with overflow documents about four, and more for more than 100 of them.
    ///
    /// # Sessions and transactions
    /// In a session without a transaction, a document with overflow documents is inserted in a transaction of its own.
    /// Later reads in the session see it.
    ///
    /// # Cancel safety
    /// The document is stored or not, as a whole. Call it again: `AlreadyExists` means that it is stored. Without an `_id`,
    /// a second call may store it twice. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is
    /// aborted.
    ///
    /// # Errors
    /// With nothing stored: [`AlreadyExists`] when a document with its `_id` exists, [`DuplicateKey`] when a unique
    /// index of your own refuses it, [`InvalidArgument`] when its array field is not an array, its `_id` is invalid, an
    /// element is undefined, or an element is an array or a duplicate where elements are
    /// [unique](crate::OutlierRepositoryBuilder::unique_elements), [`Encode`], [`TooLarge`], [`IndexMissing`] for a
    /// document with overflow documents before [`ensure_indexes`](Self::ensure_indexes), [`Unsupported`] for such a document
    /// on a standalone, and [`Corrupt`] when its `_id`
    /// has orphaned overflow documents: [`repair`](Self::repair) them.
    pub fn insert(&self, document: &D) -> Insert<'_> {
        let shared = self.shared();
        Insert::create(shared, Split::of(&shared.settings, document))
    }
}

action! {
    /// Inserts a document; returned by [`OutlierRepository::insert`].
    pub struct Insert<'a> {
        shared: &'a Shared,
        split: Result<Split>,
    }
    with session;
    "insert" => Inserted
}

impl Insert<'_> {
    async fn execute(self) -> Result<Inserted> {
        let split = self.split?;
        let mut conn = self.shared.enter(&split.id, self.session).await?;
        insert(self.shared, &split, &mut conn).await?;
        Ok(Inserted {
            id: split.id,
            inline: split.inline as u64,
            overflow: split.rest.len() as u64,
        })
    }
}
