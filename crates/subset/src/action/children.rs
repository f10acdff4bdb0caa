use super::prelude::*;
use crate::form::token::{ChildToken, PageStart};
use crate::read::page::page;

impl<P, C: DeserializeOwned> SubsetRepository<P, C> {
    /// Reads a page of the children of a parent, in their order: the first ones, or those [after](Children::after) or
    /// [before](Children::before) a position. The page is empty if the parent does not exist.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::{ChildToken, SubsetRepository};
    /// # async fn f(products: SubsetRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// let first = products.children(1).limit(50).await?;
    /// println!("{} reviews", first.children.len());
    /// if let Some(next) = first.next {
    ///     let link = format!("/reviews?after={next}");
    ///     let after: ChildToken = next.to_string().parse()?; // from the link
    ///     let second = products.children(1).limit(50).after(after).await?;
    ///     let back = products.children(1).limit(50).before(second.previous).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, which examines as many documents as it returns, on any page. After a position it examines one
    /// more if ids descend and are strings, or if they have another type than integers, strings, ObjectIds, binaries
    /// such as UUIDs, or dates.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is
    /// aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`] for an invalid id, a limit of 0, and a token of another order, [`IndexMissing`], and
    /// [`Decode`].
    pub fn children(&self, parent: impl IntoId) -> Children<'_, C> {
        Children {
            shared: self.shared(),
            parent: DocumentId::new(parent),
            limit: 100,
            start: PageStart::First,
            types: PhantomData,
            session: None,
            max_time: None,
        }
    }
}

action! {
    /// Reads a page of children; returned by [`SubsetRepository::children`].
    pub struct Children<'a, C> {
        shared: &'a Shared,
        parent: Result<DocumentId>,
        limit: u32,
        start: PageStart,
        types: PhantomData<fn() -> C>,
    }
    with session, max_time;
    "children" => ChildPage<C> where C: DeserializeOwned + 'a
}

mongo_patterns_core::setters! {
    for Children<'a, C>:

    /// Sets the maximum number of children; 100 by default.
    limit(children: u32) => limit = children;

    /// Reads the children after a position. `None` means from the start.
    after(token: impl Into<Option<ChildToken>>) => start = token.into().map_or(PageStart::First, PageStart::After);

    /// Reads the last children before a position, in their order. `None` means from the start.
    before(token: impl Into<Option<ChildToken>>) => start = token.into().map_or(PageStart::First, PageStart::Before);
}

impl<C: DeserializeOwned> Children<'_, C> {
    async fn execute(self) -> Result<ChildPage<C>> {
        let mut conn = Conn::to_read(self.session, self.max_time.or(self.shared.settings.max_time)).await?;
        page(self.shared, self.parent, self.start, self.limit, &mut conn).await
    }
}
