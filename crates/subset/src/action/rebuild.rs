use super::prelude::*;

impl<P, C> SubsetRepository<P, C> {
    /// Rebuilds the subset of a parent from its children, after another program wrote them.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # use mongodb::bson::{Document, doc};
    /// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// products.children_collection().delete_many(doc! { "product_id": 1, "spam": true }).await?;
    /// let rebuilt = products.rebuild(1).await?;
    /// println!("{} reviews are left in the product", rebuilt.embedded);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Safe for concurrent writers, without a transaction: the parent is written only if no other client has written it
    /// since its children were read.
    ///
    /// # Cost
    /// Three round trips, and up to four more while other clients write to the parent. With a
    /// [total](crate::SubsetRepositoryBuilder::total_field) or [computed
    /// fields](crate::SubsetRepositoryBuilder#computed-fields) one more each time, for up to sixteen attempts.
    ///
    /// # Cancel safety
    /// The subset is either rebuilt or unchanged. With [`discard_embedded`](Rebuild::discard_embedded), the children
    /// that only the parent has may be discarded and still be embedded. Call it again. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`NotFound`] when the parent does not exist, [`NotMigrated`] when it embeds children that are stored nowhere
    /// else (see [`discard_embedded`](Rebuild::discard_embedded)), [`InvalidArgument`] for an invalid id,
    /// [`IndexMissing`], and [`Contention`] when other clients were faster at each attempt. If the outcome is unknown, call it again.
    pub fn rebuild(&self, parent: impl IntoId) -> Rebuild<'_> {
        Rebuild {
            shared: self.shared(),
            parent: DocumentId::new(parent),
            discard_embedded: false,
            session: None,
        }
    }
}

action! {
    /// Rebuilds a subset; returned by [`SubsetRepository::rebuild`].
    pub struct Rebuild<'a> {
        shared: &'a Shared,
        parent: Result<DocumentId>,
        discard_embedded: bool,
    }
    with session;
    "rebuild" => Rebuilt
}

impl Rebuild<'_> {
    /// Discards embedded children that are not in their collection and that no repository has embedded. They are
    /// deleted: use it if they are leftovers of a subset that was maintained by hand.
    pub fn discard_embedded(mut self) -> Self {
        self.discard_embedded = true;
        self
    }

    async fn execute(self) -> Result<Rebuilt> {
        let parent = self.parent?.into_bson();
        let embedded = write::rebuild(self.shared, parent, self.discard_embedded, self.session).await?;
        Ok(Rebuilt { embedded })
    }
}
