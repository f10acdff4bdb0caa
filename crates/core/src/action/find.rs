//! The action that finds documents of a repository.

use std::future::IntoFuture;

use futures::{StreamExt, TryStreamExt, future, stream};
use mongodb::bson::{Document, RawDocument};
use mongodb::options::FindOptions;

use super::{ActionFuture, ActionStream, Call, run};
use crate::conn::{ClientSession, Conn};
use crate::error::{Error, ErrorKind, Result};
use crate::limit::check_limit;
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
        limit: Option<u32>,
        decode: Decode<'a, T>,
    }
    with session, max_time;

    /// Sets the order, as the driver's `find` does.
    sort(fields: Document) => options.sort = Some(fields);

    /// Sets the most documents to find, at least 1. All by default.
    limit(documents: u32) => limit = Some(documents);
}

impl<'a, T> Find<'a, T> {
    /// Creates the action of a call.
    #[doc(hidden)]
    pub fn new(call: Call<'a>, filter: Document, decode: impl Fn(&RawDocument) -> Result<T> + Send + 'a) -> Self {
        Self::create(call, filter, FindOptions::default(), None, Box::new(decode))
    }

    /// Returns the documents as a stream, which sends nothing before it is polled. With a session it ends with
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument).
    pub fn stream(self) -> ActionStream<'a, T>
    where
        T: Send + 'a,
    {
        let Self {
            call,
            filter,
            mut options,
            limit,
            decode,
            session,
            max_time,
        } = self;
        options.max_time = max_time.or(call.max_time);
        let checked = check_stream(session.as_deref()).and_then(|()| limited(&mut options, limit));
        let rows = stream::once(async move {
            checked?;
            Ok::<_, Error>(find_rows(call.collection, filter, options).await?.map_err(Error::from))
        });
        let rows = rows.try_flatten();
        of_call(call, rows.map(move |row| decode(&row?)))
    }
}

impl<'a, T: Send + 'a> IntoFuture for Find<'a, T> {
    type Output = Result<Vec<T>>;
    type IntoFuture = ActionFuture<'a, Vec<T>>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.call, async move {
            let mut options = self.options;
            limited(&mut options, self.limit)?;
            let mut conn = Conn::to_read(self.session, self.max_time.or(self.call.max_time)).await?;
            let found = conn.find_all(self.call.collection, self.filter, options).await?;
            found.iter().map(|document| (self.decode)(document)).collect()
        })
    }
}

/// Sets the limit of a command.
#[doc(hidden)]
pub fn limited(options: &mut FindOptions, limit: Option<u32>) -> Result<()> {
    limit.map_or(Ok(()), check_limit)?;
    options.limit = limit.map(i64::from);
    Ok(())
}

/// Refuses a session for a stream, whose commands have none.
#[doc(hidden)]
pub fn check_stream(session: Option<&ClientSession>) -> Result<()> {
    match session {
        None => Ok(()),
        Some(_) => Err(Error::new(
            ErrorKind::InvalidArgument,
            "a stream has no session, nothing was read: read in the session by an await or a page, or remove `session(..)`",
        )),
    }
}

/// Returns a stream as the stream of a call: it names the call in its error, and ends after it.
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
