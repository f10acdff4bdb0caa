//! Nothing is measured.

use std::future::Future;
use std::sync::Arc;

use crate::error::Result;

/// Returns the operation.
#[inline]
pub fn operation<T, F>(_: &'static str, _: &'static str, _: &str, body: F) -> impl Future<Output = Result<T>>
where
    F: Future<Output = Result<T>>,
{
    body
}

/// Returns the future.
#[inline]
pub fn inherit<F: Future>(future: F) -> impl Future<Output = F::Output> {
    future
}

/// Defines functions that do nothing.
macro_rules! nothing {
    ($($name:ident($($type:ty),*);)+) => {$(
        /// Does nothing.
        #[inline]
        pub fn $name($(_: $type),*) {}
    )+};
}

/// A call that waits for a lane.
#[derive(Debug)]
pub struct Waiting;

impl Waiting {
    /// Does nothing.
    #[inline]
    pub fn begin(_: &Arc<str>) -> Self {
        Self
    }
}

/// What a dropped call has sent.
#[derive(Debug)]
pub struct TakenOver;

impl TakenOver {
    /// Does nothing.
    #[inline]
    pub fn begin() -> Self {
        Self
    }
}

nothing! {
    joined(&str, usize);
    conflict();
    retry();
    spilled(usize);
    overflow_documents(usize);
    refreshed(&'static str, u64);
    migrated(u64);
    followed(&str, u64);
    follower_lag(&str, u32);
}
