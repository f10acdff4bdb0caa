//! The calls, split at each `await`.

use super::lock::Kind::{Keys, Openers, Pushes};
use super::lock::Lock;
use super::{Document, Dropped, Moment, Process};

/// A call, with the index of its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// `push`, `push_many`, `push_unique`.
    Push(usize),
    /// A push by the reader of the stream of [`Verify`](Self::Verify), between two findings.
    PushOfReader(usize),
    /// `insert` of a document that exceeds the threshold.
    Insert(usize),
    /// `delete`.
    Delete(usize),
    /// `rebalance` and `repair`.
    Rebalance(usize),
    /// `verify`, for one of the documents of its stream.
    Verify(usize),
    /// A call that locks both documents.
    LocksBoth {
        /// Whether its caller names the second one first.
        is_reversed: bool,
    },
}

/// A call and its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Task {
    call: Call,
    at: At,
}

/// The next step. The task has, or waits for, all locks of this step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Start,
    LockKey,
    /// A push: sets the flag of the document, which is full.
    Main,
    /// Pushes to the newest overflow document.
    Fill,
    Opener,
    /// Continues after another task has opened overflow documents.
    Waited,
    LockToOpen,
    Relock,
    /// Begins the transaction, with its first write.
    Begin,
    Commit,
    FlagIfExtras,
    Read,
    Finish,
    Aborting,
    Ended,
}

impl Call {
    fn document(self) -> usize {
        match self {
            Self::Push(document)
            | Self::PushOfReader(document)
            | Self::Insert(document)
            | Self::Delete(document)
            | Self::Rebalance(document)
            | Self::Verify(document) => document,
            Self::LocksBoth { .. } => 0,
        }
    }

    fn is_push(self) -> bool {
        matches!(self, Self::Push(_) | Self::PushOfReader(_))
    }
}

impl Task {
    pub(super) fn new(call: Call) -> Self {
        Self { call, at: At::Start }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.at == At::Ended
    }

    pub(super) fn is_aborting(&self) -> bool {
        self.at == At::Aborting
    }

    /// Returns whether it is between the flag and the overflow documents.
    fn is_between(&self, document: usize) -> bool {
        let before_end = matches!(
            self.at,
            At::Fill | At::Opener | At::Waited | At::LockToOpen | At::Relock | At::Begin | At::Commit
        );
        self.call.is_push() && self.call.document() == document && before_end
    }
}

impl Process {
    /// Returns whether a task is polled. The tasks of a stream are not, while its reader awaits something else.
    pub(super) fn is_polled(&self, now: &Moment, at: usize) -> bool {
        let is_reader = |task: &&Task| matches!(task.call, Call::PushOfReader(_));
        let Some(reader) = now.tasks.iter().find(is_reader) else {
            return true;
        };
        let mut of_stream = now.tasks.iter().filter(|task| matches!(task.call, Call::Verify(_)));
        let has_item = match self.form.verify_is_buffered {
            true => of_stream.any(Task::has_ended),
            false => of_stream.all(Task::has_ended),
        };
        match now.tasks[at].call {
            Call::PushOfReader(_) => has_item,
            Call::Verify(_) => !has_item || reader.has_ended(),
            _ => true,
        }
    }

