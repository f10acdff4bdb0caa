//! One operation, one of its commands, one fault: what must hold.
//!
//! - A call that returns did all, once, and says the same as undisturbed.
//! - An error that does not say that its outcome is unknown stored nothing, or a prefix as long as it tells, as the
//!   call [promises](Promise). Otherwise, and when the caller went away, a part may be stored, and nothing else.
//! - Readers see what is stored, and `verify` tells what is wrong with it and nothing else.
//! - What is wrong is mended by `repair`, without a loss, or by calling again.
//! - Called again, it does what is left of it, and nothing twice.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::{Either, select};
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::TestDatabase;

use super::fault::Fault;
use super::operation::{Model, Of, Operation, Promise, UNREAD, empty};
use crate::common::support::{at_least, dropped_commands, end_transactions, quiet};

/// What an operation does when nothing disturbs it.
pub(super) struct Undisturbed {
    pub(super) commands: Vec<String>,
    value: String,
    before: Vec<String>,
    after: Vec<String>,
    damage: Vec<String>,
}

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// The command did not come this time.
    NotMet,
    Done,
    /// By the kind of the error.
    Failed(String),
    /// The caller was gone before the end.
    Gone,
}

/// An outcome, and what was left.
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    /// Whether `verify` had something to tell.
    pub(super) found: bool,
    /// Whether something of the call was stored although it did not return.
    pub(super) stored: bool,
}

/// A case: everything that is needed to name it when it fails.
pub(super) struct Case<'a, M> {
    pub(super) db: &'a TestDatabase,
    pub(super) operation: &'a Operation<M>,
}

