//! The elements of a list, from a position on.

use mongo_patterns_core::Result;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::pages::check_limit;
use mongodb::bson::{Bson, Document};
use mongodb::options::FindOptions;
use serde::de::DeserializeOwned;

use crate::form::document::{decode_elements, elements_of, is_flagged, number};
use crate::query;
use crate::repository::Shared;
use crate::results::not_found;
use crate::settings::Settings;

/// The requested elements of a list.
#[derive(Clone, Copy, Default)]
pub(crate) struct Range {
    pub(crate) skip: usize,
    pub(crate) limit: Option<usize>,
}

/// The requested elements of the main document, and the overflow documents with the others.
pub(crate) struct Start<E> {
    pub(crate) elements: Vec<E>,
    pub(crate) overflow: Option<OverflowRange>,
}

/// The overflow documents that have requested elements.
pub(crate) struct OverflowRange {
    filter: Document,
    /// The number of documents before the first of them.
    first: u64,
    /// Their number; `None` for all.
    documents: Option<i64>,
    /// The number of elements of the first one that are skipped.
    pub(crate) skip: usize,
}

/// Reads the main document, and finds the overflow documents that have requested elements.
pub(crate) async fn start<E: DeserializeOwned>(
    shared: &Shared,
    id: &Bson,
    range: Range,
    conn: &mut Conn<'_>,
) -> Result<Start<E>> {
    let limit = range.limit.map(|limit| u64::try_from(limit).unwrap_or(u64::MAX));
    limit.map_or(Ok(()), check_limit)?;
    let settings = &shared.settings;
    let parts = query::project(query::array_and_flag(settings));
    let main = conn.find_one(&shared.main, query::by_id(id), parts).await?;
    let main = main.ok_or_else(not_found)?;
    let array = settings.array.as_str();
    let inline = elements_of(&main, array)?.count();
    let mut elements: Vec<E> = decode_elements(&main, array, range.skip)?;
    if let Some(limit) = range.limit {
        elements.truncate(limit);
    }
    let remaining = range.limit.map(|limit| limit - elements.len());
    if !is_flagged(settings, &main) || remaining == Some(0) {
        let overflow = None;
        return Ok(Start { elements, overflow });
    }
    let skip = range.skip.saturating_sub(inline);
    let mut overflow = OverflowRange {
        filter: query::overflow_of(settings, id),
        first: 0,
        documents: None,
        skip,
    };
    if skip > 0 || remaining.is_some() {
        let sizes = sizes(shared, overflow.filter.clone(), conn).await?;
        overflow.narrow(&sizes, remaining);
    }
    let overflow = (overflow.documents != Some(0)).then_some(overflow);
    Ok(Start { elements, overflow })
}

impl OverflowRange {
    fn narrow(&mut self, sizes: &[usize], remaining: Option<usize>) {
        let mut sizes = sizes.iter().copied();
        let mut requested = 0;
        for size in sizes.by_ref() {
            if self.skip < size {
                requested = size - self.skip;
                break;
            }
            self.skip -= size;
            self.first += 1;
        }
        let mut documents = i64::from(requested > 0);
        for size in sizes {
            if remaining.is_some_and(|remaining| requested >= remaining) {
                break;
            }
            requested += size;
            documents += 1;
        }
        self.documents = Some(documents);
    }

    /// Returns the query of the overflow documents.
    pub(crate) fn query(&self, settings: &Settings) -> (Document, FindOptions) {
        let options = FindOptions::builder()
            .sort(query::by_position(settings))
            .skip(self.first)
            .limit(self.documents);
        (self.filter.clone(), options.build())
    }
}

/// Returns the number of elements in each overflow document, in order.
async fn sizes(shared: &Shared, filter: Document, conn: &mut Conn<'_>) -> Result<Vec<usize>> {
    let options = FindOptions::builder()
        .sort(query::by_position(&shared.settings))
        .projection(query::overflow_size(&shared.settings))
        .build();
    let rows = conn.find_all(&shared.overflow, filter, options).await?;
    Ok(rows.iter().map(|row| number(row, "size")).collect())
}
