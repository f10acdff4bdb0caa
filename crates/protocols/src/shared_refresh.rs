//! The refreshes that calls of one process share, in the subset pattern.
//!
//! Mirrors `crates/subset/src/repository/refreshes.rs`, and `write/refresh.rs` and `write/eventual.rs` as far as they use
//! it. A change there requires the same change here. [`subset`](crate::subset) has the refresh itself, by several
//! processes.
//!
//! Each call inserts or deletes a child, and then needs a refresh that begins later. Calls of the first process share
//! refreshes. A call of another process refreshes alone. The subset is the two children with the highest ids. At any
//! `await` the future of a call can be dropped, or the refresh that it runs can fail. The write of a dropped future can
//! still run at any later moment. Left out: parents that are deleted or unmanaged, and totals.

#[cfg(test)]
mod tests;

use stateright::{Model, Property};

/// A set of children, as bits.
type Children = u8;

/// When calls share a refresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// If it begins after the change.
    Ours,
    /// Naive: also if it is running.
    SharesRunning,
    /// Naive: the other calls wait for the one that refreshes, also if its future is dropped.
    WaitsForDropped,
}

/// What a call changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Inserts a child.
    Insert(u8),
    /// Deletes a child.
    Delete(u8),
}

/// The calls on one parent.
#[derive(Clone, Debug)]
pub struct Process {
    /// When they share.
    pub form: Form,
    /// The initial states: the children, and the calls of the first process.
    pub starts: Vec<(Children, Vec<Change>)>,
    /// A call of another process.
    pub other: Option<Change>,
    /// How many futures are dropped, and refreshes fail, in one run.
    pub faults: u8,
}

/// The parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Parent {
    version: u8,
    subset: Children,
}

/// A refresh that a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Refresh {
    number: u8,
    needs: Needs,
    first_version: u8,
    read: Parent,
    top: Children,
}

/// What the calls that wait require.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Needs {
    write: bool,
    new: Children,
}

/// How a call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Ended {
    Done,
    Failed,
    Dropped,
}

/// The next step of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Change,
    Join,
    /// Needs a refresh with a higher number.
    Enqueue(u8),
    /// Waits for its turn.
    Queue(u8),
    Turn(u8),
    ReadParent(Refresh),
    ReadChildren(Refresh),
    Write(Refresh),
    Ended(Ended),
}

/// A call and its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Call {
    change: Change,
    at: At,
    /// Whether it is of the other process.
    is_alone: bool,
}

/// A state of the parent and the calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Moment {
    children: Children,
    parent: Parent,
    calls: Vec<Call>,
    /// The call that has the turn.
    turn: Option<usize>,
    queue: Vec<usize>,
    begun: u8,
    needs: Needs,
    last: Option<(u8, bool)>,
    /// The writes of dropped futures.
    late: Vec<Refresh>,
    faults: u8,
    has_shared: bool,
    /// Whether a call ran the refresh that a dropped future had begun.
    has_taken_over: bool,
}

/// A step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A call runs up to its next `await`.
    Runs(usize),
    /// The future of a call is dropped.
    IsDropped(usize),
    /// The refresh of a call fails.
    Fails(usize),
    /// The write of a dropped future runs.
    RunsLate(usize),
    /// It never runs.
    IsLost(usize),
}

/// Returns the two children with the highest ids.
fn top(children: Children) -> Children {
    let mut rest = children;
    let mut top = 0;
    for _ in 0..2 {
        let first = rest.checked_ilog2().map_or(0, |id| 1 << id);
        rest &= !first;
        top |= first;
    }
    top
}

impl Moment {
    fn take_turns(&mut self) {
        if self.turn.is_none() && !self.queue.is_empty() {
            self.turn = Some(self.queue.remove(0));
        }
    }

    fn leave(&mut self, me: usize) {
        self.queue.retain(|call| *call != me);
        if self.turn == Some(me) {
            self.turn = None;
        }
        self.take_turns();
    }

