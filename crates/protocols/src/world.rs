//! Clients that send commands to one server, and what can happen to them, as a model for the checker.

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Model, Property};

use crate::transactions::Transactions;

/// A value of a model.
pub trait Value: Clone + Debug + PartialEq + Eq + Hash + Send + Sync + 'static {}

impl<T: Clone + Debug + PartialEq + Eq + Hash + Send + Sync + 'static> Value for T {}

/// What is stored at the server.
pub trait Stored: Value {
    /// The transactions that are under way.
    fn transactions(&self) -> &Transactions;

    /// The same, to end one.
    fn transactions_mut(&mut self) -> &mut Transactions;

    /// Whether a client may have to wait.
    fn is_waited_for(&self) -> bool {
        self.transactions().are_any()
    }
}

/// What came of sending a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// It ran, or met a transaction that is no longer under way.
    Done,
    /// It waits for another client's transaction. Nothing has changed.
    Waits,
}

/// A protocol: the documents, and what each client does next.
pub trait Protocol: Clone + Debug + Send + Sync + Sized + 'static {
    /// What is stored.
    type Documents: Stored;
    /// A call of one client: its arguments, what it has read, and which command comes next.
    type Client: Value;

    /// Where it may begin.
    fn starts(&self) -> Vec<(Self::Documents, Vec<Self::Client>)>;

    /// The server runs the next command of a client, as a whole, and the client reads the reply. A command that the
    /// server does not run as a whole, such as an insert of many documents, is several of these.
    fn run(&self, documents: &mut Self::Documents, me: usize, client: &mut Self::Client) -> Ran;

    /// Whether its call has ended.
    fn has_ended(&self, client: &Self::Client) -> bool;

    /// Whether its next command writes outside of a transaction, so that it may still run when nobody waits for it.
    fn may_run_late(&self, client: &Self::Client) -> bool;

    /// Whether the server is in the middle of its command.
    fn is_within(&self, client: &Self::Client) -> bool;

    /// The server stops in the middle of a command that nobody waits for.
    fn stopped(&self, _documents: &mut Self::Documents, _client: &Self::Client) {}

    /// What the application does that does not know whether a command ran: it calls again where the documentation says
    /// that it may, and otherwise the call has ended with an unknown outcome.
    fn unknown(&self, client: &Self::Client) -> Self::Client;

    /// What must hold in every state, and what must be seen in some.
    fn properties() -> Vec<Property<World<Self>>>;
}

/// A protocol, and how many faults there may be in one run.
#[derive(Clone, Debug)]
pub struct World<P> {
    /// The protocol.
    pub protocol: P,
    /// How many clients may die, or lose a reply, in one run.
    pub faults: u8,
}

/// The server and its clients at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<D, C> {
    /// Which of the starts it comes from.
    pub start: usize,
    /// What is stored.
    pub documents: D,
    /// The clients.
    pub clients: Vec<C>,
    /// Those that have died, as bits.
    pub dead: u8,
    /// Commands that nobody waits for any more, and that may still run.
    pub late: Vec<C>,
    /// How many faults there may still be.
    pub faults: u8,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next command of a client runs.
    Runs(usize),
    /// A client dies. The command that it has just sent may still run.
    Dies(usize),
    /// A client loses its connection. The command that it has just sent may still run.
    LosesCommand(usize),
    /// A command in a transaction runs, such as the commit, and the client does not learn of it.
    LosesReply(usize),
    /// A command runs that nobody waits for.
    RunsLate(usize),
    /// A command never runs.
    IsLost(usize),
}

impl<D, C> State<D, C> {
    /// Whether a client has died.
    pub fn is_dead(&self, client: usize) -> bool {
        self.dead & (1 << client) != 0
    }

    /// Whether nobody has died or lost a reply.
    pub fn is_without_faults(&self, world_faults: u8) -> bool {
        self.faults == world_faults
    }
}

impl<P: Protocol> World<P> {
    /// Whether all calls have ended or died, and nothing runs any more.
    pub fn is_quiet(&self, state: &State<P::Documents, P::Client>) -> bool {
        let mut clients = state.clients.iter().enumerate();
        state.late.is_empty() && clients.all(|(at, client)| state.is_dead(at) || self.protocol.has_ended(client))
    }

    /// Whether someone goes on, or all have ended.
    fn goes_on(&self, state: &State<P::Documents, P::Client>) -> bool {
        let mut under_way = state
            .clients
            .iter()
            .enumerate()
            .filter(|(at, client)| !state.is_dead(*at) && !self.protocol.has_ended(client))
            .peekable();
        under_way.peek().is_none()
            || !state.documents.is_waited_for()
            || !state.late.is_empty()
            || under_way.any(|(at, client)| {
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
                    return None; // as if the command were lost
                }
                state.clients[at] = protocol.unknown(&state.clients[at]);
                state.faults -= 1;
            }
            Step::RunsLate(late) => {
                // Its place among the clients does not matter, as it is in no transaction.
                runs(&mut state.documents, usize::MAX, &mut state.late[late])?;
                if !protocol.is_within(&state.late[late]) {
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
                if state.documents.transactions().is_under_way(at) {
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
        properties.push(Property::always("nobody waits for ever", |world, state| {
            world.goes_on(state)
        }));
        properties
    }
}
