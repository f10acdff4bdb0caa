//! The action that finds documents of a repository.

use std::future::IntoFuture;

use futures::{StreamExt, TryStreamExt, future, stream};
use mongodb::bson::{Document, RawDocument};
use mongodb::options::FindOptions;

use super::{ActionFuture, ActionStream, Call, run};
use crate::conn::Conn;
use crate::error::{Error, Result};
use crate::send::find_rows;

type Decode<'a, T> = Box<dyn Fn(&RawDocument) -> Result<T> + Send + 'a>;

crate::action! {
    /// Finds documents; returned by the method `find` of a repository.
    ///
    /// Awaited, it returns all documents in memory. [`stream`](Self::stream) reads them one after another.
    pub struct Find<'a, T> {
        call: Call<'a>,
        filter: Document,
        options: FindOptions,
        decode: Decode<'a, T>,
    }
    with session, max_time;

    /// Sets the order, as the driver's `find` does.
    sort(fields: Document) => options.sort = Some(fields);

    /// Sets the most documents to find. 0 means all, as in MongoDB.
    limit(documents: u32) => options.limit = Some(documents.into());
}

impl<'a, T> Find<'a, T> {
    /// Creates the action of a call.
    #[doc(hidden)]
    pub fn new(call: Call<'a>, filter: Document, decode: impl Fn(&RawDocument) -> Result<T> + Send + 'a) -> Self {
        Self::create(call, filter, FindOptions::default(), Box::new(decode))
    }

    /// Returns the documents as a stream, which sends nothing before it is polled, and ends after an error. A stream does
    /// not use the session.
    ///
    /// # Cancel safety
    /// Cancel-safe: if the future of an item is dropped, the stream can be polled again, and loses no item.
    pub fn stream(self) -> ActionStream<'a, T>
    where
        T: Send + 'a,
    {
        let Self {
            call,
            filter,
            mut options,
            decode,
            max_time,
            ..
        } = self;
        options.max_time = max_time.or(call.max_time);
        let rows = stream::once(find_rows(call.collection, filter, options)).try_flatten();
        let rows = rows.map_err(Error::from);
        of_call(call, rows.map(move |row| decode(&row?)))
    }
}

impl<'a, T: Send + 'a> IntoFuture for Find<'a, T> {
    type Output = Result<Vec<T>>;
    type IntoFuture = ActionFuture<'a, Vec<T>>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.call, async move {
            let mut conn = Conn::to_read(self.session, self.max_time.or(self.call.max_time)).await?;
            let found = conn.find_all(self.call.collection, self.filter, self.options).await?;
            found.iter().map(|document| (self.decode)(document)).collect()
        })
    }
}

/// Returns a stream as that of a call: it names the call in its error, and ends after it.
#[doc(hidden)]
pub fn of_call<'a, T: Send + 'a>(
    call: Call<'a>,
    items: impl futures::Stream<Item = Result<T>> + Send + 'a,
) -> ActionStream<'a, T> {
    let named = items.map_err(move |error| call.name(error));
    Box::pin(named.scan(false, |is_over, item| {
        let is_first = !std::mem::replace(is_over, item.is_err());
        future::ready(is_first.then_some(item))
    }))
}
