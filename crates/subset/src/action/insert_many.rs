use std::collections::HashSet;

use super::prelude::*;
use crate::form::child::Child;

impl<P, C: Serialize> SubsetRepository<P, C> {
    /// Inserts children of one parent or of several, and writes each parent once: all or none, in one transaction. The
    /// server ends it after 60 seconds: insert thousands of children in several calls.
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
    /// # Cost
    /// Two round trips, or more beyond 48 MB of children, and three for each parent. Four for one parent that
    /// [`insert`](Self::insert) would write in four.
    ///
    /// # Cancel safety
    /// It has no effect, unless its commit had begun, which completes. Call it again: `AlreadyExists` means that some or all
    /// are stored. Then insert those that [`child`](Self::child) does not find. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// Those of [`insert`](Self::insert).
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
