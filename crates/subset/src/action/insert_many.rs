use std::collections::HashSet;

use super::prelude::*;
use crate::form::child::Child;

impl<P, C: Serialize> SubsetRepository<P, C> {
    /// Inserts children of one parent or of several, and writes each parent once.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # use mongodb::bson::{DateTime, Document, doc};
    /// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// let now = DateTime::now();
    /// let nice = doc! { "review_id": 785, "product_id": 1, "review_text": "Nice.", "published_date": now };
    /// let amazing = doc! { "review_id": 786, "product_id": 1, "review_text": "Amazing.", "published_date": now };
    /// let inserted = products.insert_many(&[nice, amazing]).await?;
    /// println!("{} reviews stored, {} products written", inserted.children, inserted.parents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// - [`Transactional`](crate::Consistency::Transactional): all or none, in one transaction. The server ends it
    ///   after 60 seconds: insert thousands of children in several calls.
    /// - [`Eventual`](crate::Consistency::Eventual): the children first, in their order. If one is refused, those
    ///   before it are stored, their parents are written, and the error has their [number](Error::stored_count).
    ///
    /// # Cost
    /// One round trip for the children, or more beyond 48 MB, and three for each parent. In a transaction one
    /// more, but none for one parent that [`insert`](Self::insert) would write in four.
    ///
    /// # Cancel safety
    /// - `Transactional`: it has no effect, unless its commit had begun, which completes.
    /// - `Eventual`: a prefix of the children may be stored, and some or all of their parents not be written, as by
    ///   [`insert`](Self::insert).
    ///
    /// Call it again: `AlreadyExists` means that some are stored, and that their parents are now correct. Then insert
    /// those that [`child`](Self::child) does not find. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// Those of [`insert`](Self::insert). A missing parent and an invalid child are refused before anything is stored.
    pub fn insert_many(&self, children: &[C]) -> InsertMany<'_> {
        let shared = self.shared();
        let children = children.iter().map(|child| Child::of(&shared.settings, child));
        InsertMany::create(shared, children.collect())
    }
}

action! {
    /// Inserts children; returned by [`SubsetRepository::insert_many`].
    pub struct InsertMany<'a> {
        shared: &'a Shared,
        children: Result<Vec<Child>>,
    }
    with session;
    "insert_many" => InsertedMany
}

impl InsertMany<'_> {
    async fn execute(self) -> Result<InsertedMany> {
        let mut parents: Vec<Bson> = Vec::new();
        let mut documents = Vec::new();
        let mut seen = HashSet::new();
        for Child { parent, document, .. } in self.children? {
            if seen.insert(document_id::text(&parent)) {
                parents.push(parent);
            }
            documents.push(document);
        }
        let children = documents.len() as u64;
        if children == 0 {
            return Ok(InsertedMany::default());
        }
        let write = Write::of_parents(self.shared, parents, Change::Insert(documents));
        let written = write::run(write, self.session).await?;
        Ok(InsertedMany {
            children,
            parents: written.parents,
        })
    }
}