impl<M: Model> Case<'_, M> {
    /// Fills the database, and gives a process that has sent nothing.
    pub(super) async fn begin(&self) -> (M, M) {
        let of = |recorded| M::new(Of { db: self.db, recorded });
        let (watched, other) = (of(true), of(false));
        empty::<M>(self.db).await;
        other.fill().await;
        (self.operation.prepare)(&other).await;
        self.db.recorder().clear();
        (watched, other)
    }

    /// `None` where the server is too old for it, and the operation says so.
    pub(super) async fn undisturbed(&self) -> Option<Undisturbed> {
        let (model, other) = self.begin().await;
        let name = self.operation.name();
        let before = sorted(other.facts().await);
        let value = match (self.operation.run)(&model).await {
            Ok(value) => value,
            Err(error) if error.kind() == ErrorKind::Unsupported && !at_least(self.db, 6) => return None,
            Err(error) => panic!("{name}: {error:?}"),
        };
        let commands = self.db.recorder().names();
        assert!(!commands.is_empty(), "{name} sends nothing");
        let after = sorted(other.facts().await);
        let damage = sorted(other.damage().await);
        assert_eq!(damage, sorted(other.found().await), "{name}");
        if self.operation.promise == Promise::Reads {
            assert_eq!(before, after, "{name}");
        }
        Some(Undisturbed {
            commands,
            value,
            before,
            after,
            damage,
        })
    }

    pub(super) async fn run(&self, undisturbed: &Undisturbed, command: usize, fault: Fault) -> Ended {
        let (model, other) = self.begin().await;
        let context = format!(
            "{}, command {command} ({}), {fault:?}",
            self.operation.name(),
            undisturbed.commands[command]
        );
        let (outcome, is_met) = self.with_fault(&model, command, fault).await;
        // A commit that did not come to the server, or that it did not do, leaves a transaction that it ends later.
        // Commands of two documents can be sent in another order than before.
        let is_commit = self
            .db
            .recorder()
            .names()
            .get(command)
            .is_some_and(|name| name == "commitTransaction");
        let may_be_open = is_commit || self.operation.in_session;
        if outcome.is_none() || may_be_open && matches!(outcome, Some(Err(_))) {
            self.settle(&other).await;
        }
        let facts = sorted(other.facts().await);
        self.check_stored(undisturbed, &facts, outcome.as_ref(), &context);
        // A duplicate key that is none is believed: the second of a new page counts as taken, and it gets another `_id`.
        if let (Some(Ok(value)), true) = (&outcome, fault != Fault::DuplicateKey) {
            assert_eq!(*value, undisturbed.value, "{context}");
        }
        let found = self.check_readable(&other, &facts, &context).await;
        let ended = Ended {
            outcome: match &outcome {
                _ if !is_met => Outcome::NotMet,
                None => Outcome::Gone,
                Some(Ok(_)) => Outcome::Done,
                Some(Err(error)) => Outcome::Failed(format!("{:?}", error.kind())),
            },
            found: found && self.operation.promise != Promise::Reads,
            stored: facts != undisturbed.before,
        };
        if matches!(outcome, Some(Ok(_))) {
            return ended;
        }
        // Either way must lead to the end.
        if command.is_multiple_of(2) && self.operation.promise != Promise::Reads {
            other.repair().await;
            assert_eq!(sorted(other.facts().await), facts, "{context}: the repair");
        }
        self.again(undisturbed, &model, &other, outcome.as_ref(), &facts, &context)
            .await;
        ended
    }

    /// What must hold after the caller went away and nothing is under way any more.
    pub(super) async fn check_after_drop(&self, undisturbed: &Undisturbed, model: &M, other: &M, context: &str) {
        let facts = sorted(other.facts().await);
        self.check_stored(undisturbed, &facts, None, context);
        self.check_readable(other, &facts, context).await;
        self.again(undisturbed, model, other, None, &facts, context).await;
    }

    /// `None` when the caller went away; and whether the command came.
    async fn with_fault(&self, model: &M, command: usize, fault: Fault) -> (Option<Result<String, Error>>, bool) {
        let planned = fault.fail_point().plan(self.db, command);
        let run = (self.operation.run)(model);
        let outcome = match fault.patience() {
            None => Some(run.await),
            Some(patience) => match select(run, Box::pin(self.db.recorder().sent(command + 1))).await {
                Either::Left((outcome, _)) => Some(outcome),
                Either::Right(((), run)) if patience.is_zero() => {
                    drop(run);
                    None
                }
                Either::Right(((), run)) => tokio::time::timeout(patience, run).await.ok(),
            },
        };
        if outcome.is_none() {
            planned.met(self.db, Duration::from_secs(2)).await;
        }
        let is_met = planned.is_made();
        planned.end();
        (outcome, is_met)
    }

    /// Waits until what a caller left behind is at its end.
    async fn settle(&self, other: &M) {
        dropped_commands(self.db).await;
        quiet(self.db).await;
        end_transactions(self.db).await;
        // A task of the repository may go on, and a server with what it got last.
        let mut last = None;
        loop {
            quiet(self.db).await;
            let now = (
                self.db.recorder().round_trips(),
                other.facts().await,
                other.damage().await,
            );
            if last.as_ref() == Some(&now) {
                return;
            }
            last = Some(now);
        }
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
                    // Of the caller's own commit.
                    assert!(facts == before || facts == after, "{context}: {facts:?}");
                    return;
                }
                assert_eq!(error.pattern(), Some(M::PATTERN), "{context}");
                assert!(error.operation().is_some(), "{context}");
                error.is_outcome_unknown()
            }
            None => true,
        };
        let context = format!("{context}: {outcome:?}");
        let told = match outcome {
            Some(Err(error)) => usize::try_from(error.stored_count().unwrap_or(0)).unwrap(),
            _ => 0,
        };
        match self.operation.promise {
            Promise::Reads => assert_eq!(facts, before, "{context}"),
            Promise::Whole if unknown => assert!(facts == before || facts == after, "{context}: {facts:?}"),
            Promise::Whole => assert_eq!(facts, if told > 0 { after } else { before }, "{context}"),
            Promise::Prefix | Promise::PrefixOnce => {
                let stored = prefix(before, after, facts).unwrap_or_else(|| panic!("{context}: {facts:?}"));
                let told = told.saturating_sub(self.operation.known);
                assert!(
                    stored == told || unknown && stored > told,
                    "{context}: {stored} are stored"
                );
            }
            Promise::Steps => assert!(is_between(before, after, facts), "{context}: {facts:?}"),
        }
    }

    /// Returns whether something is wrong.
    async fn check_readable(&self, other: &M, facts: &[String], context: &str) -> bool {
        if self.operation.promise == Promise::Reads {
            return false;
        }
        let (damage, found) = (sorted(other.damage().await), sorted(other.found().await));
        assert_eq!(damage, found, "{context}: what verify tells");
        let readable: Vec<&String> = facts.iter().filter(|fact| !fact.starts_with(UNREAD)).collect();
        match other.read().await.map(sorted) {
            Some(read) => assert_eq!(read.iter().collect::<Vec<_>>(), readable, "{context}: what readers see"),
            None => assert!(
                !found.is_empty() || self.operation.promise == Promise::Steps,
                "{context}: readers refuse to read"
            ),
        }
        !found.is_empty()
    }

    async fn again(
        &self,
        undisturbed: &Undisturbed,
        model: &M,
        other: &M,
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
        let again = loop {
            let again = (self.operation.run)(model).await;
            // It works on several documents at a time. The driver ends the transactions of the others behind its back.
            let is_in_the_way = again.as_ref().is_err_and(Error::is_contention);
            // So do the transactions of a caller, which nothing keeps apart.
            let may_be = self.operation.promise == Promise::Steps || self.operation.in_session && outcome.is_none();
            if !may_be || !is_in_the_way {
                break again;
            }
        };
        match again {
            Ok(again) if self.operation.promise == Promise::Reads => assert_eq!(&again, value, "{context}: again"),
            Ok(_) => {}
            Err(error) => assert!(
                self.operation.again.contains(&error.kind()),
                "{context}: {outcome:?}, and called again {error:?}"
            ),
        }
        assert_eq!(
            &sorted(other.facts().await),
            after,
            "{context}: {outcome:?}, and called again"
        );
        if self.operation.promise != Promise::Reads {
            let damage = sorted(other.damage().await);
            assert_eq!(damage, undisturbed.damage, "{context}: {outcome:?}, and called again");
            assert_eq!(damage, sorted(other.found().await), "{context}: called again");
        }
    }
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

/// How many of what a call adds are there, if those are its first ones and all else is as it was.
fn prefix(before: &[String], after: &[String], facts: &[String]) -> Option<usize> {
    let old = counts(before);
    let added: Vec<&String> = after.iter().filter(|fact| !old.contains_key(fact)).collect();
    let stored = facts.len().checked_sub(before.len())?;
    let mut expected: Vec<&String> = before.iter().chain(added.into_iter().take(stored)).collect();
    expected.sort_unstable();
    (expected == facts.iter().collect::<Vec<_>>()).then_some(stored)
}

/// Whether all is there that is before and after, and nothing that is neither.
fn is_between(before: &[String], after: &[String], facts: &[String]) -> bool {
    let (before, after, facts) = (counts(before), counts(after), counts(facts));
    let of = |counts: &BTreeMap<&String, usize>, fact: &String| counts.get(fact).copied().unwrap_or(0);
    let all = before.keys().chain(after.keys()).chain(facts.keys());
    all.copied().all(|fact| {
        let (old, new, now) = (of(&before, fact), of(&after, fact), of(&facts, fact));
        (old.min(new)..=old.max(new)).contains(&now)
    })
}
