//! The lanes of one process, in which calls wait and join, and what happens when futures are dropped.
//!
//! Mirrors `lanes.rs`, `lanes/joined.rs`, `conn.rs`, `conn/flight.rs` and `rounds.rs` in `crates/core/src`.
//!
//! Each call stores one item. A call that joins takes the lane of its document if it is free, and then sends its command
//! alone. Otherwise it queues its item, and a task sends what waits, in batches. A call that does not join waits for the
//! lane. A command is executed by the server at any later moment. At any moment the future of a call is dropped, a reply
//! is lost, or a runtime ends with its calls and tasks. A command without a client can still be executed, or not.
//!
//! Left out: retries, the bound of a batch, and other processes, which the models of the patterns have.

mod ended;
mod run;
#[cfg(test)]
pub(crate) mod tests;

use stateright::{Model, Property};

/// How calls wait, join and are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As the code does.
    Ours,
    /// Naive: a dropped call frees its lane at once, while a task runs its command to the reply.
    FreesLane,
    /// Naive: a command is dropped with its future, and its session returns to the pool.
    DropsCommand,
    /// Naive: the transaction of a dropped call stays open.
    LeavesTransactionOpen,
    /// Naive: the first call that waits sends the batches, and its future can be dropped.
    ByCaller,
    /// Naive: a refused batch is refused for all of its calls.
    Undivided,
    /// Naive: an item stays in the queue when its call is dropped.
    KeepsDroppedItems,
    /// Naive: the task finds the queue empty, and then removes it in another step.
    EndsInTwoSteps,
    /// Naive: a task that ends with its runtime leaves its queue.
    LeavesQueue,
    /// Naive: a call waits for several lanes in the order that its caller gives.
    InAnyOrder,
    /// Naive: a stream returns the result of one call while it does not poll others.
    BufferedStream,
}

/// A call, which stores one item.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// Its documents, in the order that its caller gives.
    pub documents: Vec<usize>,
    /// Whether its item can join those of others.
    pub joins: bool,
    /// Whether the server refuses its item.
    pub is_refused: bool,
    /// The runtime that polls it. The first one can end.
    pub runtime: usize,
    /// Who polls it.
    pub place: Place,
}

/// Who polls a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// A task of its own.
    #[default]
    Task,
    /// A stream.
    Stream,
    /// The reader of that stream, between two results.
    Reader,
}

/// The calls of one process.
#[derive(Clone, Debug)]
pub struct Process {
    /// How they wait, join and are dropped.
    pub form: Form,
    /// The calls.
    pub calls: Vec<Call>,
    /// Whether they write in a transaction of two commands: the write and the commit.
    pub in_transaction: bool,
    /// How many futures are dropped, and replies are lost, in one run.
    pub faults: u8,
    /// Whether the first runtime can end.
    pub can_end: bool,
}

/// How a call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Ended {
    Stored,
    Refused,
    /// The item may or may not be stored.
    Unknown,
    /// Dropped, with its command or batch in flight.
    Dropped,
    /// Dropped without an effect: while it waited, or before the commit.
    WithoutEffect,
}

/// The next step of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Start,
    /// It has the first lanes, and is in the queue of the next one.
    Enters(usize),
    /// The lane was not free: it queues its item.
    Joins,
    /// Its item is in the queue or in a batch.
    Queued,
    /// Its own [`Work`] stores the item.
    Alone,
    Ended(Ended),
}

/// Who has a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Owner {
    Call(usize),
    /// The task that sends the batches of a document.
    Writer(usize),
    /// A task that has taken a command over.
    Task(usize),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Lane {
    owner: Option<Owner>,
    waiting: Vec<Owner>,
}

/// A task that sends batches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Writer {
    at: WriterAt,
    /// The items of the batch that have no result yet.
    batch: Vec<usize>,
    /// How many of them are in the next command.
    next: usize,
    runtime: usize,
    /// The call that runs it, in the naive form.
    caller: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum WriterAt {
    Starts,
    Enters,
    Writes,
    /// It has found the queue empty, in the naive form.
    Ends,
}

/// The commands that store items, one after another, in the lanes of their documents.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Work {
    owner: Owner,
    runtime: usize,
    documents: Vec<usize>,
    items: Vec<usize>,
    session: Option<usize>,
    command: Command,
    at: CommandAt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Command {
    /// Stores the items.
    Single,
    /// Does so in a transaction.
    Write,
    Commit,
    Abort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum CommandAt {
    Unsent,
    OnServer,
    /// The flag is whether the server has executed it.
    Replied(bool),
}

/// A command without a client, which the server may execute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Orphan {
    items: Vec<usize>,
    /// Its session, if that is in the pool.
    session: Option<usize>,
}

