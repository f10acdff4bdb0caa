use super::prelude::*;
use crate::form::child::Child;

impl<P, C: Serialize> SubsetRepository<P, C> {
    /// Replaces the child with the same parent and id, and writes the parent, as [`update`](Self::update) does. The
    /// child keeps its `_id`.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # use mongodb::bson::{DateTime, Document, doc};
    /// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// let now = DateTime::now();
    /// let review = doc! { "review_id": 786, "product_id": 1, "review_text": "Still amazing.", "published_date": now };
    /// let replaced = products.replace(&review).await?;
    /// println!("shown with the product: {}", replaced.in_subset);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// As [`update`](Self::update).
    ///
    /// # Cancel safety
    /// As [`update`](Self::update). It is idempotent: call it again.
    ///
    /// # Errors
    /// Those of [`insert`](Self::insert) and [`update`](Self::update). [`ChildNotFound`] for a child whose parent
    /// differs from the stored one, and [`InvalidArgument`] for one whose `_id` differs.
    pub fn replace(&self, child: &C) -> Replace<'_> {
        let shared = self.shared();
        Replace::create(shared, Child::of(&shared.settings, child))
    }
}

action! {
    /// Replaces a child; returned by [`SubsetRepository::replace`].
    pub struct Replace<'a> {
        shared: &'a Shared,
        child: Result<Child>,
    }
    with session;
    "replace" => UpdatedChild
}

impl Replace<'_> {
    async fn execute(self) -> Result<UpdatedChild> {
        let Child { parent, id, document } = self.child?;
        let write = Write::of_child(self.shared, parent, id, replacement(document)?);
        Ok(write::run(write, self.session).await?.into())
    }
}

/// The server refuses field names that start with `$` in a replacement, where they would be operators, but accepts them
/// in an insert and in the result of a pipeline.
fn replacement(child: RawDocumentBuf) -> Result<Change> {
    let mut fields = child.iter().flatten();
    if !fields.any(|(name, _)| name.as_str().starts_with('$')) {
        return Ok(Change::Replace(child));
    }
    let child = Document::try_from(&child).map_err(CommandError::from)?;
    Ok(Change::Update(query::replace_with(child).into()))
}
