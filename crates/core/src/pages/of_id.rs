//! Pages of what one id has, in the order of an index of the id and a number: its revisions, or its intervals.

use futures::TryStreamExt;
use futures::stream::{iter, try_unfold};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf};
use mongodb::options::{FindOptions, Hint};

use crate::action::{ActionStream, Call, batch_size};
use crate::conn::Conn;
use crate::document_id::DocumentId;
#[allow(unused_imports)] // the documentation links to it
use crate::error::ErrorKind;
use crate::error::{Error, Result};
use crate::field::FieldName;
use crate::limit::{check_limit, cut};

/// A page to read, after a position.
#[derive(Clone, Copy, Debug)]
pub struct IdPage<T> {
    /// The most items.
    pub limit: u32,
    /// The order: from the newest, or from the oldest.
    pub newest_first: bool,
    /// The position after which it begins.
    pub after: Option<T>,
}

impl<T> IdPage<T> {
    /// Returns the first page, from the oldest.
    #[must_use]
    pub fn first() -> Self {
        Self {
            limit: 100,
            newest_first: false,
            after: None,
        }
    }

    /// Reads the items of the page, by an index of two fields. Returns also the position after the last one, if there are more.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for a limit of 0, [`IndexMissing`](ErrorKind::IndexMissing), those of
    /// `decode`, and those of the driver.
    pub async fn read<I>(
        &self,
        collection: &Collection<RawDocumentBuf>,
        filter: Document,
        index: (&str, [&FieldName; 2]),
        decode: impl Fn(&RawDocument) -> Result<I>,
        token: impl Fn(&I) -> T,
        conn: &mut Conn<'_>,
    ) -> Result<(Vec<I>, Option<T>)> {
        let (rows, has_more) = self.find(collection, filter, index, conn).await?;
        let items = rows.iter().map(|row| decode(row)).collect::<Result<Vec<_>>>()?;
        let next = items.last().filter(|_| has_more).map(token);
        Ok((items, next))
    }

    /// Reads the documents of the page. Returns also whether there are more.
    async fn find(
        &self,
        collection: &Collection<RawDocumentBuf>,
        filter: Document,
        (index, keys): (&str, [&FieldName; 2]),
        conn: &mut Conn<'_>,
    ) -> Result<(Vec<RawDocumentBuf>, bool)> {
        check_limit(self.limit)?;
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
        let mut rows = conn.find_all(collection, filter, options).await?;
        let has_more = cut(&mut rows, self.limit).is_some();
        Ok((rows, has_more))
    }
}

/// Returns a stream of the items of all pages. `read` returns those of one, and the position after them if there are more.
pub fn in_pages<'a, I, T, F>(
    call: Call<'a>,
    id: Result<DocumentId>,
    first: IdPage<T>,
    read: impl Fn(Bson, IdPage<T>) -> F + Send + Sync + 'a,
) -> ActionStream<'a, I>
where
    I: Send + 'a,
    T: Copy + Send + Sync + 'a,
    F: Future<Output = Result<(Vec<I>, Option<T>)>> + Send + 'a,
{
    let pages = try_unfold((Some((id, first)), read), |(position, read)| async move {
        let Some((id, page)) = position else { return Ok(None) };
        let id = id?;
        let (items, next) = read(id.value().clone(), page).await?;
        let following = next.map(|token| {
            let after = Some(token);
            (Ok(id), IdPage { after, ..page })
        });
        Ok::<_, Error>(Some((iter(items.into_iter().map(Ok)), (following, read))))
    });
    Box::pin(pages.try_flatten().map_err(move |error: Error| call.name(error)))
}

/// Defines the setters of the field `tokens`: replaced by `list`.
#[doc(hidden)]
#[macro_export]
macro_rules! token_setters {
    ($parts:literal of $token:ty) => {
        #[doc = concat!("Reads the ", $parts, " after a position. `None` changes nothing, so an optional parameter of a request")]
        /// fits. A page has one of the two positions: with both, the call returns `InvalidArgument`.
        pub fn after(mut self, token: impl Into<Option<$token>>) -> Self {
            self.tokens.after(token.into());
            self
        }

        #[doc = concat!("Reads the last ", $parts, " before a position, in the order of the page. `None` changes nothing.")]
        pub fn before(mut self, token: impl Into<Option<$token>>) -> Self {
            self.tokens.before(token.into());
            self
        }
    };
}
