//! Calls of one process whose items are stored in batches, and one that stores alone.
//!
//! Mirrors the queues of `crates/core/src/batching.rs`, and `crates/subset/src/write/joined.rs`, by which transactional
//! inserts join. A change there requires the same change here. [`subset`](crate::subset) has the transaction itself.
//!
//! A call inserts one child. It inserts alone if no other call writes the parent, and its transaction is aborted when its future
//! is dropped. Otherwise it queues its child, and a task inserts what waits, in transactions. A transaction is one
//! step. It inserts all of its children, or is refused if one exists, or fails. Left out: the bound of a batch.

#[cfg(test)]
mod tests;

use stateright::{Model, Property};

/// How the children that wait are inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// By a task, which divides a refused batch.
    Ours,
    /// Naive: by the first call that waits, whose future can be dropped.
    ByCaller,
    /// Naive: a refused batch is refused for all of its calls.
    Undivided,
    /// Naive: the task finds the queue empty, and then removes it in another step.
    EndsInTwoSteps,
}

/// The calls on one parent.
#[derive(Clone, Debug)]
pub struct Process {
    /// How they join.
    pub form: Form,
    /// The child that each call inserts.
    pub children: Vec<u8>,
    /// A child that exists.
    pub existing: Option<u8>,
    /// How many futures are dropped, and transactions fail, in one run.
    pub faults: u8,
}

/// How a call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Ended {
    Stored,
    /// Another child has the id.
    Refused,
    /// Nothing is known of the child.
    Failed,
    Dropped,
}

/// The next step of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Start,
    /// Inserts alone, with the parent locked.
    Inserts,
    /// Its child is in the queue or in a batch.
    Waits,
    Ended(Ended),
}

/// The task that inserts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Task {
    /// The calls of the batch that are not answered yet.
    batch: Vec<usize>,
    /// How many of them the next transaction inserts.
    next: usize,
    has_lock: bool,
    /// Whether it has found the queue empty.
    is_ending: bool,
    /// The call that runs it, in the naive form.
    caller: Option<usize>,
}

/// Who has locked the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Owner {
    Call(usize),
    Task,
}

/// A state of the process and of the stored children.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Moment {
    calls: Vec<At>,
    /// How often each child is stored.
    stored: Vec<u8>,
    lock: Option<Owner>,
    /// The calls that wait. `None` if no task writes.
    queue: Option<Vec<usize>>,
    task: Option<Task>,
    faults: u8,
    has_joined: bool,
    has_divided: bool,
}

/// A step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A call runs up to its next `await`.
    Runs(usize),
    /// The task does.
    TaskRuns,
    /// The future of a call is dropped, and its transaction aborted.
    IsDropped(usize),
    /// The same, after the commit was sent.
    IsDroppedInCommit(usize),
    /// The transaction of the task fails. The flag is whether it has taken effect.
    TaskFails(bool),
}

impl Moment {
    /// Inserts children in one transaction. Returns whether none existed.
    fn insert(&mut self, children: &[u8]) -> bool {
        let mut after = self.stored.clone();
        for child in children {
            after[usize::from(*child)] += 1;
        }
        let is_new = |child: &u8| after[usize::from(*child)] == 1;
        let all_new = children.iter().all(is_new);
        if all_new {
            self.stored = after;
        }
        all_new
    }

    fn end(&mut self, call: usize, ended: Ended) {
        if self.calls[call] != At::Ended(Ended::Dropped) {
            self.calls[call] = At::Ended(ended);
        }
    }

    fn is_quiet(&self) -> bool {
        self.task.is_none() && self.calls.iter().all(|at| matches!(at, At::Ended(_)))
    }
}

impl Process {
    fn can_run(now: &Moment, call: usize) -> bool {
        matches!(now.calls[call], At::Start | At::Inserts)
    }

    fn task_can_run(now: &Moment) -> bool {
        // It waits for the lock.
        now.task
            .as_ref()
            .is_some_and(|task| task.batch.is_empty() || task.has_lock || now.lock.is_none())
    }

    fn run(&self, now: &mut Moment, call: usize) {
        if now.calls[call] == At::Inserts {
            let is_new = now.insert(&[self.children[call]]);
            now.end(call, if is_new { Ended::Stored } else { Ended::Refused });
            now.lock = None;
            return;
        }
        if now.lock.is_none() && now.queue.is_none() {
            now.lock = Some(Owner::Call(call));
            now.calls[call] = At::Inserts;
            return;
        }
        now.calls[call] = At::Waits;
        match &mut now.queue {
            Some(queue) => queue.push(call),
            None => {
                now.queue = Some(vec![call]);
                now.task = Some(Task {
                    batch: Vec::new(),
                    next: 0,
                    has_lock: false,
                    is_ending: false,
                    caller: (self.form == Form::ByCaller).then_some(call),
                });
            }
        }
    }

    fn run_task(&self, now: &mut Moment) {
        let Some(mut task) = now.task.take() else { return };
        if task.is_ending {
            now.queue = None;
            return;
        }
        if task.batch.is_empty() {
            let waiting = now.queue.as_mut().map(std::mem::take).unwrap_or_default();
            if waiting.is_empty() {
                task.is_ending = self.form == Form::EndsInTwoSteps;
                now.task = task.is_ending.then_some(task);
                now.queue = now.queue.take().filter(|_| now.task.is_some());
                return;
            }
            now.has_joined |= waiting.len() > 1;
            task.next = waiting.len();
            task.batch = waiting;
        } else if !task.has_lock {
            task.has_lock = true;
            now.lock = Some(Owner::Task);
        } else {
            let next = task.next.min(task.batch.len());
            let children: Vec<u8> = task.batch[..next].iter().map(|call| self.children[*call]).collect();
            let is_new = now.insert(&children);
            if is_new || next == 1 || self.form == Form::Undivided {
                for call in task.batch.drain(..next) {
                    now.end(call, if is_new { Ended::Stored } else { Ended::Refused });
                }
                task.next = next * 2;
            } else {
                now.has_divided = true;
                task.next = next / 2;
            }
            Self::unlock(now, &mut task);
        }
        now.task = Some(task);
    }

