//! The actions of most calls: one read or one write, in a session of the caller or without one.

use std::future::{Future, IntoFuture};

use mongodb::ClientSession;

use super::{ActionFuture, Call, run};
use crate::conn::Conn;
use crate::error::Result;

type OfSession<'a, T> = Box<dyn FnOnce(Option<&'a mut ClientSession>) -> ActionFuture<'a, T> + Send + 'a>;
type OfConn<'a, T> = Box<dyn FnOnce(Conn<'a>) -> ActionFuture<'a, T> + Send + 'a>;

crate::action! {
    /// Writes documents; returned by the methods of a repository that write and have no other option.
    pub struct Write<'a, T> {
        call: Call<'a>,
        body: OfSession<'a, T>,
    }
    with session;
}

crate::action! {
    /// Reads documents; returned by the methods of a repository that read and have no other option.
    pub struct Read<'a, T> {
        call: Call<'a>,
        body: OfConn<'a, T>,
    }
    with session, max_time;
}

impl<'a, T> Write<'a, T> {
    /// Creates the action of a call, by its body.
    #[doc(hidden)]
    pub fn new<F: Future<Output = Result<T>> + Send + 'a>(
        call: Call<'a>,
        body: impl FnOnce(Option<&'a mut ClientSession>) -> F + Send + 'a,
    ) -> Self {
        Self::create(call, Box::new(|session| Box::pin(body(session))))
    }
}

impl<'a, T> Read<'a, T> {
    /// Creates the action of a call, by its body.
    #[doc(hidden)]
    pub fn new<F: Future<Output = Result<T>> + Send + 'a>(
        call: Call<'a>,
        body: impl FnOnce(Conn<'a>) -> F + Send + 'a,
    ) -> Self {
        Self::create(call, Box::new(|conn| Box::pin(body(conn))))
    }
}

impl<'a, T: 'a> IntoFuture for Write<'a, T> {
    type Output = Result<T>;
    type IntoFuture = ActionFuture<'a, T>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.call, (self.body)(self.session))
    }
}

impl<'a, T: 'a> IntoFuture for Read<'a, T> {
    type Output = Result<T>;
    type IntoFuture = ActionFuture<'a, T>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.call, async move {
            (self.body)(Conn::to_read(self.session, self.max_time.or(self.call.max_time)).await?).await
        })
    }
}