    fn write(&mut self, refresh: &Refresh) -> bool {
        let matches = self.parent.version == refresh.read.version;
        if matches {
            self.parent = Parent {
                version: self.parent.version + 1,
                subset: refresh.top,
            };
        }
        matches
    }

    fn end(&mut self, me: usize, refresh: &Refresh, is_done: bool) {
        if !self.calls[me].is_alone {
            self.last = Some((refresh.number, is_done));
        }
        self.calls[me].at = At::Ended(if is_done { Ended::Done } else { Ended::Failed });
        self.leave(me);
    }

    /// Returns the refresh that a call runs.
    fn running(&self, me: usize) -> Option<Refresh> {
        match self.calls[me].at {
            At::ReadParent(refresh) | At::ReadChildren(refresh) | At::Write(refresh) => Some(refresh),
            _ => None,
        }
    }

    fn is_quiet(&self) -> bool {
        self.late.is_empty() && self.calls.iter().all(|call| matches!(call.at, At::Ended(_)))
    }
}

impl Process {
    fn can_run(now: &Moment, me: usize) -> bool {
        match now.calls[me].at {
            At::Queue(_) => now.turn == Some(me),
            At::Ended(_) => false,
            _ => true,
        }
    }

    fn run(&self, now: &mut Moment, me: usize) {
        let Call { change, at, is_alone } = now.calls[me];
        let own = match change {
            Change::Insert(id) => Needs {
                write: false,
                new: 1 << id,
            },
            Change::Delete(_) => Needs { write: true, new: 0 },
        };
        let begin = |number, needs| Refresh {
            number,
            needs,
            first_version: u8::MAX,
            read: now.parent,
            top: 0,
        };
        now.calls[me].at = match at {
            At::Change => {
                match change {
                    Change::Insert(id) => now.children |= 1 << id,
                    Change::Delete(id) => now.children &= !(1 << id),
                }
                if is_alone {
                    At::ReadParent(begin(0, own))
                } else {
                    At::Join
                }
            }
            At::Join => {
                now.needs.write |= own.write;
                now.needs.new |= own.new;
                let is_running = now.turn.is_some() && self.form == Form::SharesRunning;
                At::Enqueue(now.begun - u8::from(is_running && now.begun > 0))
            }
            At::Enqueue(after) => {
                now.queue.push(me);
                now.take_turns();
                At::Queue(after)
            }
            At::Queue(after) => At::Turn(after),
            At::Turn(after) => match now.last {
                Some((number, is_done)) if number > after => {
                    now.has_shared = true;
                    now.leave(me);
                    At::Ended(if is_done { Ended::Done } else { Ended::Failed })
                }
                _ => {
                    now.has_taken_over |= now.begun > now.last.map_or(0, |(number, _)| number);
                    now.begun += 1;
                    let needs = std::mem::take(&mut now.needs);
                    At::ReadParent(begin(now.begun, needs))
                }
            },
            At::ReadParent(mut refresh) => {
                let version = now.parent.version;
                if refresh.first_version == u8::MAX {
                    refresh.first_version = version;
                }
                if version - refresh.first_version >= 2 {
                    now.end(me, &refresh, true);
                    return;
                }
                refresh.read = now.parent;
                At::ReadChildren(refresh)
            }
            At::ReadChildren(mut refresh) => {
                refresh.top = top(now.children);
                let Needs { write, new } = refresh.needs;
                if !write && new & refresh.top == 0 && refresh.read.subset == refresh.top {
                    now.end(me, &refresh, true);
                    return;
                }
                At::Write(refresh)
            }
            At::Write(refresh) => {
                if now.write(&refresh) {
                    now.end(me, &refresh, true);
                    return;
                }
                At::ReadParent(refresh)
            }
            At::Ended(_) => at,
        };
    }

