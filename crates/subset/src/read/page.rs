//! The pages of children.

use std::marker::PhantomData;

use futures::future::BoxFuture;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::list::{Asked, Page, PageSource};
use mongo_patterns_core::{DocumentId, Result};
use serde::de::DeserializeOwned;

use crate::form::child::{decode, invalid_argument};
use crate::form::token::ChildToken;
use crate::query::page::find_page;
use crate::repository::Shared;
use crate::settings::subset::CheckedSubset;

/// The children of a parent, in the order of a subset.
pub(crate) struct Children<'a, C> {
    shared: &'a Shared,
    subset: &'a CheckedSubset,
    parent: DocumentId,
    types: PhantomData<fn() -> C>,
}

impl<'a, C> Children<'a, C> {
    /// Creates the source of the pages. `field` is the field of the subset, by default of the first one.
    pub(crate) fn new(shared: &'a Shared, parent: Result<DocumentId>, field: Option<&str>) -> Result<Self> {
        let settings = &shared.settings;
        let with_field = |field| settings.subsets.iter().find(|subset| subset.field.as_str() == field);
        let subset = field.map_or(Some(settings.first()), with_field).ok_or_else(|| {
            invalid_argument("the repository has no subset in this field, nothing was read: name a field of subset(..)")
        })?;
        Ok(Self {
            shared,
            subset,
            parent: parent?,
            types: PhantomData,
        })
    }
}

impl<C: DeserializeOwned> PageSource<C, ChildToken> for Children<'_, C> {
    fn read<'c>(
        &'c self,
        page: Asked<ChildToken>,
        conn: &'c mut Conn<'_>,
    ) -> BoxFuture<'c, Result<Page<C, ChildToken>>> {
        let (settings, children, subset) = (&self.shared.settings, &self.shared.children, self.subset);
        Box::pin(async move {
            let (filter, options) = find_page(settings, subset, self.parent.value(), &page.start, page.limit)?;
            // The server refuses bounds with nothing in between.
            let mut found = match options.min.is_some() && options.min == options.max {
                true => Vec::new(),
                false => conn.find_all(children, filter, options).await?,
            };
            let is_full = found.len() == page.limit as usize;
            if page.start.is_backward() {
                found.reverse();
            }
            let ends = found.first().zip(found.last());
            let ends = ends.map(|(first, last)| [first, last].map(|child| ChildToken::of(settings, subset, child)));
            let edges = [false, true].map(|after| ChildToken::edge(settings, subset, after));
            let items = found.iter().map(|child| decode(child)).collect::<Result<_>>();
            let items = items.map_err(|error| error.of_collection(children))?;
            Ok(Page::around(items, &page.start, ends, is_full, edges))
        })
    }
}
