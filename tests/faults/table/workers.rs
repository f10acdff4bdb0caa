//! Runs the table: the operations of all patterns, by several threads.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use futures::FutureExt;
use mongo_patterns_testkit as testkit;

use super::case::{Case, Undisturbed};
use super::dropped::Moment;
use super::fault::{FAULTS, Fault};
use super::operation::{Operations, Promise, Suite};
use super::report::Report;
use super::{hostile, read_only};

/// A fault blocks its thread, so each has a runtime of its own. Most of the time the threads wait for the driver.
const WORKERS: usize = 6;

/// What happens to each command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// A fault.
    Faults,
    /// The caller drops the future.
    Drops,
    /// Both, or for a call that writes nothing one of them, by turns. The commands of all operations are held against the rules
    /// of a router.
    Both,
}

/// How many of the cases are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// One of each operation, for `cargo test`.
    Sample,
    /// Some at each command, for `cargo xtask ci --full`.
    Commands,
    /// All, for `cargo xtask long`.
    All,
}

#[derive(Default)]
pub(super) struct Table {
    pub(super) suites: Vec<Suite>,
}

impl Table {
    pub(super) fn add<M: Operations>(&mut self) {
        self.suites.push(Suite::of::<M>());
    }

    /// Runs each operation by a user who may only read.
    pub(super) fn run_read_only(&self) {
        read_only::run(&self.suites, WORKERS);
    }

    /// Runs each operation on documents that another program has changed.
    pub(super) fn run_hostile(&self, extent: Extent) {
        let (of, rounds) = if extent == Extent::Sample { (3, 1) } else { (1, 20) };
        hostile::run(&self.suites, WORKERS, of, rounds);
    }

    pub(super) fn run(&self, work: Work, extent: Extent) {
        let form = Form::of_environment(work, extent);
        let report = Mutex::new(Report::default());
        let started = Instant::now();
        let work_on = |worker: usize| {
            for suite in &self.suites {
                run_suite(suite, worker, &form, &report);
            }
        };
        let ended: Vec<_> = thread::scope(|scope| {
            let start = |worker| {
                let thread = thread::Builder::new().name("fault_table".to_owned());
                thread.spawn_scoped(scope, move || work_on(worker)).unwrap()
            };
            let workers: Vec<_> = (0..WORKERS).map(start).collect();
            workers.into_iter().map(thread::ScopedJoinHandle::join).collect()
        });
        let report = &mut *lock(&report);
        println!(
            "{} cases, {} drops, {} while the documents are held, in {:.0?}",
            report.cases(),
            report.drops(),
            report.held_drops(),
            started.elapsed()
        );
        if let (Work::Faults, Ok(path)) = (work, std::env::var("MONGO_PATTERNS_TABLE")) {
            std::fs::write(path, report.markdown()).unwrap();
        }
        for ended in ended {
            ended.unwrap_or_else(|panic| resume_unwind(panic));
        }
        assert!(report.failed().is_empty(), "failed cases: {:#?}", report.failed());
        if work == Work::Both && form.only.is_none() {
            report.routes().check();
            report.traces().check();
        }
        let all = report.cases() + report.drops();
        let least = if extent == Extent::Sample { 100 } else { 300 };
        assert!(form.only.is_some() || all > least, "{all} cases");
        let is_held = work == Work::Drops && extent != Extent::Sample;
        let held = report.held_drops();
        assert!(
            form.only.is_some() || !is_held || held > 50,
            "{held} while the documents are held"
        );
    }
}

/// Which of the cases are run.
struct Form {
    work: Work,
    extent: Extent,
    seed: usize,
    only: Option<String>,
}

impl Form {
    fn of_environment(work: Work, extent: Extent) -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            work,
            extent: match variable("MONGO_PATTERNS_LONG") {
                Some(_) if extent == Extent::Commands => Extent::All,
                _ => extent,
            },
            seed: variable("MONGO_PATTERNS_SEED").map_or(0, |seed| seed.parse().unwrap()),
            only: variable("MONGO_PATTERNS_ONLY"),
        }
    }

    /// Returns the moments at which an operation with `commands` commands is dropped. `before` is the number of commands of
    /// earlier operations, by which a sample takes turns.
    fn moments(&self, commands: usize, before: usize) -> Vec<Moment> {
        let turn = self.seed + before;
        let (random, step) = match self.extent {
            Extent::Sample if turn.is_multiple_of(2) => return vec![Moment::Sent(turn % commands)],
            Extent::Sample => return vec![Moment::Blocked(turn % commands)],
            Extent::Commands => (2, 3),
            Extent::All => (60, 1),
        };
        let longest = u64::try_from(commands).unwrap() * 1500;
        let random = (0..random).map(|_| Moment::Elapsed(Duration::from_micros(fastrand::u64(0..longest))));
        let sent = (0..commands).map(Moment::Sent);
        let blocked = (0..commands).step_by(step).map(Moment::Blocked);
        sent.chain(blocked).chain(random).collect()
    }

    /// Returns the times after which an operation is dropped while another client holds its documents.
    fn times_while_held(&self) -> Vec<Duration> {
        let milliseconds: &[u64] = match self.extent {
            Extent::Sample => &[],
            Extent::Commands => &[20],
            Extent::All => &[2, 5, 20, 100],
        };
        milliseconds.iter().copied().map(Duration::from_millis).collect()
    }

    /// Returns the faults at one command of an operation with `commands` commands. Unless all are run, that is one, and one
    /// for an operation of those that delay the driver by half a second. `before` is as in [`moments`](Self::moments).
    fn faults(&self, command: usize, commands: usize, before: usize) -> Vec<Fault> {
        let turn = self.seed + before;
        match self.extent {
            Extent::All => return FAULTS.to_vec(),
            Extent::Sample if turn % commands == command => return vec![FAULTS[turn % FAULTS.len()]],
            Extent::Sample => return Vec::new(),
            Extent::Commands => {}
        }
        let (slow, quick): (Vec<Fault>, Vec<Fault>) = FAULTS.into_iter().partition(|fault| fault.is_slow());
        let mut faults = vec![quick[(turn + command) % quick.len()]];
        if turn % commands == command {
            faults.push(slow[turn % slow.len()]);
        }
        faults
    }
}