    fn drop_call(&self, now: &mut Moment, me: usize) {
        if let Some(refresh) = now.running(me) {
            if let At::Write(refresh) = now.calls[me].at {
                now.late.push(refresh);
            }
            if !now.calls[me].is_alone {
                now.needs.write |= refresh.needs.write;
                now.needs.new |= refresh.needs.new;
            }
        }
        now.calls[me].at = At::Ended(Ended::Dropped);
        if now.turn != Some(me) || self.form != Form::WaitsForDropped {
            now.leave(me);
        }
    }
}

impl Model for Process {
    type State = Moment;
    type Action = Step;

    fn init_states(&self) -> Vec<Moment> {
        let start = |(children, changes): &(Children, Vec<Change>)| {
            let call = |change, is_alone| Call {
                change,
                at: At::Change,
                is_alone,
            };
            let mut calls: Vec<Call> = changes.iter().map(|change| call(*change, false)).collect();
            calls.extend(self.other.map(|change| call(change, true)));
            Moment {
                children: *children,
                parent: Parent {
                    version: 1,
                    subset: top(*children),
                },
                calls,
                turn: None,
                queue: Vec::new(),
                begun: 0,
                needs: Needs::default(),
                last: None,
                late: Vec::new(),
                faults: self.faults,
                has_shared: false,
                has_taken_over: false,
            }
        };
        self.starts.iter().map(start).collect()
    }

    fn actions(&self, now: &Moment, steps: &mut Vec<Step>) {
        for me in 0..now.calls.len() {
            if Self::can_run(now, me) {
                steps.push(Step::Runs(me));
            }
            if now.faults > 0 && !matches!(now.calls[me].at, At::Ended(_)) {
                steps.push(Step::IsDropped(me));
                if now.running(me).is_some() {
                    steps.push(Step::Fails(me));
                }
            }
        }
        for late in 0..now.late.len() {
            steps.extend([Step::RunsLate(late), Step::IsLost(late)]);
        }
    }

    fn next_state(&self, last: &Moment, step: Step) -> Option<Moment> {
        let mut now = last.clone();
        match step {
            Step::Runs(me) => self.run(&mut now, me),
            Step::IsDropped(me) => {
                now.faults -= 1;
                self.drop_call(&mut now, me);
            }
            Step::Fails(me) => {
                now.faults -= 1;
                let refresh = now.running(me)?;
                now.end(me, &refresh, false);
            }
            Step::RunsLate(late) => {
                let refresh = now.late.remove(late);
                now.write(&refresh);
            }
            Step::IsLost(late) => drop(now.late.remove(late)),
        }
        Some(now)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no call waits forever", |_, now: &Moment| {
                let mut left = (0..now.calls.len()).filter(|me| !matches!(now.calls[*me].at, At::Ended(_)));
                left.clone().next().is_none() || left.any(|me| Self::can_run(now, me))
            }),
            Property::always(
                "an acknowledged change is in the parent when all calls have ended",
                |_, now: &Moment| {
                    let is_deleter_lost =
                        |call: &Call| matches!(call.change, Change::Delete(_)) && call.at != At::Ended(Ended::Done);
                    let shows = |call: &Call| match call.change {
                        Change::Delete(id) => now.parent.subset & !now.children & (1 << id) == 0,
                        Change::Insert(id) => {
                            let belongs = top(now.children) & (1 << id) != 0;
                            !belongs || now.parent.subset & (1 << id) != 0 || now.calls.iter().any(is_deleter_lost)
                        }
                    };
                    let mut done = now.calls.iter().filter(|call| call.at == At::Ended(Ended::Done));
                    !now.is_quiet() || done.all(shows)
                },
            ),
            Property::always(
                "without faults, the parent is correct at the end",
                |process, now: &Moment| {
                    !now.is_quiet() || now.faults < process.faults || now.parent.subset == top(now.children)
                },
            ),
            Property::sometimes("a call shares a refresh", |_, now: &Moment| now.has_shared),
            Property::sometimes("a call takes over from a dropped one", |process, now: &Moment| {
                process.faults == 0 || now.has_taken_over
            }),
            Property::sometimes("all calls end", |_, now: &Moment| now.is_quiet()),
        ]
    }
}
