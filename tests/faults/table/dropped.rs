//! Every public operation, dropped at each of its commands and at random moments.
//!
//! The caller drops the future while a command is on its way, which the server blocks for a moment. Then:
//!
//! - No transaction stays open on the server. Ending it takes one command: an abort, or the commit that had begun.
//! - The next call of the same process, started at once, runs each of its transactions once.
//! - The stored data is what the operation [promises](Promise) for a dropped future, and `verify` reports all damage.

use std::time::Duration;

use futures::future::{Either, select};
use mongo_patterns_testkit::{FailPoint, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use super::case::{Case, Undisturbed};
use super::operation::{Process, Promise};
use support::common::{dropped_commands, pause, quiet};

/// When the future is dropped.
#[derive(Clone, Copy, Debug)]
pub(super) enum Moment {
    /// As soon as this command is sent. The server executes it.
    Sent(usize),
    /// The same, while the server blocks the command.
    Blocked(usize),
    /// After this time, whatever it executes then.
    Elapsed(Duration),
}

/// How long the server blocks a command whose future is dropped. Longer than the next call needs to arrive.
const BLOCKED: Duration = Duration::from_millis(15);
/// How long a transaction may stay open after its future was dropped. The server itself aborts it after 60 seconds.
const ABORTED_WITHIN: Duration = Duration::from_secs(20);

impl Case<'_> {
    /// Returns whether the operation was dropped before its end.
    pub(super) async fn drop_at(&self, undisturbed: &Undisturbed, moment: Moment) -> bool {
        let (model, other) = self.begin().await;
        let context = format!("{}, dropped at {moment:?}", self.operation.name());
        let run = model.run(self.number);
        let is_dropped = match moment {
            Moment::Elapsed(time) => tokio::time::timeout(time, run).await.is_err(),
            Moment::Sent(command) => drop_when(run, self.db.recorder().sent(command + 1)).await,
            Moment::Blocked(command) => {
                let blocked = FailPoint::on(&[]).times(1).block(BLOCKED).plan(self.db, command);
                let is_dropped = drop_when(run, self.db.recorder().sent(command + 1)).await;
                let waits_for_no_reply = undisturbed.commands[command] == "getMore";
                if is_dropped && !waits_for_no_reply {
                    blocked.met(self.db, Duration::from_secs(2)).await;
                }
                blocked.end();
                is_dropped
            }
        };
        if !is_dropped {
            return false;
        }
        let sent = self.db.recorder().round_trips();
        let may_retry_at_once = !self.operation.in_session && self.operation.promise != Promise::PrefixOnce;
        if may_retry_at_once && self.is_even(moment) {
            let next = model.run(self.number).await;
            if let Err(error) = &next {
                let may_be_stored = self.operation.retry_errors.contains(&error.kind());
                let is_concurrent = self.operation.promise == Promise::Steps && error.is_contention();
                assert!(may_be_stored || is_concurrent, "{context}: the next call: {error:?}");
            } else if !undisturbed.commands.iter().any(|name| name == "createIndexes") {
                // An index build of the dropped call may still run, and conflicts with a transaction.
                self.check_attempts(sent, moment, &context);
            }
        }
        self.check_no_transactions(&context).await;
        self.check_end(sent, moment, &context);
        self.wait_until_settled(&*other).await;
        self.check_after_drop(undisturbed, (&*model, &*other), &context).await;
        true
    }

    fn is_even(&self, moment: Moment) -> bool {
        match moment {
            Moment::Sent(command) | Moment::Blocked(command) => command.is_multiple_of(2),
            Moment::Elapsed(time) => time.as_micros().is_multiple_of(2),
        }
    }

    /// Checks that each transaction that was begun since was begun once.
    fn check_attempts(&self, since: usize, moment: Moment, context: &str) {
        let commands = self.db.recorder().commands();
        let of_transaction = |command: &Document| {
            let number = command.get_i64("txnNumber").ok()?;
            Some((command.get("lsid").cloned()?, number))
        };
        let begun: Vec<(Bson, i64)> = commands[since..]
            .iter()
            .filter(|command| command.command.contains_key("startTransaction"))
            .filter_map(|command| of_transaction(&command.command))
            .collect();
        // After the last one that was begun, it ends a transaction that has found nothing to write: the dropped call has just
        // written it.
        let last = commands
            .iter()
            .rposition(|command| command.command.contains_key("startTransaction"));
        let before = &commands[since..last.unwrap_or(since).max(since)];
        let aborted = before.iter().filter(|command| {
            command.name == "abortTransaction"
                && of_transaction(&command.command).is_some_and(|transaction| begun.contains(&transaction))
        });
        let names: Vec<&str> = commands.iter().map(|command| command.name.as_str()).collect();
        assert!(
            aborted.count() <= late(moment),
            "{context}: the next call retried a transaction: {names:?}"
        );
    }

    /// Checks that the end of the transaction took one command, if the operation runs one transaction at a time.
    fn check_end(&self, since: usize, moment: Moment, context: &str) {
        let commands = self.db.recorder().commands();
        let of_transactions: Vec<&str> = commands[since..]
            .iter()
            .filter(|command| command.command.contains_key("autocommit"))
            .map(|command| command.name.as_str())
            .collect();
        let began_again = commands[since..]
            .iter()
            .any(|command| command.command.contains_key("startTransaction"));
        if self.operation.promise == Promise::Steps || began_again {
            return;
        }
        // The driver also ends the transaction of the caller's session, which does not exist on the server.
        let aborts = if self.operation.in_session { 2 } else { 1 };
        let is_end = |name: &&&str| matches!(**name, "abortTransaction" | "commitTransaction");
        let ends = of_transactions.iter().filter(is_end).count();
        let others = of_transactions.len() - ends;
        assert!(
            ends <= aborts && others <= late(moment),
            "{context}: {of_transactions:?}"
        );
    }

    pub(super) async fn check_no_transactions(&self, context: &str) {
        let closed = async {
            dropped_commands(self.db).await;
            while open_transactions(self.db).await > 0 {
                pause().await;
            }
        };
        let closed = tokio::time::timeout(ABORTED_WITHIN, closed).await;
        assert!(closed.is_ok(), "{context}: a transaction stays open on the server");
    }

    /// Waits until the server has executed its commands, and the process has ended its tasks.
    pub(super) async fn wait_until_settled(&self, other: &dyn Process) {
        let mut last = None;
        loop {
            quiet(self.db).await;
            let sent = self.db.recorder().round_trips();
            let now = (sent, other.facts().await, other.damage().await);
            if last.as_ref() == Some(&now) {
                return;
            }
            last = Some(now);
        }
    }
}

