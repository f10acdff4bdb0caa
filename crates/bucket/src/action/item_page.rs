use mongo_patterns_core::{Key, Result};
use serde::de::DeserializeOwned;

use crate::action::items::Items;
use crate::form::token::ItemToken;
use crate::repository::Shared;
use crate::results::ItemPage;

const DEFAULT_LIMIT: u64 = 25;

impl<'a, K: Key, T: DeserializeOwned + Send + 'a> Items<'a, K, T> {
    /// Returns a page of these items, with tokens for the next and the previous one.
    ///
    /// # Cost
    /// One round trip if the buckets are full, as this crate leaves them, and what the setters add. The server sends whole
    /// buckets, without the items outside of the range of time.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    pub fn page(self) -> GetItemPage<'a, K, T> {
        GetItemPage {
            shared: self.shared,
            items: self,
            before: None,
        }
    }
}

mongo_patterns_core::action! {
    /// Reads a page of items; returned by [`Items::page`].
    pub struct GetItemPage<'a, K, T> {
        shared: &'a Shared,
        items: Items<'a, K, T>,
        before: Option<ItemToken>,
    }
    "items" => ItemPage<T> where K: Key, T: DeserializeOwned + Send + 'a
}

impl<'a, K: Key, T: DeserializeOwned + Send + 'a> GetItemPage<'a, K, T> {
    /// Returns the items directly before this position, in the requested order, in place of those after
    /// [`after`](Items::after). [`skip`](Items::skip) skips the closest ones. `None` changes nothing.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::{BucketRepository, ItemToken};
    /// # async fn f(
    /// #     trades: BucketRepository<u32, i32>, after: Option<ItemToken>, before: Option<ItemToken>,
    /// # ) -> mongo_patterns_core::Result<()> {
    /// let page = trades.items(&123).newest_first().limit(20).after(after).page().before(before).await?;
    /// let link_to_newer = page.previous.map(|token| format!("/trades?before={token}"));
    /// let link_to_older = page.next.map(|token| format!("/trades?after={token}"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn before(mut self, token: impl Into<Option<ItemToken>>) -> Self {
        self.before = token.into().or(self.before);
        self
    }

    async fn execute(mut self) -> Result<ItemPage<T>> {
        let limit = self.items.limit.unwrap_or(DEFAULT_LIMIT);
        let is_backwards = self.before.is_some();
        if is_backwards {
            self.items.newest_first = !self.items.newest_first;
            self.items.after = self.before;
        }
        let is_first = self.items.after.is_none() && self.items.skip == 0;
        let given = self.items.after.clone();
        let mut start = given.clone();
        let mut end = None;
        let mut reached = None;
        // One item beyond the limit shows whether there is a next page.
        let mut reader = self.items.reader(DEFAULT_LIMIT, 1)?;
        let mut items = Vec::new();
        loop {
            let Some(item) = reader.pop() else {
                if reader.fetch::<K>().await? {
                    continue;
                }
                end = None;
                reached = reader.token();
                break;
            };
            if items.len() as u64 == limit {
                break;
            }
            if items.is_empty() {
                start = reader.token_before().filter(|_| !is_first);
            }
            items.push(item);
            if items.len() as u64 == limit {
                end = reader.token();
                reached.clone_from(&end);
            }
        }
        let reached = reached.filter(|_| !items.is_empty()).or(given);
        if is_backwards {
            items.reverse();
        }
        let (next, previous, last_token) = if is_backwards {
            (start.clone(), end, start)
        } else {
            (end, start, reached)
        };
        Ok(ItemPage {
            items,
            next,
            previous,
            last_token,
        })
    }
}
