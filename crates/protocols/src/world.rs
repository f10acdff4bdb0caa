//! A model of clients that send commands to one server, and of their faults.

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Model, Property};

use crate::transactions::Transactions;

/// A value of a model.
pub trait Value: Clone + Debug + PartialEq + Eq + Hash + Send + Sync + 'static {}

impl<T: Clone + Debug + PartialEq + Eq + Hash + Send + Sync + 'static> Value for T {}

/// The documents at the server.
pub trait Stored: Value {
    /// Returns the open transactions.
    fn transactions(&self) -> &Transactions;

    /// Returns the open transactions, to end one.
    fn transactions_mut(&mut self) -> &mut Transactions;

    /// Returns whether a client may have to wait.
    fn can_block(&self) -> bool {
        self.transactions().are_any()
    }
}

/// Implements [`Stored`] for documents with a field `transactions`, which are all that a client waits for.
#[macro_export]
macro_rules! stored {
    ($documents:ident) => {
        impl $crate::world::Stored for $documents {
            fn transactions(&self) -> &Transactions {
                &self.transactions
            }

            fn transactions_mut(&mut self) -> &mut Transactions {
                &mut self.transactions
            }
        }
    };
}

/// The outcome of sending a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// It ran, or its transaction was no longer open.
    Done,
    /// It waits for another client's transaction. The documents are unchanged.
    Waits,
}

/// A protocol: the documents, and the next command of each client.
pub trait Protocol: Clone + Debug + Send + Sync + Sized + 'static {
    /// The documents.
    type Documents: Stored;
    /// A call of one client: its arguments, what it has read, and its next command.
    type Client: Value;

    /// Returns the initial states.
    fn starts(&self) -> Vec<(Self::Documents, Vec<Self::Client>)>;

    /// Runs the next command of a client atomically, and passes the reply to the client. A command that the server does
    /// not run atomically, such as an insert of many documents, is several of these steps.
    fn run(&self, documents: &mut Self::Documents, me: usize, client: &mut Self::Client) -> Ran;

    /// Returns whether the call has ended.
    fn has_ended(&self, client: &Self::Client) -> bool;

    /// Returns the commands of the step that led a client from one state to the next, as `traces.txt` has them: one, or none
    /// for what is no command of the server. Several for commands of which the order with those of others does not matter,
    /// such as the reads of one snapshot. The naive forms need none.
    fn sends(&self, before: &Self::Client, after: &Self::Client) -> Vec<&'static str>;

    /// Returns whether the next command writes outside of a transaction, so that it can still run after its client is
    /// gone.
    fn may_run_late(&self, client: &Self::Client) -> bool;

    /// Returns whether the server is in the middle of the client's command, so that the next step sends none.
    fn is_mid_command(&self, _client: &Self::Client) -> bool {
        false
    }

    /// Stops the server in the middle of a command whose client is gone.
    fn stopped(&self, _documents: &mut Self::Documents, _client: &Self::Client) {}

    /// Returns what the application does after an unknown outcome: it calls again where the documentation allows it,
    /// otherwise the call has ended with an unknown outcome.
    fn unknown(&self, client: &Self::Client) -> Self::Client;

    /// Returns the invariants of all states, and the situations that some state must reach.
    fn properties() -> Vec<Property<World<Self>>>;
}

/// A protocol, and the number of faults in one run.
#[derive(Clone, Debug)]
pub struct World<P> {
    /// The protocol.
    pub protocol: P,
    /// How many faults one run has: clients that die, or lose a reply.
    pub faults: u8,
}

/// A state of the server and its clients.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<D, C> {
    /// The index of the initial state.
    pub start: usize,
    /// The documents.
    pub documents: D,
    /// The clients.
    pub clients: Vec<C>,
    /// The clients that have died, as bits.
    pub dead: u8,
    /// Commands whose client is gone, and that can still run.
    pub late: Vec<C>,
    /// How many faults can still happen.
    pub faults: u8,
}

/// A step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next command of a client runs.
    Runs(usize),
    /// A client dies. The command that it has just sent may still run.
    Dies(usize),
    /// A client loses its connection. The command that it has just sent may still run.
    LosesCommand(usize),
    /// A command in a transaction runs, such as the commit, and the client does not receive the reply.
    LosesReply(usize),
    /// A command runs whose client is gone.
    RunsLate(usize),
    /// A command never runs.
    IsLost(usize),
}