/// A state of the process and the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Moment {
    calls: Vec<At>,
    lanes: [Lane; 2],
    /// The items that wait. `None` if no task sends them.
    queues: [Option<Vec<usize>>; 2],
    writers: [Option<Writer>; 2],
    works: Vec<Work>,
    orphans: Vec<Orphan>,
    /// The sessions of the pool. The next command takes the last one.
    pool: Vec<usize>,
    sessions: usize,
    /// How often each item is stored.
    stored: Vec<u8>,
    /// Whether a transaction has written to the document.
    is_open: [bool; 2],
    faults: u8,
    has_ended: bool,
    taken_over: usize,
    /// Whether a command met a transaction of the same process.
    has_collided: bool,
    has_joined: bool,
    has_divided: bool,
    has_abandoned: bool,
}

/// A step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A call runs up to its next `await`.
    Runs(usize),
    /// The task that sends the batches of a document does.
    WriterRuns(usize),
    /// That task sees that all calls of its batch were dropped.
    WriterAbandons(usize),
    /// The owner of a command sends it, or takes its reply.
    Works(usize),
    /// The server executes a command.
    Executes(usize),
    /// The server executes one without a client.
    ExecutesOrphan(usize),
    /// The connection fails before the reply.
    LosesReply(usize),
    /// The future of a call is dropped.
    IsDropped(usize),
    /// The first runtime ends.
    RuntimeEnds,
}

impl Moment {
    fn is_live(&self, call: usize) -> bool {
        !matches!(self.calls[call], At::Ended(_))
    }

    fn is_quiet(&self) -> bool {
        let has_no_call = (0..self.calls.len()).all(|call| !self.is_live(call));
        has_no_call && self.works.is_empty() && self.writers.iter().all(Option::is_none)
    }

    fn end(&mut self, call: usize, ended: Ended) {
        if self.is_live(call) {
            self.calls[call] = At::Ended(ended);
        }
    }
}

impl Process {
    /// Returns the steps that need no fault, each with its documents.
    fn progress(&self, now: &Moment) -> Vec<(Step, &[usize])> {
        const EACH: [[usize; 1]; 2] = [[0], [1]];
        let calls = (0..now.calls.len()).filter(|call| self.can_run(now, *call));
        let mut steps: Vec<_> = calls
            .map(|call| (Step::Runs(call), &*self.calls[call].documents))
            .collect();
        for (document, documents) in EACH.iter().enumerate() {
            if self.writer_can_run(now, document) {
                steps.push((Step::WriterRuns(document), documents));
            }
            if Self::is_abandoned(now, document) {
                steps.push((Step::WriterAbandons(document), documents));
            }
        }
        for (at, work) in now.works.iter().enumerate() {
            let documents = match work.documents.as_slice() {
                [document] => &EACH[*document],
                _ => &[0, 1][..],
            };
            match work.at {
                CommandAt::OnServer if Self::can_execute(now, work) => steps.push((Step::Executes(at), documents)),
                CommandAt::OnServer => {}
                _ if self.is_polled(now, work.owner) => steps.push((Step::Works(at), documents)),
                _ => {}
            }
        }
        steps
    }
}

impl Model for Process {
    type State = Moment;
    type Action = Step;

    fn init_states(&self) -> Vec<Moment> {
        vec![Moment {
            calls: vec![At::Start; self.calls.len()],
            lanes: Default::default(),
            queues: Default::default(),
            writers: Default::default(),
            works: Vec::new(),
            orphans: Vec::new(),
            pool: Vec::new(),
            sessions: 0,
            stored: vec![0; self.calls.len()],
            is_open: [false; 2],
            faults: self.faults,
            has_ended: false,
            taken_over: 0,
            has_collided: false,
            has_joined: false,
            has_divided: false,
            has_abandoned: false,
        }]
    }

    fn actions(&self, now: &Moment, steps: &mut Vec<Step>) {
        steps.extend(self.progress(now).into_iter().map(|(step, _)| step));
        steps.extend((0..now.orphans.len()).map(Step::ExecutesOrphan));
        if now.faults > 0 {
            // Between the check of the lane and the queue, a call does not wait.
            let can_be_dropped = |call: &usize| now.is_live(*call) && now.calls[*call] != At::Joins;
            steps.extend((0..now.calls.len()).filter(can_be_dropped).map(Step::IsDropped));
            let can_be_lost = |at: &usize| {
                let Work { command, at, .. } = &now.works[*at];
                matches!(command, Command::Single | Command::Commit) && *at == CommandAt::OnServer
            };
            steps.extend((0..now.works.len()).filter(can_be_lost).map(Step::LosesReply));
        }
        if self.can_end && !now.has_ended {
            steps.push(Step::RuntimeEnds);
        }
    }

