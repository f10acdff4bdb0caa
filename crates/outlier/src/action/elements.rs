use std::marker::PhantomData;

use futures::stream::{iter, once};
use futures::{StreamExt, TryStreamExt};
#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Corrupt, InvalidArgument, NotFound};
use mongo_patterns_core::action;
use mongo_patterns_core::action::{ActionStream, check_stream, of_call};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::{DocumentId, Error, IntoId, Result, send};
use serde::de::DeserializeOwned;

use crate::form::document::decode_elements;
use crate::read::elements::{Range, Start, start};
use crate::repository::{OutlierRepository, Shared};

impl<D, E: DeserializeOwned> OutlierRepository<D, E> {
    /// Reads the elements of a list, in order: first from the array, then from the overflow documents.
    ///
    /// Awaited it returns a `Vec`. [`stream`](Elements::stream) returns a stream that holds a few overflow documents at a
    /// time.
    ///
    /// ```no_run
    /// # async fn f(books: mongo_patterns::outlier::OutlierRepository<(), String>) -> mongo_patterns::Result<()> {
    /// // The third page of 20 customers.
    /// let customers: Vec<String> = books.elements(2).skip(40).limit(20).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip if the array has all of them, else one more for each 16 MB of overflow documents. With a
    /// [`limit`](Elements::limit), or a [`skip`](Elements::skip) beyond the array, one more, and only overflow documents
    /// with requested elements are sent.
    ///
    /// # Errors
    /// - [`NotFound`]: the document does not exist.
    /// - [`Corrupt`]: elements are not an array.
    pub fn elements(&self, id: impl IntoId) -> Elements<'_, E> {
        Elements::create(self.shared(), DocumentId::new(id), Range::default(), PhantomData)
    }
}

action! {
    /// Reads elements; returned by [`OutlierRepository::elements`].
    pub struct Elements<'a, E> {
        shared: &'a Shared,
        id: Result<DocumentId>,
        range: Range,
        types: PhantomData<fn() -> E>,
    }
    with session, max_time;
    "elements" => Vec<E> where E: DeserializeOwned + Send + 'a
}

impl<'a, E: DeserializeOwned + Send + 'a> Elements<'a, E> {
    /// Skips the first elements.
    pub fn skip(mut self, elements: u64) -> Self {
        self.range.skip = usize::try_from(elements).unwrap_or(usize::MAX);
        self
    }

    /// Sets the most elements to read, at least 1.
    pub fn limit(mut self, elements: u64) -> Self {
        self.range.limit = Some(usize::try_from(elements).unwrap_or(usize::MAX));
        self
    }

    /// Returns the elements as a stream, which sends nothing before it is polled. With a session it ends with
    /// [`InvalidArgument`].
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(books: mongo_patterns::outlier::OutlierRepository<(), String>) -> mongo_patterns::Result<()> {
    /// let mut customers = books.elements(2).stream();
    /// while let Some(customer) = customers.try_next().await? {
    ///     println!("{customer}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream(self) -> ActionStream<'a, E> {
        let operation = self.shared.operation("elements");
        let (shared, range) = (self.shared, self.range);
        let max_time = self.max_time.or(shared.settings.max_time);
        let start = async move {
            check_stream(self.session.as_deref())?;
            let mut conn = Conn::to_read(None, max_time).await?;
            let Start { elements, overflow } = start(shared, &self.id?.into_bson(), range, &mut conn).await?;
            let inline = iter(elements.into_iter().map(Ok));
            let Some(overflow) = overflow else {
                return Ok::<_, Error>(inline.left_stream());
            };
            let mut skip = overflow.skip;
            let (filter, mut options) = overflow.query(&shared.settings);
            options.max_time = max_time;
            let rows = send::find_rows(&shared.overflow, filter, options).await?;
            let overflow = rows.map_err(Error::from).and_then(move |document| {
                let field = shared.settings.extras.as_str();
                let elements = decode_elements(&document, field, std::mem::take(&mut skip));
                let elements = elements.map_err(|error| error.of_collection(&shared.overflow));
                async move { Ok(iter(elements?.into_iter().map(Ok))) }
            });
            Ok(inline.chain(overflow.try_flatten()).right_stream())
        };
        // A limit of 0 is an error, which must be polled.
        let most = range.limit.map_or(usize::MAX, |limit| limit.max(1));
        let elements = once(start).try_flatten().take(most);
        of_call(operation, elements)
    }

    async fn execute(self) -> Result<Vec<E>> {
        let Self { shared, range, .. } = self;
        let mut conn = Conn::to_read(self.session, self.max_time.or(self.shared.settings.max_time)).await?;
        let started = start(shared, &self.id?.into_bson(), range, &mut conn).await?;
        let Start { mut elements, overflow } = started;
        if let Some(mut overflow) = overflow {
            let (filter, options) = overflow.query(&shared.settings);
            for document in conn.find_all(&shared.overflow, filter, options).await? {
                let skip = std::mem::take(&mut overflow.skip);
                let more = decode_elements::<E>(&document, shared.settings.extras.as_str(), skip);
                elements.extend(more.map_err(|error| error.of_collection(&shared.overflow))?);
            }
        }
        elements.truncate(range.limit.unwrap_or(usize::MAX));
        Ok(elements)
    }
}
