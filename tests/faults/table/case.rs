//! The checks of one case: an operation, one of its commands, one fault.
//!
//! - A call that returns has taken effect once, and returns the same value as without a fault.
//! - A call that fails without an unknown outcome has stored nothing, or the prefix that its error reports, as the call
//!   [promises](Promise). With an unknown outcome or a dropped future, a part may be stored, and nothing else.
//! - Readers see the stored data. `verify` reports all damage, and nothing else.
//! - `repair` or a retry fixes the damage without losing data.
//! - A retry completes the operation, and duplicates nothing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::future::{Either, select};
use mongo_patterns::Error;
use mongo_patterns_testkit::{RecordedCommand, TestDatabase};
use mongodb::bson::Bson;

use super::fault::Fault;
use super::operation::{Of, Operation, Process, Promise, Suite, UNREAD};
use support::common::{dropped_commands, end_transactions, quiet};

/// When a lease is renewed at the earliest: after a third of the time for which the operations take one.
const RENEWED: Duration = Duration::from_millis(600);

/// The behaviour of an operation without a fault.
pub(super) struct Undisturbed {
    pub(super) commands: Vec<String>,
    pub(super) sent: Vec<RecordedCommand>,
    value: String,
    before: Vec<String>,
    after: Vec<String>,
    damage: Vec<String>,
    took: Duration,
}

impl Undisturbed {
    /// Returns whether these may not be the commands of the operation alone. A busy server can refuse a transaction, which then
    /// runs again, and be so slow that a lease is renewed.
    pub(super) fn is_disturbed(&self) -> bool {
        let mut sent = self.sent.iter();
        self.took > RENEWED || sent.any(|sent| sent.failed && sent.command.contains_key("autocommit"))
    }
}

/// The outcome of a case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// The command was not sent this time.
    NotHit,
    Done,
    /// The call failed with this kind of error.
    Failed(String),
    /// The future was dropped before its end.
    Dropped,
}

/// An outcome, and the state after it.
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    /// Whether `verify` reported damage.
    pub(super) found: bool,
    /// Whether the call stored anything although it did not return.
    pub(super) stored: bool,
}

/// A case, with the names for its failure message.
pub(super) struct Case<'a> {
    pub(super) db: &'a TestDatabase,
    pub(super) suite: &'a Suite,
    /// Its number in the suite.
    pub(super) number: usize,
    pub(super) operation: &'a Operation,
}

impl<'a> Case<'a> {
    pub(super) fn new(db: &'a TestDatabase, suite: &'a Suite, number: usize) -> Self {
        let operation = &suite.operations[number];
        Self {
            db,
            suite,
            number,
            operation,
        }
    }

    /// Fills the database. Returns a process that has sent nothing, and one that is not recorded.
    pub(super) async fn begin(&self) -> (Box<dyn Process>, Box<dyn Process>) {
        let plain = self.db.plain_client().database(self.db.database().name());
        let of = |database| {
            let plain = &plain;
            (self.suite.process)(Of { database, plain })
        };
        let (watched, other) = (of(self.db.database()), of(&plain));
        self.suite.empty(&plain).await;
        other.fill().await;
        other.prepare(self.number).await;
        self.db.recorder().clear();
        (watched, other)
    }

    /// Runs the operation without a fault.
    pub(super) async fn undisturbed(&self) -> Undisturbed {
        let (model, other) = self.begin().await;
        let name = self.operation.name();
        let before = sorted(other.facts().await);
        let started = Instant::now();
        let value = match model.run(self.number).await {
            Ok(value) => value,
            Err(error) => panic!("{name}: {error:?}"),
        };
        let took = started.elapsed();
        let sent = self.db.recorder().commands();
        let commands: Vec<String> = sent.iter().map(|command| command.name.clone()).collect();
        assert!(!commands.is_empty(), "{name} sends no command");
        assert_eq!(
            empty_batches(&sent),
            0,
            "{name} reads a cursor once more than needed: {commands:?}"
        );
        let after = sorted(other.facts().await);
        let damage = sorted(other.damage().await);
        assert_eq!(damage, sorted(other.found().await), "{name}");
        if self.operation.promise == Promise::Reads {
            assert_eq!(before, after, "{name}");
        }
        Undisturbed {
            commands,
            sent,
            value,
            before,
            after,
            damage,
            took,
        }
    }