    fn next_state(&self, last: &Moment, step: Step) -> Option<Moment> {
        let mut now = last.clone();
        match step {
            Step::Runs(call) => self.run(&mut now, call),
            Step::WriterRuns(document) => self.run_writer(&mut now, document),
            Step::WriterAbandons(document) => self.abandon(&mut now, document),
            Step::Works(at) => self.work(&mut now, at),
            Step::Executes(at) => self.execute(&mut now, at),
            Step::ExecutesOrphan(at) => {
                let orphan = now.orphans.remove(at);
                self.store(&mut now, &orphan.items);
            }
            Step::LosesReply(at) => {
                now.faults -= 1;
                self.lose_reply(&mut now, at);
            }
            Step::IsDropped(call) => {
                now.faults -= 1;
                self.drop_call(&mut now, call);
            }
            Step::RuntimeEnds => self.end_runtime(&mut now),
        }
        Some(now)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn each(now: &Moment, holds: impl Fn(usize, Ended) -> bool) -> bool {
            now.calls.iter().enumerate().all(|(call, at)| match at {
                At::Ended(ended) => holds(call, *ended),
                _ => true,
            })
        }
        vec![
            Property::always("no item is stored twice", |_, now: &Moment| {
                now.stored.iter().all(|stored| *stored <= 1)
            }),
            Property::always("an acknowledged item is stored", |_, now: &Moment| {
                each(now, |call, ended| ended != Ended::Stored || now.stored[call] == 1)
            }),
            Property::always("what has no effect is not stored", |_, now: &Moment| {
                let has_none = |ended| matches!(ended, Ended::Refused | Ended::WithoutEffect);
                each(now, |call, ended| !has_none(ended) || now.stored[call] == 0)
            }),
            Property::always("a call is refused for its own item alone", |process, now: &Moment| {
                each(now, |call, ended| {
                    ended != Ended::Refused || process.calls[call].is_refused
                })
            }),
            Property::always("a document has one command on the server", |_, now: &Moment| {
                let on_server = |document: usize| {
                    let works = now.works.iter().filter(|work| work.at == CommandAt::OnServer);
                    works.filter(|work| work.documents.contains(&document)).count()
                };
                !now.has_collided && on_server(0) <= 1 && on_server(1) <= 1
            }),
            Property::always("a call keeps its lanes until the last reply", |_, now: &Moment| {
                now.works.iter().all(|work| {
                    let owner = Some(work.owner);
                    work.documents
                        .iter()
                        .all(|document| now.lanes[*document].owner == owner)
                })
            }),
            Property::always("no call waits forever", |process, now: &Moment| {
                now.is_quiet() || !process.progress(now).is_empty()
            }),
            Property::always("a call waits for its own document alone", |process, now: &Moment| {
                let progress = process.progress(now);
                let waits_alone = |call: usize| {
                    let own = &process.calls[call].documents;
                    let is_own = |documents: &[usize]| documents.iter().any(|document| own.contains(document));
                    !now.is_live(call) || progress.iter().any(|(_, documents)| is_own(documents))
                };
                let has_one = |call: &Call| call.documents.len() == 1 && call.place == Place::Task;
                !process.calls.iter().all(has_one) || (0..now.calls.len()).all(waits_alone)
            }),
            Property::always("at the end nothing is locked, queued or open", |_, now: &Moment| {
                let is_free = |lane: &Lane| lane.owner.is_none() && lane.waiting.is_empty();
                !now.is_quiet()
                    || now.lanes.iter().all(is_free)
                        && now.queues.iter().all(Option::is_none)
                        && now.is_open == [false; 2]
            }),
            Property::sometimes("calls join", |process, now: &Moment| {
                !process.can_join() || now.has_joined
            }),
            Property::sometimes("a refused batch is divided", |process, now: &Moment| {
                !process.can_join() || !process.calls.iter().any(|call| call.is_refused) || now.has_divided
            }),
            Property::sometimes("a command is taken over", |process, now: &Moment| {
                process.faults == 0 || now.taken_over > 0
            }),
            Property::sometimes("a batch is abandoned", |process, now: &Moment| {
                !process.can_join() || process.faults < 2 || now.has_abandoned
            }),
            Property::sometimes("all calls end", |_, now: &Moment| now.is_quiet()),
        ]
    }
}
