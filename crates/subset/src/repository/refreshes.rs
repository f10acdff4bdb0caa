//! Refreshes that calls of one process share.
//!
//! # Design
//!
//! ## When may a call share the refresh of another call?
//!
//! A refresh reads the first children of a parent and writes them to it. It covers a change that was stored before it
//! began, whoever runs it. So a call needs a refresh that begins after its own change: it never shares one that is
//! already running, because that one may have read the children before. While a refresh runs, further calls wait for
//! the next one, and the first of them runs it for all. One refresh for each parent runs at a time, and refreshes of
//! different parents never wait for each other.
//!
//! ## Why do calls share no refresh of a parent with a total or computed fields?
//!
//! A transaction adds to them and does not count. A refresh that loses against several transactions leaves them without
//! the children of its calls, until the next write to the parent. So it must not lose for many calls at once, and the
//! calls of a process lock such a parent from their first command to their last.
//!
//! ## What if the future that runs a refresh is dropped?
//!
//! Every waiting call is able to run the refresh itself: the next one takes its turn. There is no task that could be
//! lost, and no call waits for a reply that never arrives.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mongodb::bson::Bson;

use super::version_cache::key;
use crate::form::embedded::Embedded;
use crate::form::rank::Rank;
use crate::prelude::*;

/// The outcome of a refresh.
#[derive(Clone, Debug)]
pub(crate) enum Refreshed {
    /// This refresh or a later one of another writer wrote the parent, or it needs no write.
    Done {
        /// The embedded children, as this refresh read them.
        embedded: Arc<Embedded>,
        /// Whether this call wrote the parent.
        written: bool,
    },
    NoParent,
}

/// What calls require of a refresh.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needs {
    /// Whether the parent must be written, also if its subset is correct.
    pub(crate) write: bool,
    /// The new children. If no write is required, a correct subset that excludes all of them is not written.
    pub(crate) children: Vec<NewChild>,
}

/// A child that a call has inserted.
#[derive(Clone, Debug)]
pub(crate) struct NewChild {
    pub(crate) id: Bson,
    pub(crate) rank: Option<Rank>,
}

impl Needs {
    pub(crate) fn write() -> Self {
        Self {
            write: true,
            children: Vec::new(),
        }
    }

    fn add(&mut self, other: Self) {
        self.write |= other.write;
        self.children.extend(other.children);
    }
}

/// The parents that calls of this process refresh, or wait to refresh.
#[derive(Debug, Default)]
pub(crate) struct Refreshes(Mutex<HashMap<Vec<u8>, Arc<OfParent>>>);

#[derive(Debug, Default)]
struct OfParent {
    /// Locked by the call that refreshes.
    turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How many refreshes have begun. The number of a refresh is the count that includes itself.
    begun: u64,
    /// What the calls that wait for the next refresh require.
    needs: Needs,
    /// The number and the outcome of the last complete refresh.
    last: Option<(u64, Result<Refreshed>)>,
}

/// The refreshes of one parent, as one call sees them.
#[derive(Debug)]
pub(crate) struct ParentRefreshes<'a> {
    all: &'a Refreshes,
    /// `None` for an id without bytes, whose refreshes are not shared.
    key: Option<Vec<u8>>,
    parent: Arc<OfParent>,
}

/// The turn of a call.
#[derive(Debug)]
pub(crate) enum Turn<'a> {
    /// Another call ran a refresh for this one.
    Shared(Result<Refreshed>),
    /// This call must run it.
    Run(Running<'a>),
}

/// A refresh that a call runs, for itself and for the calls that wait.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    parent: &'a OfParent,
    number: u64,
    /// `None` when it is complete.
    needs: Option<Needs>,
    _turn: tokio::sync::MutexGuard<'a, ()>,
}

impl Refreshes {
    pub(crate) fn of(&self, parent: &Bson) -> ParentRefreshes<'_> {
        let key = key(parent);
        let parent = match &key {
            Some(key) => Arc::clone(lock(&self.0).entry(key.clone()).or_default()),
            None => Arc::default(),
        };
        ParentRefreshes { all: self, key, parent }
    }
}

impl ParentRefreshes<'_> {
    /// Returns how many refreshes have begun.
    pub(crate) fn begun(&self) -> u64 {
        lock(&self.parent.state).begun
    }

    /// Waits for a refresh that begins after this future is first polled, or for the turn of this call to run one.
    /// With `alone`, it never shares the refresh of another call.
    ///
    /// # Cancel safety
    /// Cancel-safe: another waiting call takes the turn.
    pub(crate) async fn next(&self, needs: Needs, alone: bool) -> Turn<'_> {
        let own = alone.then(|| needs.clone());
        let after = {
            let mut state = lock(&self.parent.state);
            state.needs.add(needs);
            state.begun
        };
        let turn = self.parent.turn.lock().await;
        let mut state = lock(&self.parent.state);
        match &state.last {
            Some((number, outcome)) if *number > after && !alone => {
                Turn::Shared(outcome.clone().map(Refreshed::shared))
            }
            _ => {
                state.begun += 1;
                let mut needs = std::mem::take(&mut state.needs);
                // Another refresh may have taken them.
                needs.add(own.unwrap_or_default());
                Turn::Run(Running {
                    parent: &self.parent,
                    number: state.begun,
                    needs: Some(needs),
                    _turn: turn,
                })
            }
        }
    }
}