    pub(super) async fn run(&self, undisturbed: &Undisturbed, command: usize, fault: Fault) -> Ended {
        let (model, other) = self.begin().await;
        let context = format!(
            "{}, command {command} ({}), {fault:?}",
            self.operation.name(),
            undisturbed.commands[command]
        );
        let (outcome, is_hit) = self.with_fault(&*model, command, fault).await;
        // A commit that the server did not receive or execute leaves an open transaction, which the server ends later.
        // The commands for two documents can have another order than before.
        let is_commit = self
            .db
            .recorder()
            .names()
            .get(command)
            .is_some_and(|name| name == "commitTransaction");
        let may_be_open = is_commit || self.operation.in_session;
        if outcome.is_none() || may_be_open && matches!(outcome, Some(Err(_))) {
            self.settle(&*other).await;
        } else if matches!(outcome, Some(Err(_))) {
            // A follower that ends with an error drops its commands for other documents, which run to their replies.
            dropped_commands(self.db).await;
            quiet(self.db).await;
        }
        let facts = sorted(other.facts().await);
        self.check_stored(undisturbed, &facts, outcome.as_ref(), &context);
        // A false duplicate key has an effect: the second of a new page counts as taken, and the page gets another
        // `_id`.
        if let (Some(Ok(value)), true) = (&outcome, fault != Fault::DuplicateKey) {
            assert_eq!(*value, undisturbed.value, "{context}");
        }
        let found = self.check_readable(&*other, &facts, &context).await;
        let ended = Ended {
            outcome: match &outcome {
                _ if !is_hit => Outcome::NotHit,
                None => Outcome::Dropped,
                Some(Ok(_)) => Outcome::Done,
                Some(Err(error)) => Outcome::Failed(format!("{:?}", error.kind())),
            },
            found: found && self.operation.promise != Promise::Reads,
            stored: facts != undisturbed.before,
        };
        if matches!(outcome, Some(Ok(_))) {
            return ended;
        }
        // Both a repair and a retry must lead to the final state.
        if command.is_multiple_of(2) && self.operation.promise != Promise::Reads {
            other.repair().await;
            assert_eq!(sorted(other.facts().await), facts, "{context}: after the repair");
        }
        self.retry(undisturbed, (&*model, &*other), outcome.as_ref(), &facts, &context)
            .await;
        ended
    }

    /// Checks the state after the future was dropped and all commands have ended.
    pub(super) async fn check_after_drop(
        &self,
        undisturbed: &Undisturbed,
        (model, other): (&dyn Process, &dyn Process),
        context: &str,
    ) {
        let facts = sorted(other.facts().await);
        self.check_stored(undisturbed, &facts, None, context);
        self.check_readable(other, &facts, context).await;
        self.retry(undisturbed, (model, other), None, &facts, context).await;
    }

    /// Returns the outcome, `None` if the future was dropped, and whether the fault hit a command.
    async fn with_fault(
        &self,
        model: &dyn Process,
        command: usize,
        fault: Fault,
    ) -> (Option<Result<String, Error>>, bool) {
        let planned = fault.fail_point().plan(self.db, command);
        let run = model.run(self.number);
        let outcome = match fault.caller_timeout() {
            None => Some(run.await),
            Some(timeout) => match select(run, Box::pin(self.db.recorder().sent(command + 1))).await {
                Either::Left((outcome, _)) => Some(outcome),
                Either::Right(((), run)) if timeout.is_zero() => {
                    drop(run);
                    None
                }
                Either::Right(((), run)) => tokio::time::timeout(timeout, run).await.ok(),
            },
        };
        if outcome.is_none() {
            planned.met(self.db, Duration::from_secs(2)).await;
        }
        let is_hit = planned.is_made();
        planned.end();
        (outcome, is_hit)
    }

    /// Waits until everything that a dropped call left behind has ended.
    async fn settle(&self, other: &dyn Process) {
        dropped_commands(self.db).await;
        quiet(self.db).await;
        end_transactions(self.db).await;
        self.wait_until_settled(other).await;
    }

    fn check_stored(
        &self,
        undisturbed: &Undisturbed,
        facts: &[String],
        outcome: Option<&Result<String, Error>>,
        context: &str,
    ) {
        let Undisturbed { before, after, .. } = undisturbed;
        let unknown = match outcome {
            Some(Ok(_)) => {
                assert_eq!(facts, after, "{context}");
                return;
            }
            Some(Err(error)) => {
                let context = format!("{context}: {error:?}");
                if self.operation.in_session && error.pattern().is_none() {
                    // The error is that of the caller's own commit.
                    assert!(facts == before || facts == after, "{context}: {facts:?}");
                    return;
                }
                assert_eq!(error.pattern(), Some(self.suite.pattern), "{context}");
                assert!(error.operation().is_some(), "{context}");
                error.is_outcome_unknown()
            }
            None => true,
        };
        let context = format!("{context}: {outcome:?}");
        let reported = match outcome {
            Some(Err(error)) => usize::try_from(error.stored_count().unwrap_or(0)).unwrap(),
            _ => 0,
        };
        match self.operation.promise {
            Promise::Reads => assert_eq!(facts, before, "{context}"),
            Promise::Atomic if unknown => assert!(facts == before || facts == after, "{context}: {facts:?}"),
            Promise::Atomic => assert_eq!(facts, if reported > 0 { after } else { before }, "{context}"),
            Promise::Prefix | Promise::PrefixOnce => {
                let stored = prefix(before, after, facts).unwrap_or_else(|| panic!("{context}: {facts:?}"));
                let reported = reported.saturating_sub(self.operation.stored_before);
                assert!(
                    stored == reported || unknown && stored > reported,
                    "{context}: the number of stored items is {stored}"
                );
            }
            Promise::Steps => assert!(is_between(before, after, facts), "{context}: {facts:?}"),
        }
    }

