//! The end of a follower, or of another loop.

use std::future::{Future, pending};
use std::pin::{Pin, pin};

use futures::future::{Either, select};

/// A future of the caller that ends a follower, or another loop, when it is ready.
pub struct Until<'a> {
    future: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
    /// A future must not be polled again after it was ready.
    is_ready: bool,
}

crate::redacted_debug!(Until<'_>);

impl<'a> Until<'a> {
    /// Creates it from a future.
    pub fn new(future: impl Future<Output = ()> + Send + 'a) -> Self {
        Self {
            future: Box::pin(future),
            is_ready: false,
        }
    }

    /// Never ends it.
    pub fn never() -> Self {
        Self::new(pending())
    }

    /// Returns the output of the work, or `None` if the end comes first. Then it drops the work.
    pub async fn or<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        if self.is_ready {
            return None;
        }
        match select(self.future.as_mut(), pin!(work)).await {
            Either::Left(((), _)) => {
                self.is_ready = true;
                None
            }
            Either::Right((output, _)) => Some(output),
        }
    }
}
