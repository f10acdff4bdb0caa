//! The documents that others write while a call moves many.

use futures::future::BoxFuture;
use mongodb::bson::Bson;

use super::{Attempts, RetryPolicy};

/// The documents that a call puts aside because others write them. It tries them again at its end, for the time of the
/// policy once, however many they are.
#[derive(Debug)]
pub struct PutAside {
    ids: Vec<Bson>,
    retry: RetryPolicy,
    attempts: Option<Attempts>,
}

impl PutAside {
    /// Puts none aside.
    pub fn new(retry: &RetryPolicy) -> Self {
        Self {
            ids: Vec::new(),
            retry: *retry,
            attempts: None,
        }
    }

    /// Returns whether documents that were refused together are to be tried in halves: before the end of the call always,
    /// and then while there is time.
    pub fn may_halve(&self) -> bool {
        self.attempts.as_ref().is_none_or(|attempts| !attempts.is_over())
    }

    /// Puts documents aside.
    pub fn add(&mut self, ids: &[Bson]) {
        self.ids.extend_from_slice(ids);
    }

    /// Returns the documents to try again, after a backoff. `None` if there are none, or if the time is over.
    pub fn again(&mut self) -> BoxFuture<'_, Option<Vec<Bson>>> {
        Box::pin(async move {
            let attempts = self.attempts.get_or_insert_with(|| self.retry.start());
            let tries = !self.ids.is_empty() && attempts.wait().await;
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
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn the_time_of_the_policy_begins_at_the_end() {
        let retry = RetryPolicy::default().with_max_elapsed(Duration::from_millis(20));
        let mut aside = PutAside::new(&retry);
        tokio::time::sleep(2 * retry.max_elapsed).await;
        assert!(aside.may_halve());
        aside.add(&[1.into(), 2.into()]);
        assert_eq!(aside.again().await, Some(vec![1.into(), 2.into()]));
        assert_eq!(aside.count(), 0);
        tokio::time::sleep(2 * retry.max_elapsed).await;
        assert!(!aside.may_halve());
        aside.add(&[2.into()]);
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