    /// Checks that readers and `verify` agree with the stored data. Returns whether there is damage.
    async fn check_readable(&self, other: &dyn Process, facts: &[String], context: &str) -> bool {
        if self.operation.promise == Promise::Reads {
            return false;
        }
        let (damage, found) = (sorted(other.damage().await), sorted(other.found().await));
        assert_eq!(damage, found, "{context}: the findings of verify");
        let readable: Vec<&String> = facts.iter().filter(|fact| !fact.starts_with(UNREAD)).collect();
        match other.read().await.map(sorted) {
            Some(read) => assert_eq!(
                read.iter().collect::<Vec<_>>(),
                readable,
                "{context}: the data of the readers"
            ),
            None => assert!(
                !found.is_empty() || self.operation.promise == Promise::Steps,
                "{context}: readers refuse to read"
            ),
        }
        !found.is_empty()
    }

    async fn retry(
        &self,
        undisturbed: &Undisturbed,
        (model, other): (&dyn Process, &dyn Process),
        outcome: Option<&Result<String, Error>>,
        facts: &[String],
        context: &str,
    ) {
        let Undisturbed {
            before, after, value, ..
        } = undisturbed;
        if self.operation.promise == Promise::PrefixOnce {
            let unknown = outcome.is_none_or(|outcome| outcome.as_ref().is_err_and(Error::is_outcome_unknown));
            if unknown || facts != before {
                return;
            }
        }
        let retried = loop {
            let retried = model.run(self.number).await;
            // If one of several concurrent transactions of a call fails, the driver aborts the others in the background.
            let is_conflict = retried.as_ref().is_err_and(Error::is_contention);
            // It also aborts the transaction of a caller in the background, and no lock delays the retry.
            let may_be = self.operation.promise == Promise::Steps || self.operation.in_session && outcome.is_none();
            if !may_be || !is_conflict {
                break retried;
            }
        };
        match retried {
            Ok(retry) if self.operation.promise == Promise::Reads => assert_eq!(&retry, value, "{context}: the retry"),
            Ok(_) => {}
            Err(error) => assert!(
                self.operation.retry_errors.contains(&error.kind()),
                "{context}: {outcome:?}, and the retry {error:?}"
            ),
        }
        assert_eq!(
            &sorted(other.facts().await),
            after,
            "{context}: {outcome:?}, after the retry"
        );
        if self.operation.promise != Promise::Reads {
            let damage = sorted(other.damage().await);
            assert_eq!(damage, undisturbed.damage, "{context}: {outcome:?}, after the retry");
            assert_eq!(damage, sorted(other.found().await), "{context}: after the retry");
        }
    }
}

/// Counts the replies to `getMore` without documents: the batch before was full, although it had all of them. Change
/// streams have no last batch.
fn empty_batches(commands: &[RecordedCommand]) -> usize {
    let is_stream = |sent: &RecordedCommand| {
        let stages = sent.command.get_array("pipeline").into_iter().flatten();
        let mut stages = stages.filter_map(Bson::as_document);
        stages.any(|stage| stage.contains_key("$changeStream"))
    };
    if commands.iter().any(is_stream) {
        return 0;
    }
    let is_empty = |sent: &&RecordedCommand| {
        let cursor = sent.reply.as_ref().and_then(|reply| reply.get_document("cursor").ok());
        cursor.is_some_and(|cursor| cursor.get_array("nextBatch").is_ok_and(Vec::is_empty))
    };
    commands.iter().filter(is_empty).count()
}

fn sorted(mut facts: Vec<String>) -> Vec<String> {
    facts.sort_unstable();
    facts
}

fn counts(facts: &[String]) -> BTreeMap<&String, usize> {
    let mut counts = BTreeMap::new();
    for fact in facts {
        *counts.entry(fact).or_default() += 1;
    }
    counts
}

/// Returns how many of the added facts are stored, if they are a prefix and all others are unchanged.
fn prefix(before: &[String], after: &[String], facts: &[String]) -> Option<usize> {
    let old = counts(before);
    let added: Vec<&String> = after.iter().filter(|fact| !old.contains_key(fact)).collect();
    let stored = facts.len().checked_sub(before.len())?;
    let mut expected: Vec<&String> = before.iter().chain(added.into_iter().take(stored)).collect();
    expected.sort_unstable();
    (expected == facts.iter().collect::<Vec<_>>()).then_some(stored)
}

/// Returns whether each fact is stored as before or as after the operation.
fn is_between(before: &[String], after: &[String], facts: &[String]) -> bool {
    let (before, after, facts) = (counts(before), counts(after), counts(facts));
    let of = |counts: &BTreeMap<&String, usize>, fact: &String| counts.get(fact).copied().unwrap_or(0);
    let all = before.keys().chain(after.keys()).chain(facts.keys());
    all.copied().all(|fact| {
        let (old, new, now) = (of(&before, fact), of(&after, fact), of(&facts, fact));
        (old.min(new)..=old.max(new)).contains(&now)
    })
}
