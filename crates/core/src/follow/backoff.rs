//! The backoff of a follower after transient errors.

use std::time::{Duration, Instant};

use crate::error::{self, Error, ErrorKind, Result};

/// The server's codes of transient errors: a node that is unreachable, not primary, busy or overloaded, a time limit, a
/// closed or killed cursor, a shard that has moved. The follower repeats only idempotent commands, so it need not know the
/// outcome of a write.
const TRANSIENT: [i32; 38] = [
    6, 7, 43, 46, 50, 63, 89, 91, 112, 133, 134, 150, 175, 189, 202, 234, 237, 239, 249, 262, 267, 272, 304, 343, 365,
    407, 433, 449, 450, 462, 9001, 10058, 10107, 11600, 11602, 13388, 13435, 13436,
];
const TRANSIENT_LABELS: [&str; 4] = [
    "ResumableChangeStreamError",
    "RetryableWriteError",
    "SystemOverloadedError",
    "TransientTransactionError",
];
const FIRST_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Backoff {
    /// The maximum time without success; `None` for no limit.
    limit: Option<Duration>,
    /// The time of the first failure since the last success, and the number of attempts since.
    failing: Option<(Instant, u32)>,
}

impl Backoff {
    pub(super) fn new(limit: Option<Duration>) -> Self {
        Self { limit, failing: None }
    }

    pub(super) fn reset(&mut self) {
        self.failing = None;
    }

    /// Returns the delay before the next attempt.
    pub(super) fn delay_after(&mut self, error: Error) -> Result<Duration> {
        if !is_transient(&error) {
            return Err(error);
        }
        let (since, attempts) = self.failing.get_or_insert_with(|| (Instant::now(), 0));
        *attempts += 1;
        let delay = FIRST_DELAY.saturating_mul(1 << (*attempts - 1).min(10)).min(MAX_DELAY);
        let elapsed = since.elapsed();
        if self.limit.is_some_and(|limit| elapsed + delay > limit) {
            return Err(error.tried(*attempts, elapsed));
        }
        Ok(delay)
    }
}

fn is_transient(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::ServerSelection | ErrorKind::Network | ErrorKind::WriteConcern | ErrorKind::Contention => true,
        ErrorKind::Driver => error.as_driver_error().is_some_and(|driver| {
            error::code(driver).is_some_and(|code| TRANSIENT.contains(&code))
                || TRANSIENT_LABELS.iter().any(|label| driver.contains_label(label))
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> Error {
        Error::new(ErrorKind::Network, "the connection broke")
    }

    #[test]
    fn delays_grow_until_a_success() {
        let mut backoff = Backoff::new(None);
        let delays: Vec<Duration> = (0..20).map(|_| backoff.delay_after(network()).unwrap()).collect();
        assert_eq!(delays[..3], [100, 200, 400].map(Duration::from_millis));
        assert_eq!(delays[19], MAX_DELAY);
        backoff.reset();
        assert_eq!(backoff.delay_after(network()).unwrap(), FIRST_DELAY);
    }

    #[test]
    fn it_ends_at_the_limit_and_at_permanent_errors() {
        let mut backoff = Backoff::new(Some(Duration::from_millis(250)));
        backoff.delay_after(network()).unwrap();
        backoff.delay_after(network()).unwrap();
        let error = backoff.delay_after(network()).unwrap_err();
        assert_eq!((error.kind(), error.attempts()), (ErrorKind::Network, Some(3)));
        let error = Backoff::new(None).delay_after(Error::new(ErrorKind::IndexMissing, "missing"));
        assert_eq!(error.unwrap_err().kind(), ErrorKind::IndexMissing);
    }
}