impl<D, C> State<D, C> {
    /// Returns whether a client has died.
    pub fn is_dead(&self, client: usize) -> bool {
        self.dead & (1 << client) != 0
    }

    /// Returns whether no client has died or lost a reply.
    pub fn is_without_faults(&self, world_faults: u8) -> bool {
        self.faults == world_faults
    }
}

impl<P: Protocol> World<P> {
    /// Returns whether all calls have ended or died, and no command can still run.
    pub fn is_quiet(&self, state: &State<P::Documents, P::Client>) -> bool {
        let mut clients = state.clients.iter().enumerate();
        state.late.is_empty() && clients.all(|(at, client)| state.is_dead(at) || self.protocol.has_ended(client))
    }

    /// Returns whether a client can continue, or all have ended.
    fn makes_progress(&self, state: &State<P::Documents, P::Client>) -> bool {
        let mut active = state
            .clients
            .iter()
            .enumerate()
            .filter(|(at, client)| !state.is_dead(*at) && !self.protocol.has_ended(client))
            .peekable();
        active.peek().is_none()
            || !state.documents.can_block()
            || !state.late.is_empty()
            || active.any(|(at, client)| {
                let (mut documents, mut client) = (state.documents.clone(), client.clone());
                self.protocol.run(&mut documents, at, &mut client) == Ran::Done
            })
    }

    fn step(&self, state: &mut State<P::Documents, P::Client>, step: Step) -> Option<()> {
        let Self { protocol, .. } = self;
        let runs = |documents: &mut P::Documents, at: usize, client: &mut P::Client| {
            (protocol.run(documents, at, client) == Ran::Done).then_some(())
        };
        match step {
            Step::Runs(at) => runs(&mut state.documents, at, &mut state.clients[at])?,
            Step::Dies(at) | Step::LosesCommand(at) => {
                let client = &state.clients[at];
                let was_in_transaction = state.documents.transactions_mut().abort(at);
                if !was_in_transaction && protocol.may_run_late(client) {
                    state.late.push(client.clone());
                }
                if step == Step::Dies(at) {
                    state.dead |= 1 << at;
                } else {
                    state.clients[at] = protocol.unknown(client);
                }
                state.faults -= 1;
            }
            Step::LosesReply(at) => {
                runs(&mut state.documents, at, &mut state.clients[at])?;
                if state.documents.transactions_mut().abort(at) {
                    return None; // equivalent to a lost command
                }
                state.clients[at] = protocol.unknown(&state.clients[at]);
                state.faults -= 1;
            }
            Step::RunsLate(late) => {
                // The index of the client does not matter, because it is in no transaction.
                runs(&mut state.documents, usize::MAX, &mut state.late[late])?;
                if !protocol.is_mid_command(&state.late[late]) {
                    state.late.remove(late);
                }
            }
            Step::IsLost(late) => {
                let client = state.late.remove(late);
                protocol.stopped(&mut state.documents, &client);
            }
        }
        Some(())
    }
}

impl<P: Protocol> Model for World<P> {
    type State = State<P::Documents, P::Client>;
    type Action = Step;

    fn init_states(&self) -> Vec<Self::State> {
        let state = |(start, (documents, clients))| State {
            start,
            documents,
            clients,
            dead: 0,
            late: Vec::new(),
            faults: self.faults,
        };
        self.protocol.starts().into_iter().enumerate().map(state).collect()
    }

    fn actions(&self, state: &Self::State, actions: &mut Vec<Step>) {
        for (at, client) in state.clients.iter().enumerate() {
            if state.is_dead(at) || self.protocol.has_ended(client) {
                continue;
            }
            actions.push(Step::Runs(at));
            if state.faults > 0 {
                actions.extend([Step::Dies(at), Step::LosesCommand(at)]);
                if state.documents.transactions().is_active(at) {
                    actions.push(Step::LosesReply(at));
                }
            }
        }
        for late in 0..state.late.len() {
            actions.extend([Step::RunsLate(late), Step::IsLost(late)]);
        }
    }

    fn next_state(&self, last: &Self::State, step: Step) -> Option<Self::State> {
        let mut state = last.clone();
        self.step(&mut state, step)?;
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = P::properties();
        properties.push(Property::always("no client waits forever", |world, state| {
            world.makes_progress(state)
        }));
        properties
    }
}
