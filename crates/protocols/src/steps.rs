//! Migrations that run once, by one of several instances.
//!
//! Mirrors `crates/core/src/lease.rs`, and `migrations/record.rs` and `migrations/run.rs` in `crates/schema/src`.
//!
//! A list has a plain step and then one in a transaction. The clock is a client: its command is the moment at which the
//! lease ends, which can come at any time. An instance does not notice that, as if it was paused. Left out: the renewals,
//! which only make that moment rarer.

use stateright::Property;

use crate::transactions::Transactions;
use crate::world::{Protocol, Ran, State, World};

/// The modelled commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Those of this project.
    Ours,
    /// The same, without the fence in the filter of the record.
    Unfenced,
    /// A tool: reads which steps are missing, runs them, and writes the record.
    Tool,
}

/// Instances that start at once.
#[derive(Clone, Debug)]
pub struct Steps {
    /// Whose commands the instances send.
    pub form: Form,
    /// How many instances there are.
    pub instances: u8,
    /// How often the lease of an instance ends before its work does.
    pub ends: u8,
}

/// The bit of the record for the transactions.
const RECORD: u64 = 1;
/// The number of steps. The last one is in a transaction.
const STEPS: usize = 2;
const IN_TRANSACTION: usize = 1;

/// What the server stores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Documents {
    /// The fence of the lease, and whether it is held.
    lease: (u8, bool),
    /// The fence of the record.
    fence: u8,
    /// The steps in the record.
    recorded: Vec<usize>,
    /// How often each step has been applied.
    applied: [u8; STEPS],
    transactions: Transactions,
}

crate::stored!(Documents);

/// A call, or the clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// `run`.
    Instance {
        /// The fence of its lease.
        fence: u8,
        /// Its next command.
        at: At,
    },
    /// Ends the lease, with the number of ends that are left.
    Clock(u8),
}

/// The next command of an instance, with its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// Reads the record.
    Read,
    /// Acquires the lease, or reads again.
    Acquire,
    /// Writes its fence into the record, and reads the steps.
    Claim,
    /// Does the work of a step.
    Work(usize),
    /// Records a step.
    Record(usize),
    /// Commits the step in a transaction.
    Commit(usize),
    /// Releases the lease.
    Release,
    /// Ended, and whether all steps are applied.
    Ended(bool),
}

const START: Client = Client::Instance { fence: 0, at: At::Read };

impl Steps {
    fn instance(&self, documents: &mut Documents, me: usize, fence: &mut u8, at: At) -> Option<At> {
        let next = |documents: &Documents| match documents.recorded.len() {
            step if step < STEPS => At::Work(step),
            _ => At::Release,
        };
        Some(match at {
            At::Read if documents.recorded.len() >= STEPS => At::Ended(true),
            At::Read if self.form == Form::Tool => next(documents),
            At::Read => At::Acquire,
            At::Acquire if documents.lease.1 => At::Read,
            At::Acquire => {
                documents.lease = (documents.lease.0 + 1, true);
                *fence = documents.lease.0;
                At::Claim
            }
            At::Claim if documents.transactions.is_locked(RECORD) => return None,
            At::Claim => {
                documents.fence = documents.fence.max(*fence);
                documents.transactions.wrote(RECORD);
                match documents.fence == *fence {
                    true => next(documents),
                    false => At::Ended(false),
                }
            }
            At::Work(IN_TRANSACTION) if self.form != Form::Tool => {
                documents.transactions.begin(me);
                At::Record(IN_TRANSACTION)
            }
            At::Work(step) => {
                documents.applied[step] += 1;
                At::Record(step)
            }
            At::Record(IN_TRANSACTION) if self.form != Form::Tool => {
                // The filter reads the snapshot, in which the fence is old if it has changed since.
                match documents.transactions.has_changed(me, RECORD) || self.may_record(documents, *fence) {
                    true if documents.transactions.write(me, RECORD) => At::Commit(IN_TRANSACTION),
                    true => At::Work(IN_TRANSACTION), // a conflict: the transaction runs again
                    false => {
                        documents.transactions.abort(me);
                        At::Ended(false)
                    }
                }
            }
            At::Record(_) if documents.transactions.is_locked(RECORD) => return None,
            At::Record(step) if self.may_record(documents, *fence) => {
                documents.recorded.push(step);
                documents.transactions.wrote(RECORD);
                match step + 1 {
                    STEPS => At::Release,
                    step => At::Work(step),
                }
            }
            At::Record(_) => At::Ended(false),
            At::Commit(step) => {
                documents.transactions.commit(me);
                documents.applied[step] += 1;
                documents.recorded.push(step);
                At::Release
            }
            At::Release => {
                if documents.lease.0 == *fence {
                    documents.lease.1 = false;
                }
                At::Ended(true)
            }
            At::Ended(is_applied) => At::Ended(is_applied),
        })
    }