fn lock(report: &Mutex<Report>) -> MutexGuard<'_, Report> {
    report.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs each `WORKERS`th of the operations.
fn run_suite(suite: &Suite, worker: usize, form: &Form, report: &Mutex<Report>) {
    let mine = (worker..suite.operations.len()).step_by(WORKERS);
    let is_asked = |number: &usize| {
        let name = suite.name(&suite.operations[*number]);
        form.only.as_ref().is_none_or(|only| name.contains(only))
    };
    let mine: Vec<usize> = mine.filter(is_asked).collect();
    if mine.is_empty() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(testkit::run(async |db| {
        // Different models begin with different faults.
        let mut turn = suite.pattern.len() + suite.collections.len();
        for number in mine {
            turn += number;
            let started = Instant::now();
            let case = Case::new(db, suite, number);
            let operation = case.operation;
            let mut undisturbed = case.undisturbed().await;
            for _ in 0..3 {
                if undisturbed.is_disturbed() {
                    undisturbed = case.undisturbed().await;
                }
            }
            let (fails, is_dropped) = match form.work {
                Work::Faults => (true, false),
                Work::Drops => (false, true),
                Work::Both => {
                    let mut report = lock(report);
                    report.routes().add(suite.pattern, &operation.name(), &undisturbed.sent);
                    if operation.has_order {
                        report.traces().add(suite.model, &operation.name(), &undisturbed.sent);
                    }
                    let writes = operation.promise != Promise::Reads;
                    let is_even = (number / WORKERS + worker).is_multiple_of(2);
                    (writes || !is_even, writes || is_even)
                }
            };
            if fails {
                every_fault(&case, &undisturbed, form, turn, report).await;
            }
            if is_dropped {
                every_drop(&case, &undisturbed, form, turn, report).await;
            }
            turn += undisturbed.commands.len();
            println!("{}: {:.0?}", suite.name(operation), started.elapsed());
        }
    }));
}

/// Runs a case. A failed one does not prevent the others.
async fn ended<T>(case: impl Future<Output = T>, name: impl Fn() -> String, report: &Mutex<Report>) -> Option<T> {
    let ended = AssertUnwindSafe(case).catch_unwind().await;
    if ended.is_err() {
        lock(report).fail(name());
    }
    ended.ok()
}

async fn every_fault(case: &Case<'_>, undisturbed: &Undisturbed, form: &Form, turn: usize, report: &Mutex<Report>) {
    let operation = case.operation.name();
    let commands = undisturbed.commands.len();
    for command in 0..commands {
        for fault in form.faults(command, commands, turn) {
            let name = || format!("{operation}, command {command}, {fault:?}");
            if let Some(ended) = ended(case.run(undisturbed, command, fault), name, report).await {
                lock(report).add(case.suite.pattern, &operation, &undisturbed.commands, fault, &ended);
            }
        }
    }
}

async fn every_drop(case: &Case<'_>, undisturbed: &Undisturbed, form: &Form, turn: usize, report: &Mutex<Report>) {
    let operation = case.operation.name();
    for moment in form.moments(undisturbed.commands.len(), turn) {
        let name = || format!("{operation}, dropped at {moment:?}");
        if let Some(is_dropped) = ended(case.drop_at(undisturbed, moment), name, report).await {
            lock(report).add_drop(is_dropped);
        }
    }
    // A read does not wait for the holder.
    if case.operation.promise == Promise::Reads {
        return;
    }
    for time in form.times_while_held() {
        let name = || format!("{operation}, dropped after {time:?} while it is held");
        if let Some(is_dropped) = ended(case.drop_while_held(undisturbed, time), name, report).await {
            lock(report).add_held_drop(is_dropped);
        }
    }
}
