//! What ends a follower.

use std::fmt;
use std::future::{Future, pending};
use std::pin::{Pin, pin};

use futures::future::{Either, select};

/// A future of the caller that ends a follower when it is ready.
pub(crate) struct Until<'a> {
    future: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
    /// A future must not be polled again after it was ready.
    is_ready: bool,
}

impl<'a> Until<'a> {
    pub(crate) fn new(future: impl Future<Output = ()> + Send + 'a) -> Self {
        Self {
            future: Box::pin(future),
            is_ready: false,
        }
    }

    pub(crate) fn never() -> Self {
        Self::new(pending())
    }

    /// What the work makes, or `None` when the end comes first. Then the work is dropped.
    pub(crate) async fn or<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        if self.is_ready {
            return None;
        }
        match select(self.future.as_mut(), pin!(work)).await {
            Either::Left(((), _)) => {
                self.is_ready = true;
                None
            }
            Either::Right((made, _)) => Some(made),
        }
    }
}

impl fmt::Debug for Until<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Until").field("is_ready", &self.is_ready).finish()
    }
}