    fn may_record(&self, documents: &Documents, fence: u8) -> bool {
        self.form != Form::Ours || documents.fence == fence
    }
}

impl Protocol for Steps {
    type Documents = Documents;
    type Client = Client;

    fn starts(&self) -> Vec<(Documents, Vec<Client>)> {
        let mut clients = vec![START; usize::from(self.instances)];
        clients.push(Client::Clock(self.ends));
        vec![(Documents::default(), clients)]
    }

    fn run(&self, documents: &mut Documents, me: usize, client: &mut Client) -> Ran {
        match client {
            Client::Instance { fence, at } => match self.instance(documents, me, fence, *at) {
                Some(next) => *at = next,
                None => return Ran::Waits,
            },
            Client::Clock(left) => {
                documents.lease.1 = false;
                *left = left.saturating_sub(1);
            }
        }
        Ran::Done
    }

    fn has_ended(&self, client: &Client) -> bool {
        matches!(client, Client::Clock(0) | Client::Instance { at: At::Ended(_), .. })
    }

    fn sends(&self, before: &Client, _: &Client) -> Vec<&'static str> {
        let Client::Instance { at, .. } = before else {
            return Vec::new();
        };
        match at {
            At::Read => vec!["read mongo_patterns"],
            At::Acquire | At::Claim => vec!["upsert mongo_patterns"],
            At::Work(IN_TRANSACTION) => vec!["begin: insert trace"],
            At::Work(_) => vec!["upsert trace"],
            At::Record(IN_TRANSACTION) => vec!["then: update mongo_patterns"],
            At::Record(_) | At::Release => vec!["update mongo_patterns"],
            At::Commit(_) => vec!["then: commitTransaction"],
            At::Ended(_) => Vec::new(),
        }
    }

    fn may_run_late(&self, client: &Client) -> bool {
        let in_transaction = |step: &usize| *step == IN_TRANSACTION && self.form != Form::Tool;
        match client {
            Client::Instance { at, .. } => match at {
                At::Acquire | At::Claim | At::Release => true,
                At::Work(step) | At::Record(step) => !in_transaction(step),
                At::Read | At::Commit(_) | At::Ended(_) => false,
            },
            Client::Clock(_) => false,
        }
    }

    fn unknown(&self, client: &Client) -> Client {
        match client {
            Client::Instance { .. } => START,
            clock @ Client::Clock(_) => clock.clone(),
        }
    }

    fn properties() -> Vec<Property<World<Self>>> {
        vec![
            Property::always("a step in a transaction is applied once", |_, state: &Moment| {
                state.documents.applied[IN_TRANSACTION] <= 1
            }),
            Property::always("steps are recorded once and in their order", |_, state: &Moment| {
                state
                    .documents
                    .recorded
                    .iter()
                    .copied()
                    .eq(0..state.documents.recorded.len())
            }),
            Property::always("a recorded step is applied", |_, state: &Moment| {
                let documents = &state.documents;
                documents.recorded.iter().all(|step| documents.applied[*step] > 0)
            }),
            Property::always("when a call returns, all steps are applied", |_, state: &Moment| {
                let applied = At::Ended(true);
                let mut clients = state.clients.iter();
                !clients.any(|client| matches!(client, Client::Instance { at, .. } if *at == applied))
                    || state.documents.recorded.len() == STEPS
            }),
            Property::always(
                "without an end of the lease, a plain step runs once",
                |world, state: &Moment| {
                    let never_ended = state.clients.contains(&Client::Clock(world.protocol.ends));
                    !never_ended || !state.is_without_faults(world.faults) || state.documents.applied[0] <= 1
                },
            ),
            Property::sometimes("an instance has lost the lease", |_, state: &Moment| {
                let lost = At::Ended(false);
                let mut clients = state.clients.iter();
                clients.any(|client| matches!(client, Client::Instance { at, .. } if *at == lost))
            }),
            Property::sometimes("a plain step runs twice", |_, state: &Moment| {
                state.documents.applied[0] > 1
            }),
        ]
    }
}

/// A state of the model.
type Moment = State<Documents, Client>;

#[cfg(test)]
mod tests;
