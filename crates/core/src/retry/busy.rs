//! Commands that define a collection, which the server refuses while another client defines it, as when several instances of
//! a service start at once.

use std::time::Duration;

use crate::error::{CommandError, Error, ErrorKind, Result, code};
use crate::retry::{Attempts, RetryPolicy};

/// Another client shards, creates or drops the collection, or an index build blocks the command.
const BUSY: [i32; 2] = [117, 12587];

/// Returns whether the server refused a command because another command changes the same collection. It had no effect.
pub(crate) fn is_busy(error: &CommandError) -> bool {
    code(error).is_some_and(|code| BUSY.contains(&code))
}

/// The attempts of a command that defines a collection.
pub(crate) struct Busy(Attempts);

impl Busy {
    /// The other command reads the collection, so the pauses are longer than for writers of one key.
    pub(crate) fn start() -> Self {
        let policy = RetryPolicy {
            base_delay: Duration::from_millis(10),
            max_elapsed: Duration::from_secs(30),
            ..RetryPolicy::default()
        };
        Self(policy.start())
    }

    /// Waits for the other client.
    pub(crate) async fn wait(&mut self, last: CommandError) -> Result<()> {
        if self.0.wait().await {
            return Ok(());
        }
        Err(self.0.tried(Error::from_driver(
            ErrorKind::Contention,
            "another client shards the collection or builds its indexes, and did not finish in time: call it again later, which completes what is missing",
            last,
        )))
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{deserialize_from_document, doc};
    use mongodb::error::{Error as DriverError, ErrorKind as DriverKind};

    use super::*;

    fn failed(code: i32) -> CommandError {
        let reply = doc! { "ok": 0, "code": code, "codeName": "Name", "errmsg": "" };
        DriverError::from(DriverKind::Command(deserialize_from_document(reply).unwrap())).into()
    }

    #[test]
    fn only_a_conflicting_definition_is_busy() {
        assert!(is_busy(&failed(117)) && is_busy(&failed(12587)));
        // No privilege, other options, an unsuitable index, a duplicate.
        for code in [13, 20, 23, 72, 85, 11000] {
            assert!(!is_busy(&failed(code)), "{code}");
        }
    }

    #[tokio::test]
    async fn the_wait_ends() {
        let mut busy = Busy(RetryPolicy::default().with_max_attempts(3).start());
        busy.wait(failed(117)).await.unwrap();
        busy.wait(failed(117)).await.unwrap();
        let error = busy.wait(failed(117)).await.unwrap_err();
        assert!(
            error.is_contention() && error.to_string().contains("call it again later"),
            "{error}"
        );
        assert_eq!(error.attempts(), Some(3));
    }
}
