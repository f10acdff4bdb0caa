//! Retries with exponential backoff and jitter, bounded by count and by time.

pub(crate) mod busy;
mod put_aside;

use std::time::{Duration, Instant};

use futures::future::BoxFuture;

use crate::error::{CommandError, Error, ErrorKind};
use crate::measure;

#[doc(hidden)]
pub use self::put_aside::PutAside;

/// How an operation retries after conflicts with concurrent writers.
///
/// The first retry is immediate. Further retries wait for a random time, up to a bound that doubles each time (exponential
/// backoff with full jitter). After [`max_attempts`](Self::max_attempts) or [`max_elapsed`](Self::max_elapsed), whichever
/// comes first, the error is [`ErrorKind::Contention`], with nothing stored.
///
/// For a transaction, the policy also bounds the retries after network errors, and the retries of a commit whose outcome is
/// unknown. The last error is returned then.
///
/// ```
/// # use mongo_patterns::RetryPolicy;
/// # use std::time::Duration;
/// let hurried = RetryPolicy::default().with_max_attempts(20).with_max_elapsed(Duration::from_secs(2));
/// assert_eq!(hurried.max_attempts, 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// The most attempts, including the first. 1000 by default.
    pub max_attempts: u32,
    /// The longest duration. 2 minutes by default, longer than the server keeps the transaction of a killed client.
    pub max_elapsed: Duration,
    /// The bound of the first backoff. 1 millisecond by default.
    pub base_delay: Duration,
    /// The bound of every backoff. 1 second by default.
    pub max_delay: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 1000,
            max_elapsed: Duration::from_secs(120),
            base_delay: Duration::from_millis(1),
            max_delay: Duration::from_secs(1),
        }
    }
}

impl RetryPolicy {
    /// Sets [`max_attempts`](Self::max_attempts). 1 disables retries.
    #[must_use]
    pub fn with_max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// Sets [`max_elapsed`](Self::max_elapsed).
    #[must_use]
    pub fn with_max_elapsed(mut self, elapsed: Duration) -> Self {
        self.max_elapsed = elapsed;
        self
    }

    /// Starts the attempts of one operation.
    #[doc(hidden)]
    pub fn start(&self) -> Attempts {
        Attempts {
            policy: *self,
            started: Instant::now(),
            made: 1,
        }
    }
}

/// The attempts of one operation.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Attempts {
    policy: RetryPolicy,
    started: Instant,
    made: u32,
}

impl Attempts {
    /// Returns the number of attempts.
    pub fn made(&self) -> u32 {
        self.made
    }

    /// Returns the policy with the time that is left, for a transaction within the operation.
    pub fn rest(&self) -> RetryPolicy {
        let left = self.policy.max_elapsed.saturating_sub(self.started.elapsed());
        self.policy.with_max_elapsed(left)
    }

    /// Waits before the next attempt, after a conflict.
    pub fn next(&mut self, last: impl Into<CommandError>) -> BoxFuture<'_, Result<(), Error>> {
        self.wait_after(last.into())
    }

    fn wait_after(&mut self, last: CommandError) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            measure::conflict();
            if self.wait().await {
                return Ok(());
            }
            Err(self.tried(Error::from_driver(
                ErrorKind::Contention,
                "conflicts with concurrent writers of the same key exhausted the retry policy, nothing was stored: retry later, or use fewer concurrent writers for one key",
                last,
            )))
        })
    }

    /// Returns whether the time of the policy is over.
    fn is_over(&self) -> bool {
        self.started.elapsed() >= self.policy.max_elapsed
    }

    /// Waits before the next attempt. Returns `false` at once when the policy allows none.
    pub fn wait(&mut self) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let delay = self.delay();
            if self.made >= self.policy.max_attempts || self.started.elapsed() + delay > self.policy.max_elapsed {
                return false;
            }
            self.made += 1;
            measure::retry();
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            true
        })
    }

    /// Sets the number and the duration of the attempts in an error.
    #[must_use]
    pub fn tried(&self, error: Error) -> Error {
        error.tried(self.made, self.started.elapsed())
    }

    fn delay(&self) -> Duration {
        let Some(doublings) = self.made.checked_sub(2) else {
            return Duration::ZERO;
        };
        let doubled = self.policy.base_delay.saturating_mul(1 << doublings.min(20));
        doubled.min(self.policy.max_delay).mul_f64(fastrand::f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost() -> mongodb::error::Error {
        mongodb::error::Error::custom("lost")
    }

    #[tokio::test]
    async fn it_ends_after_the_attempts_and_says_how_many() {
        let policy = RetryPolicy::default().with_max_attempts(3);
        let mut attempts = policy.start();
        attempts.next(lost()).await.unwrap();
        attempts.next(lost()).await.unwrap();
        let error = attempts.next(lost()).await.unwrap_err();
        assert!(error.is_contention());
        assert_eq!(error.attempts(), Some(3));
        assert!(error.elapsed().is_some());
    }

    #[tokio::test]
    async fn it_ends_when_the_time_is_up() {
        let policy = RetryPolicy::default().with_max_elapsed(Duration::from_millis(20));
        let mut attempts = policy.start();
        let error = loop {
            if let Err(error) = attempts.next(lost()).await {
                break error;
            }
        };
        assert!(error.attempts().unwrap() < 1000);
        assert!(error.elapsed().unwrap() <= Duration::from_secs(5));
    }

    #[test]
    fn what_is_within_an_operation_has_the_time_that_is_left() {
        let policy = RetryPolicy::default();
        let mut attempts = policy.start();
        assert!(attempts.rest().max_elapsed <= policy.max_elapsed);
        assert_eq!(attempts.rest().with_max_elapsed(policy.max_elapsed), policy);
        attempts.policy.max_elapsed = Duration::ZERO;
        assert!(attempts.rest().max_elapsed.is_zero());
    }

    #[test]
    fn the_default_outlives_a_transaction_of_a_killed_client_with_few_attempts() {
        let policy = RetryPolicy::default();
        // The server looks for transactions over its limit of 60 seconds every 30 seconds.
        assert!(policy.max_elapsed > Duration::from_secs(60 + 30));
        let mut attempts = policy.start();
        let mut waited = Duration::ZERO;
        while waited < policy.max_elapsed {
            waited += attempts.delay();
            attempts.made += 1;
        }
        assert!(attempts.made < 400, "{}", attempts.made);
    }

    #[test]
    fn the_first_retry_is_immediate_and_waits_stay_under_the_bound() {
        let policy = RetryPolicy::default();
        let mut attempts = policy.start();
        assert!(attempts.delay().is_zero());
        for made in 2..200 {
            attempts.made = made;
            assert!(attempts.delay() <= policy.max_delay);
        }
    }
}