/// Returns whether the condition was true first, and the future was dropped.
async fn drop_when<T>(run: impl Future<Output = T> + Unpin, condition: impl Future<Output = ()>) -> bool {
    match select(run, Box::pin(condition)).await {
        Either::Left(_) => false,
        Either::Right(((), run)) => {
            drop(run);
            true
        }
    }
}

/// Returns how many commands of the dropped call may be sent after it: one that waited for a connection at that moment.
fn late(moment: Moment) -> usize {
    match moment {
        Moment::Sent(_) | Moment::Blocked(_) => 0,
        Moment::Elapsed(_) => 1,
    }
}

/// Returns how many transactions of the test's client are open on the server.
pub(crate) async fn open_transactions(db: &TestDatabase) -> usize {
    let commands = db.recorder().commands();
    let in_transactions = commands
        .iter()
        .filter(|command| command.command.contains_key("autocommit"));
    let mut sessions: Vec<Bson> = Vec::new();
    for command in in_transactions {
        let id = command.command.get_document("lsid").unwrap().get("id").unwrap();
        if !sessions.contains(id) {
            sessions.push(id.clone());
        }
    }
    if sessions.is_empty() {
        return 0;
    }
    let all = doc! { "$currentOp": { "allUsers": true, "idleSessions": true } };
    let of_test = doc! { "$match": { "lsid.id": { "$in": sessions }, "transaction.parameters.autocommit": false } };
    let admin = db.plain_client().database("admin");
    let command = doc! { "aggregate": 1, "pipeline": [all, of_test], "cursor": {} };
    let open = admin.run_command(command).await.unwrap();
    let cursor = open.get_document("cursor").unwrap();
    cursor.get_array("firstBatch").unwrap().len()
}