impl Drop for ParentRefreshes<'_> {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        let mut all = lock(&self.all.0);
        // Under the lock: of two calls that end at once, the second one sees that the first one is gone.
        self.parent = Arc::default();
        if all.get(&key).is_some_and(|parent| Arc::strong_count(parent) == 1) {
            all.remove(&key);
        }
    }
}

impl Refreshed {
    /// Returns the outcome for a call that did not run the refresh.
    fn shared(self) -> Self {
        match self {
            Self::Done { embedded, .. } => Self::Done {
                embedded,
                written: false,
            },
            Self::NoParent => Self::NoParent,
        }
    }
}

impl Running<'_> {
    /// Returns how many refreshes had begun before this one.
    pub(crate) fn begun_before(&self) -> u64 {
        self.number - 1
    }

    pub(crate) fn needs(&self) -> Needs {
        self.needs.clone().unwrap_or_default()
    }

    /// Passes the outcome to the calls that wait for it.
    pub(crate) fn complete(mut self, outcome: &Result<Refreshed>) {
        self.needs = None;
        lock(&self.parent.state).last = Some((self.number, outcome.clone()));
    }
}

impl Drop for Running<'_> {
    /// Leaves what the waiting calls require to the next refresh.
    fn drop(&mut self) {
        if let Some(needs) = self.needs.take() {
            lock(&self.parent.state).needs.add(needs);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use futures::FutureExt;

    use super::*;

    fn run(turn: Turn<'_>) -> Running<'_> {
        match turn {
            Turn::Run(running) => running,
            Turn::Shared(outcome) => panic!("shared: {outcome:?}"),
        }
    }

    fn child(id: i32) -> Needs {
        Needs {
            write: false,
            children: vec![NewChild {
                id: id.into(),
                rank: None,
            }],
        }
    }

    fn ids(running: &Running<'_>) -> Vec<Bson> {
        running.needs().children.into_iter().map(|child| child.id).collect()
    }

    #[test]
    fn calls_that_wait_share_the_next_refresh_and_not_the_running_one() {
        let refreshes = Refreshes::default();
        let [first, second, third] = [(); 3].map(|()| refreshes.of(&Bson::Int32(1)));
        let running = run(first.next(child(1), false).now_or_never().unwrap());
        let mut waits = std::pin::pin!(second.next(child(2), false));
        let mut waits_too = std::pin::pin!(third.next(Needs::write(), false));
        assert!(waits.as_mut().now_or_never().is_none() && waits_too.as_mut().now_or_never().is_none());
        assert_eq!(ids(&running), [Bson::Int32(1)]);
        running.complete(&Ok(Refreshed::NoParent));

        let running = run(waits.now_or_never().unwrap());
        assert_eq!(running.begun_before(), 1);
        assert_eq!((running.needs().write, ids(&running)), (true, vec![Bson::Int32(2)]));
        let written = true;
        running.complete(&Ok(Refreshed::Done {
            embedded: Arc::default(),
            written,
        }));
        let shared = waits_too.now_or_never().unwrap();
        let is_shared = matches!(shared, Turn::Shared(Ok(Refreshed::Done { written: false, .. })));
        assert!(is_shared, "{shared:?}");
    }

    #[test]
    fn a_waiting_call_runs_the_refresh_of_a_dropped_one_for_all() {
        let refreshes = Refreshes::default();
        let [first, second, third] = [(); 3].map(|()| refreshes.of(&Bson::Int32(1)));
        let running = run(first.next(child(1), false).now_or_never().unwrap());
        let mut waits = std::pin::pin!(second.next(child(2), false));
        let mut waits_too = std::pin::pin!(third.next(child(3), true));
        assert!(waits.as_mut().now_or_never().is_none() && waits_too.as_mut().now_or_never().is_none());
        drop(running);
        let running = run(waits.now_or_never().unwrap());
        assert_eq!(ids(&running), [2, 3, 1].map(Bson::Int32));
        running.complete(&Ok(Refreshed::NoParent));
        run(waits_too.now_or_never().unwrap());
    }

    #[test]
    fn parents_do_not_wait_for_each_other_and_are_forgotten() {
        let refreshes = Refreshes::default();
        {
            let (one, two) = (refreshes.of(&Bson::Int32(1)), refreshes.of(&Bson::Int64(1)));
            let _running = run(one.next(child(1), false).now_or_never().unwrap());
            run(two.next(child(1), false).now_or_never().unwrap());
            let again = refreshes.of(&Bson::Int32(1));
            drop(again);
            assert_eq!(lock(&refreshes.0).len(), 2);
        }
        assert!(lock(&refreshes.0).is_empty());
    }

    #[test]
    fn a_parent_whose_calls_end_at_once_is_forgotten() {
        let refreshes = Refreshes::default();
        let arrived = std::sync::atomic::AtomicI32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for parent in 0..50_000 {
                        let call = refreshes.of(&Bson::Int32(parent));
                        // Both threads end their calls at the same moment.
                        arrived.fetch_add(1, Ordering::Relaxed);
                        while arrived.load(Ordering::Relaxed) < 2 * (parent + 1) {
                            std::hint::spin_loop();
                        }
                        drop(call);
                    }
                });
            }
        });
        assert_eq!(lock(&refreshes.0).len(), 0);
    }
}
