//! Runs the table: the operations of all patterns, by several threads.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt;
use mongo_patterns_testkit as testkit;

use super::case::{Case, Undisturbed};
use super::dropped::Moment;
use super::fault::{FAULTS, Fault};
use super::operation::{Model, Operation, Operations, Promise};
use super::report::Report;
use super::{hostile, read_only};

/// A fault blocks its thread, so each has a runtime of its own. Most of the time the threads wait for the driver.
const WORKERS: usize = 6;

/// The operations of a model. A worker runs each `WORKERS`th of them.
type Suite = fn(usize, &Form, &Mutex<Report>);

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
    suites: Vec<Suite>,
    read_only: Vec<read_only::Suite>,
    hostile: Vec<hostile::Suite>,
}

impl Table {
    pub(super) fn add<M: Operations>(&mut self) {
        self.suites.push(suite::<M>);
        self.read_only.push(read_only::suite::<M>);
        self.hostile.push(hostile::suite::<M>);
    }

    /// Runs each operation by a user who may only read.
    pub(super) fn run_read_only(&self) {
        read_only::run(&self.read_only, WORKERS);
    }

    /// Runs each operation on documents that another program has changed.
    pub(super) fn run_hostile(&self, extent: Extent) {
        let (of, rounds) = if extent == Extent::Sample { (3, 1) } else { (1, 20) };
        hostile::run(&self.hostile, WORKERS, of, rounds);
    }

    pub(super) fn run(self, work: Work, extent: Extent) {
        let form = Arc::new(Form::of_environment(work, extent));
        let report = Arc::new(Mutex::new(Report::default()));
        let suites = Arc::new(self.suites);
        let started = Instant::now();
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let (form, report, suites) = (Arc::clone(&form), Arc::clone(&report), Arc::clone(&suites));
                let work = move || suites.iter().for_each(|suite| suite(worker, &form, &report));
                let thread = std::thread::Builder::new().name("fault_table".to_owned());
                thread.spawn(work).unwrap()
            })
            .collect();
        let ended: Vec<_> = workers.into_iter().map(std::thread::JoinHandle::join).collect();
        let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
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

fn suite<M: Operations>(worker: usize, form: &Form, report: &Mutex<Report>) {
    let operations = M::operations().into_iter().enumerate();
    let mine = operations.filter(|(number, operation)| {
        let is_asked = form.only.as_ref();
        let name = format!("{} {}", M::PATTERN, operation.name());
        number % WORKERS == worker && is_asked.is_none_or(|only| name.contains(only))
    });
    let mine: Vec<(usize, Operation<M>)> = mine.collect();
    if mine.is_empty() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(testkit::run(async |db| {
        // Different models begin with different faults.
        let mut turn = M::PATTERN.len() + M::COLLECTIONS.len();
        for (number, operation) in &mine {
            turn += number;
            let started = Instant::now();
            let case = Case { db, operation };
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
                    let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
                    report.routes().add(M::PATTERN, &operation.name(), &undisturbed.sent);
                    if operation.has_order {
                        report.traces().add::<M>(&operation.name(), &undisturbed.sent);
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
            println!("{} {}: {:.0?}", M::PATTERN, operation.name(), started.elapsed());
        }
    }));
}

async fn every_fault<M: Model>(
    case: &Case<'_, M>,
    undisturbed: &Undisturbed,
    form: &Form,
    turn: usize,
    report: &Mutex<Report>,
) {
    let operation = case.operation;
    let commands = undisturbed.commands.len();
    for command in 0..commands {
        for fault in form.faults(command, commands, turn) {
            // A failed case does not prevent the others.
            let ended = AssertUnwindSafe(case.run(undisturbed, command, fault))
                .catch_unwind()
                .await;
            let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
            match ended {
                Ok(ended) => report.add(M::PATTERN, &operation.name(), &undisturbed.commands, fault, &ended),
                Err(_) => report.fail(format!("{}, command {command}, {fault:?}", operation.name())),
            }
        }
    }
}

async fn every_drop<M: Model>(
    case: &Case<'_, M>,
    undisturbed: &Undisturbed,
    form: &Form,
    turn: usize,
    report: &Mutex<Report>,
) {
    let operation = case.operation;
    let commands = undisturbed.commands.len();
    for moment in form.moments(commands, turn) {
        let dropped = AssertUnwindSafe(case.drop_at(undisturbed, moment));
        let dropped = dropped.catch_unwind().await;
        let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
        match dropped {
            Ok(is_dropped) => report.add_drop(is_dropped),
            Err(_) => report.fail(format!("{}, dropped at {moment:?}", operation.name())),
        }
    }
    // A read does not wait for the holder.
    let times = match operation.promise {
        Promise::Reads => Vec::new(),
        _ => form.times_while_held(),
    };
    for time in times {
        let dropped = AssertUnwindSafe(case.drop_while_held(undisturbed, time));
        let dropped = dropped.catch_unwind().await;
        let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
        match dropped {
            Ok(is_dropped) => report.add_held_drop(is_dropped),
            Err(_) => report.fail(format!("{}, dropped after {time:?} while it is held", operation.name())),
        }
    }
}
