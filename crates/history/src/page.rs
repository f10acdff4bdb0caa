//! Pages of one document's history, in the order of an index: one page, or all as a stream.

use futures::stream::{iter, try_unfold};
use mongo_patterns_core::action::{ActionStream, Call, batch_size};
use mongodb::options::{FindOptions, Hint};

use crate::form::document::invalid_argument;
use crate::prelude::*;

/// A page to read, after a position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<T> {
    pub(crate) limit: u32,
    pub(crate) newest_first: bool,
    pub(crate) after: Option<T>,
}

impl<T> Page<T> {
    /// The first page, from the oldest.
    pub(crate) fn first() -> Self {
        Self {
            limit: 100,
            newest_first: false,
            after: None,
        }
    }

    /// Reads the documents of the page, by an index of two fields. Returns also whether there are more.
    pub(crate) async fn find(
        &self,
        collection: &Collection<RawDocumentBuf>,
        filter: Document,
        (index, keys): (&str, [&FieldName; 2]),
        conn: &mut Conn<'_>,
    ) -> Result<(Vec<RawDocumentBuf>, bool)> {
        if self.limit == 0 {
            return Err(invalid_argument("the limit is 0: set it to 1 or more"));
        }
        // One more, to know whether there are more.
        let limit = self.limit.saturating_add(1);
        let direction = Bson::Int32(if self.newest_first { -1 } else { 1 });
        let order: Document = keys
            .map(|key| (key.to_string(), direction.clone()))
            .into_iter()
            .collect();
        let options = FindOptions::builder()
            .sort(order)
            .limit(i64::from(limit))
            .batch_size(batch_size(limit))
            .hint(Hint::Name(index.to_owned()))
            .build();
        let found = conn.find_all(collection, filter, options).await;
        let mut rows = found.map_err(|error| hinted(error, index))?;
        let has_more = rows.len() as u64 > u64::from(self.limit);
        rows.truncate(self.limit as usize);
        Ok((rows, has_more))
    }
}

/// Returns a stream of the items of all pages. `read` returns those of one, and the position after them if there are more.
pub(crate) fn in_pages<'a, I, T, F>(
    call: Call<'a>,
    id: Result<DocumentId>,
    first: Page<T>,
    read: impl Fn(Bson, Page<T>) -> F + Send + Sync + 'a,
) -> ActionStream<'a, I>
where
    I: Send + 'a,
    T: Copy + Send + Sync + 'a,
    F: Future<Output = Result<(Vec<I>, Option<T>)>> + Send + 'a,
{
    let pages = try_unfold((Some((id, first)), read), |(position, read)| async move {
        let Some((id, at)) = position else { return Ok(None) };
        let id = id?;
        let (items, next) = read(id.value().clone(), at).await?;
        let next = next.map(|token| {
            (
                Ok(id),
                Page {
                    after: Some(token),
                    ..at
                },
            )
        });
        Ok::<_, Error>(Some((iter(items.into_iter().map(Ok)), (next, read))))
    });
    Box::pin(pages.try_flatten().map_err(move |error: Error| call.name(error)))
}