    fn fail_task(now: &mut Moment, children: &[u8], has_effect: bool) {
        let Some(mut task) = now.task.take() else { return };
        let next = task.next.min(task.batch.len());
        if has_effect {
            now.insert(children);
        }
        for call in task.batch.drain(..next) {
            now.end(call, Ended::Failed);
        }
        task.next = next * 2;
        Self::unlock(now, &mut task);
        now.task = Some(task);
    }

    fn unlock(now: &mut Moment, task: &mut Task) {
        task.has_lock = false;
        now.lock = None;
    }

    /// Returns the children of the transaction that the task sends next.
    fn sent(&self, now: &Moment) -> Option<Vec<u8>> {
        let task = now.task.as_ref().filter(|task| task.has_lock)?;
        let next = task.next.min(task.batch.len());
        Some(task.batch[..next].iter().map(|call| self.children[*call]).collect())
    }

    fn drop_call(&self, now: &mut Moment, call: usize, in_commit: bool) {
        if now.calls[call] == At::Inserts {
            if in_commit {
                now.insert(&[self.children[call]]);
            }
            now.lock = None;
        }
        now.calls[call] = At::Ended(Ended::Dropped);
        if now.task.as_ref().is_some_and(|task| task.caller == Some(call)) {
            if now.lock == Some(Owner::Task) {
                now.lock = None;
            }
            now.task = None;
        }
    }
}

impl Model for Process {
    type State = Moment;
    type Action = Step;

    fn init_states(&self) -> Vec<Moment> {
        let children = self.children.iter().chain(&self.existing).max();
        let mut stored = vec![0; children.map_or(0, |child| usize::from(*child) + 1)];
        if let Some(child) = self.existing {
            stored[usize::from(child)] = 1;
        }
        vec![Moment {
            calls: vec![At::Start; self.children.len()],
            stored,
            lock: None,
            queue: None,
            task: None,
            faults: self.faults,
            has_joined: false,
            has_divided: false,
        }]
    }

    fn actions(&self, now: &Moment, steps: &mut Vec<Step>) {
        for call in 0..now.calls.len() {
            if Self::can_run(now, call) {
                steps.push(Step::Runs(call));
            }
            if now.faults > 0 && !matches!(now.calls[call], At::Ended(_)) {
                steps.push(Step::IsDropped(call));
                if now.calls[call] == At::Inserts {
                    steps.push(Step::IsDroppedInCommit(call));
                }
            }
        }
        if Self::task_can_run(now) {
            steps.push(Step::TaskRuns);
        }
        if now.faults > 0 && self.sent(now).is_some() {
            steps.extend([Step::TaskFails(false), Step::TaskFails(true)]);
        }
    }

    fn next_state(&self, last: &Moment, step: Step) -> Option<Moment> {
        let mut now = last.clone();
        match step {
            Step::Runs(call) => self.run(&mut now, call),
            Step::TaskRuns => self.run_task(&mut now),
            Step::IsDropped(call) | Step::IsDroppedInCommit(call) => {
                now.faults -= 1;
                self.drop_call(&mut now, call, matches!(step, Step::IsDroppedInCommit(_)));
            }
            Step::TaskFails(has_effect) => {
                now.faults -= 1;
                let children = self.sent(&now)?;
                Self::fail_task(&mut now, &children, has_effect);
            }
        }
        Some(now)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no child is stored twice", |_, now: &Moment| {
                now.stored.iter().all(|stored| *stored <= 1)
            }),
            Property::always("no call waits forever", |_, now: &Moment| {
                let has_ended = |at: &At| matches!(at, At::Ended(_));
                let can_run = (0..now.calls.len()).any(|call| Self::can_run(now, call));
                now.calls.iter().all(has_ended) || can_run || Self::task_can_run(now)
            }),
            Property::always("an acknowledged child is stored", |process, now: &Moment| {
                let mut calls = now.calls.iter().zip(&process.children);
                calls.all(|(at, child)| *at != At::Ended(Ended::Stored) || now.stored[usize::from(*child)] == 1)
            }),
            Property::always("a call is refused for its own child alone", |process, now: &Moment| {
                let others = |child: u8| process.children.iter().filter(|other| **other == child).count() > 1;
                let may_exist = |child: u8| process.existing == Some(child) || others(child);
                let mut calls = now.calls.iter().zip(&process.children);
                calls.all(|(at, child)| *at != At::Ended(Ended::Refused) || may_exist(*child))
            }),
            Property::always("at the end nothing is locked or queued", |_, now: &Moment| {
                !now.is_quiet() || now.lock.is_none() && now.queue.is_none()
            }),
            Property::sometimes("calls join a transaction", |_, now: &Moment| now.has_joined),
            Property::sometimes("a refused batch is divided", |process, now: &Moment| {
                process.existing.is_none() || now.has_divided
            }),
            Property::sometimes("all calls end", |_, now: &Moment| now.is_quiet()),
        ]
    }
}
