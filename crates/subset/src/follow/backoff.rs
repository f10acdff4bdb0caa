//! How long a follower waits for a server that is not there for the moment.

use std::time::{Duration, Instant};

use mongo_patterns_core::{Error, ErrorKind, Result, error};

/// The server's codes of a node that is not, or no longer, the one to ask, or that is busy: unreachable, stepped down,
/// recovering, shutting down, a time limit, a cursor that is gone or was ended, a shard that moved.
const PASSING: [i32; 25] = [
    6, 7, 43, 46, 50, 63, 89, 91, 112, 133, 134, 150, 175, 189, 234, 237, 262, 9001, 10058, 10107, 11600, 11602, 13388,
    13435, 13436,
];
const PASSING_LABELS: [&str; 3] = [
    "ResumableChangeStreamError",
    "RetryableWriteError",
    "TransientTransactionError",
];
const FIRST_DELAY: Duration = Duration::from_millis(100);
const LAST_DELAY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Patience {
    /// For how long it may go on without success; `None` for ever.
    limit: Option<Duration>,
    /// Since when it has not, and how often it tried.
    failing: Option<(Instant, u32)>,
}

impl Patience {
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        Self { limit, failing: None }
    }

    /// Notes that something succeeded.
    pub(crate) fn restore(&mut self) {
        self.failing = None;
    }

    /// How long to wait before the next attempt.
    ///
    /// # Errors
    /// This error, when it does not pass by itself, or the limit is reached.
    pub(crate) fn after(&mut self, error: Error) -> Result<Duration> {
        if !passes(&error) {
            return Err(error);
        }
        let (since, tried) = self.failing.get_or_insert_with(|| (Instant::now(), 0));
        *tried += 1;
        let delay = FIRST_DELAY.saturating_mul(1 << (*tried - 1).min(10)).min(LAST_DELAY);
        let elapsed = since.elapsed();
        if self.limit.is_some_and(|limit| elapsed + delay > limit) {
            return Err(error.tried(*tried, elapsed));
        }
        Ok(delay)
    }
}

/// Whether an error is expected to be gone later without anyone's doing.
fn passes(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::ServerSelection | ErrorKind::Network | ErrorKind::WriteConcern | ErrorKind::Contention => true,
        ErrorKind::Driver => error.as_driver_error().is_some_and(|driver| {
            error::code(driver).is_some_and(|code| PASSING.contains(&code))
                || PASSING_LABELS.iter().any(|label| driver.contains_label(label))
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
    fn it_waits_longer_each_time_until_something_succeeds() {
        let mut patience = Patience::new(None);
        let delays: Vec<Duration> = (0..20).map(|_| patience.after(network()).unwrap()).collect();
        assert_eq!(delays[..3], [100, 200, 400].map(Duration::from_millis));
        assert_eq!(delays[19], LAST_DELAY);
        patience.restore();
        assert_eq!(patience.after(network()).unwrap(), FIRST_DELAY);
    }

    #[test]
    fn it_ends_at_the_limit_and_at_errors_that_stay() {
        let mut patience = Patience::new(Some(Duration::from_millis(250)));
        patience.after(network()).unwrap();
        patience.after(network()).unwrap();
        let error = patience.after(network()).unwrap_err();
        assert_eq!((error.kind(), error.attempts()), (ErrorKind::Network, Some(3)));
        let error = Patience::new(None).after(Error::new(ErrorKind::IndexMissing, "missing"));
        assert_eq!(error.unwrap_err().kind(), ErrorKind::IndexMissing);
    }
}
