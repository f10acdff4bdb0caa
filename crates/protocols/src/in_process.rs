//! The outlier pattern within one process: the locks of each call, and what happens when its future is dropped.
//!
//! Mirrors the locks `pushes`, `locks` and `openers` of `crates/outlier/src/repository.rs`, and the order in which the
//! modules `write`, `repair` and `action` take them. It also mirrors `exclusive_all` of `crates/core/src/key_locks.rs`,
//! and what `session.rs` does with a transaction whose future is dropped. A change there requires the same change in
//! [`call`].
//!
//! All tasks are of one process. Two documents share their locks, or have locks of their own. A main document is full,
//! so each push goes to overflow documents. Left out: elements, retries, and other processes, which
//! [`outlier`](crate::outlier) has.

pub mod call;
pub mod lock;
#[cfg(test)]
mod tests;

use stateright::{Model, Property};

use call::{Call, Task};
use lock::Locks;

/// How calls lock and unlock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// Naive: verify does not wait for pushes.
    pub verify_ignores_pushes: bool,
    /// Naive: the stream of verify returns a finding while it reads another document.
    pub verify_is_buffered: bool,
    /// Naive: a task locks several keys in the order that its caller gives.
    pub locks_in_any_order: bool,
    /// What happens to the transaction of a future that is dropped.
    pub dropped: Dropped,
}

/// What happens to the transaction of a future that is dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dropped {
    /// The server aborts it after the reply of the command on its way. Then the key is unlocked.
    #[default]
    AbortsThenUnlocks,
    /// Naive: the key is unlocked at once.
    UnlocksAtOnce,
    /// Naive: it stays open.
    StaysOpen,
}

/// The calls of one process.
#[derive(Clone, Debug)]
pub struct Process {
    /// How they lock.
    pub form: Form,
    /// The lock of each document: a shared one, or one each.
    pub stripes: [usize; 2],
    /// The initial states.
    pub starts: Vec<([Document; 2], Vec<Call>)>,
    /// How many futures are dropped in one run.
    pub drops: u8,
}

/// A main document and its overflow documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Document {
    /// Whether the main document exists.
    pub exists: bool,
    /// Its flag.
    pub flag: bool,
    /// Whether overflow documents exist.
    pub has_extras: bool,
    /// The number of elements that still fit into the newest of these.
    pub room: u8,
    /// The task whose transaction has written to it.
    pub transaction: Option<usize>,
}

impl Document {
    /// One with a full array, and no overflow documents.
    pub const FULL: Self = Self {
        exists: true,
        flag: false,
        has_extras: false,
        room: 0,
        transaction: None,
    };
    /// The same, with a flag although there are no overflow documents.
    pub const FLAGGED: Self = Self {
        flag: true,
        ..Self::FULL
    };
    /// Neither a main document nor overflow documents.
    pub const NONE: Self = Self {
        exists: false,
        ..Self::FULL
    };
}

/// A state of the process and the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Moment {
    documents: [Document; 2],
    tasks: Vec<Task>,
    locks: Locks,
    drops: u8,
    /// Whether a command met a transaction of the same process.
    has_collided: bool,
    /// Whether verify read a document while a push was between its flag and its overflow documents.
    read_between: bool,
    /// Whether an element was acknowledged that a reader who follows the flag does not find.
    hidden: bool,
}

/// A step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A task runs up to its next `await`.
    Runs(usize),
    /// A task's future is dropped.
    IsDropped(usize),
    /// The transaction of a dropped future is aborted.
    Ends(usize),
}

impl Model for Process {
    type State = Moment;
    type Action = Step;

    fn init_states(&self) -> Vec<Moment> {
        let starts = self.starts.iter().map(|(documents, calls)| Moment {
            documents: *documents,
            tasks: calls.iter().copied().map(Task::new).collect(),
            locks: Locks::default(),
            drops: self.drops,
            has_collided: false,
            read_between: false,
            hidden: false,
        });
        starts.collect()
    }

    fn actions(&self, now: &Moment, steps: &mut Vec<Step>) {
        for at in 0..now.tasks.len() {
            if now.tasks[at].is_aborting() {
                steps.push(Step::Ends(at));
            } else if !now.tasks[at].has_ended() {
                if self.is_polled(now, at) && !now.locks.is_waiting(at) {
                    steps.push(Step::Runs(at));
                }
                if now.drops > 0 {
                    steps.push(Step::IsDropped(at));
                }
            }
        }
    }

    fn next_state(&self, last: &Moment, step: Step) -> Option<Moment> {
        let mut now = last.clone();
        match step {
            Step::Runs(at) => self.run(&mut now, at),
            Step::IsDropped(at) => {
                now.drops -= 1;
                self.drop_task(&mut now, at);
            }
            Step::Ends(at) => self.end(&mut now, at),
        }
        Some(now)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no task waits forever", |process, now: &Moment| {
                let makes_progress = |at: usize| {
                    let task = &now.tasks[at];
                    task.is_aborting() || process.is_polled(now, at) && !now.locks.is_waiting(at)
                };
                let mut left = (0..now.tasks.len()).filter(|at| !now.tasks[*at].has_ended()).peekable();
                left.peek().is_none() || left.any(makes_progress)
            }),
            Property::always("no call meets a transaction of its process", |_, now: &Moment| {
                !now.has_collided
            }),
            Property::always("no transaction stays open", |_, now: &Moment| {
                !now.tasks.iter().all(Task::has_ended)
                    || now.documents.iter().all(|document| document.transaction.is_none())
            }),
            Property::always(
                "verify never reads a document in the middle of a push",
                |_, now: &Moment| !now.read_between,
            ),
            Property::always(
                "a reader who follows the flag finds each acknowledged element",
                |_, now: &Moment| !now.hidden,
            ),
            Property::always("an ended call has released all locks", |_, now: &Moment| {
                let mut ended = (0..now.tasks.len()).filter(|at| now.tasks[*at].has_ended());
                ended.all(|at| !now.locks.has_any(at))
            }),
            Property::sometimes("a task waits for a lock", |_, now: &Moment| {
                (0..now.tasks.len()).any(|at| now.locks.is_waiting(at))
            }),
            Property::sometimes("all calls end", |_, now: &Moment| now.tasks.iter().all(Task::has_ended)),
        ]
    }
}