    /// Runs a task up to its next `await`.
    pub(super) fn run(&self, now: &mut Moment, me: usize) {
        let Task { call, at } = now.tasks[me];
        let (form, document) = (self.form, call.document());
        let lock_of = |kind| -> Lock { (kind, self.stripes[document]) };
        let (pushes, key, opener) = (lock_of(Pushes), lock_of(Keys), lock_of(Openers));
        let Moment { documents, locks, .. } = now;
        let stored = &mut documents[document];
        now.tasks[me].at = match at {
            At::Start => match call {
                Call::Push(_) | Call::PushOfReader(_) => {
                    locks.lock(me, pushes, false);
                    At::LockKey
                }
                Call::Verify(_) if form.verify_ignores_pushes => At::LockKey,
                Call::Verify(_) => {
                    locks.lock(me, pushes, true);
                    At::LockKey
                }
                Call::LocksBoth { is_reversed } => {
                    let first = usize::from(is_reversed && form.locks_in_any_order);
                    locks.lock(me, (Keys, self.stripes[first]), true);
                    At::LockKey
                }
                Call::Insert(_) | Call::Rebalance(_) | Call::Delete(_) => {
                    locks.lock(me, key, true);
                    At::Begin
                }
            },
            At::LockKey => match call {
                Call::Push(_) | Call::PushOfReader(_) => {
                    locks.lock(me, key, false);
                    At::Main
                }
                Call::LocksBoth { is_reversed } => {
                    let second = usize::from(!(is_reversed && form.locks_in_any_order));
                    if self.stripes[0] != self.stripes[1] {
                        locks.lock(me, (Keys, self.stripes[second]), true);
                    }
                    At::Finish
                }
                _ => {
                    locks.lock(me, key, true);
                    At::Read
                }
            },
            At::Main if !stored.exists => At::Finish,
            At::Main => {
                now.has_collided |= stored.write(me, |stored| stored.flag = true);
                At::Fill
            }
            At::Fill if stored.has_extras && stored.room > 0 => {
                now.has_collided |= stored.write(me, |stored| stored.room -= 1);
                now.hidden |= stored.exists && !stored.flag;
                At::Finish
            }
            At::Fill => {
                locks.unlock(me, key);
                At::Opener
            }
            At::Opener if locks.try_lock(me, opener) => At::LockToOpen,
            At::Opener => {
                locks.lock(me, opener, true);
                At::Waited
            }
            At::Waited => {
                locks.unlock(me, opener);
                At::Relock
            }
            At::Relock => {
                locks.lock(me, key, false);
                At::Fill
            }
            At::LockToOpen => {
                locks.lock(me, key, true);
                At::Begin
            }
            // An insert whose document exists, or another write whose document does not.
            At::Begin if stored.exists == matches!(call, Call::Insert(_)) => At::Finish,
            At::Begin => {
                now.has_collided |= stored.write(me, |stored| stored.transaction = Some(me));
                At::Commit
            }
            At::Commit => {
                stored.transaction = None;
                match call {
                    Call::Rebalance(_) => {
                        stored.flag &= stored.has_extras;
                        At::FlagIfExtras
                    }
                    Call::Delete(_) => {
                        stored.delete();
                        At::Finish
                    }
                    _ => {
                        stored.exists = true;
                        stored.flag = true;
                        stored.open();
                        At::Finish
                    }
                }
            }
            At::FlagIfExtras => {
                stored.flag |= stored.exists && stored.has_extras;
                At::Finish
            }
            At::Read => {
                now.read_between |= now.tasks.iter().any(|task| task.is_between(document));
                locks.unlock(me, key);
                locks.unlock(me, pushes);
                At::Finish
            }
            At::Finish => {
                locks.unlock_all(me);
                At::Ended
            }
            At::Aborting | At::Ended => at,
        };
    }

    /// Drops the future of a task.
    pub(super) fn drop_task(&self, now: &mut Moment, me: usize) {
        let Task { call, at } = now.tasks[me];
        let document = call.document();
        let is_in_transaction = now.documents[document].transaction == Some(me) && at == At::Commit;
        now.tasks[me].at = match self.form.dropped {
            Dropped::AbortsThenUnlocks if is_in_transaction => {
                // The keys stay locked until the command on its way has a reply. The locks of the future itself are
                // released.
                now.locks.unlock(me, (Pushes, self.stripes[document]));
                At::Aborting
            }
            Dropped::UnlocksAtOnce if is_in_transaction => {
                now.locks.unlock_all(me);
                At::Aborting
            }
            _ => {
                now.locks.unlock_all(me);
                At::Ended
            }
        };
    }

    /// Aborts the transaction of a dropped future.
    pub(super) fn end(&self, now: &mut Moment, me: usize) {
        let document = now.tasks[me].call.document();
        now.documents[document].transaction = None;
        now.locks.unlock_all(me);
        now.tasks[me].at = At::Ended;
    }
}

impl Document {
    /// Writes, and returns whether it met the transaction of another task.
    fn write(&mut self, me: usize, write: impl FnOnce(&mut Self)) -> bool {
        let has_collided = self.transaction.is_some_and(|other| other != me);
        write(self);
        has_collided
    }

    /// Deletes the document with its overflow documents.
    fn delete(&mut self) {
        self.exists = false;
        self.flag = false;
        self.has_extras = false;
        self.room = 0;
    }

    /// Pushes an element to a new overflow document, or to one that another task opened at the same position.
    fn open(&mut self) {
        let is_filled = self.has_extras && self.room > 0;
        self.room = if is_filled { self.room - 1 } else { 1 };
        self.has_extras = true;
    }
}
