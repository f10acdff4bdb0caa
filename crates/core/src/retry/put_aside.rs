//! The documents that others write while a call moves many.

use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use mongodb::bson::Bson;

use super::{Attempts, RetryPolicy};

/// The documents that a call puts aside because others write them, and the time that it spends on them: once that of the
/// policy, however many they are.
#[derive(Debug)]
pub struct PutAside {
    ids: Vec<Bson>,
    left: Duration,
    retry: RetryPolicy,
    attempts: Option<Attempts>,
}

impl PutAside {
    /// Puts none aside.
    pub fn new(retry: &RetryPolicy) -> Self {
        Self {
            ids: Vec::new(),
            left: retry.max_elapsed,
            retry: *retry,
            attempts: None,
        }
    }

    /// Takes the time since an attempt began that was refused. Returns whether there is more.
    pub fn spend_since(&mut self, began: Instant) -> bool {
        self.left = self.left.saturating_sub(began.elapsed());
        !self.left.is_zero()
    }

    /// Puts documents aside.
    pub fn add(&mut self, ids: &[Bson]) {
        self.ids.extend_from_slice(ids);
    }

    /// Returns the documents to try again, after a backoff. `None` if there are none, or if the time is over.
    pub fn again(&mut self) -> BoxFuture<'_, Option<Vec<Bson>>> {
        Box::pin(async move {
            let start = || self.retry.with_max_elapsed(self.left).start();
            let attempts = self.attempts.get_or_insert_with(start);
            let tries = !self.ids.is_empty() && !self.left.is_zero() && attempts.wait().await;
            tries.then(|| std::mem::take(&mut self.ids))
        })
    }

    /// Returns how many are left.
    pub fn count(&self) -> u64 {
        self.ids.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_time_of_the_policy_is_spent_once() {
        let retry = RetryPolicy::default().with_max_elapsed(Duration::from_secs(60));
        let mut aside = PutAside::new(&retry);
        assert_eq!(aside.again().await, None);
        aside.add(&[1.into(), 2.into()]);
        assert_eq!(aside.again().await, Some(vec![1.into(), 2.into()]));
        assert_eq!(aside.count(), 0);
        aside.add(&[2.into()]);
        let began = Instant::now() - Duration::from_secs(40);
        assert!(aside.spend_since(began));
        assert!(!aside.spend_since(began));
        assert_eq!(aside.again().await, None);
        assert_eq!(aside.count(), 1);
    }

    #[tokio::test]
    async fn a_policy_without_retries_tries_none_again() {
        let mut aside = PutAside::new(&RetryPolicy::default().with_max_attempts(1));
        aside.add(&[1.into()]);
        assert_eq!(aside.again().await, None);
    }
}
