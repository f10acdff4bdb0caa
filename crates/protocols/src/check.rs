//! Runs the checker, and reports its results.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::hash::Hash;

use stateright::{Checker, Expectation, Model};

use crate::world::{Protocol, World};

/// The result of exploring all reachable states.
#[derive(Debug)]
pub struct Explored {
    /// The number of states.
    pub states: usize,
    /// The number of steps of the longest path.
    pub depth: usize,
    /// The violated invariants, each with a shortest counterexample.
    pub violated: BTreeMap<&'static str, String>,
    /// The situations that no state reached.
    pub unreached: Vec<&'static str>,
}

/// Returns whether to check more initial states: whether the environment variable `PROTOCOLS` is `long`.
pub fn is_long() -> bool {
    std::env::var("PROTOCOLS").is_ok_and(|form| form == "long")
}

/// Explores every interleaving, with the number of faults in the environment variable `PROTOCOLS_FAULTS`, 1 by default.
///
/// # Panics
/// If the variable is not a number.
pub fn explore<P: Protocol>(protocol: P) -> Explored {
    let faults = std::env::var("PROTOCOLS_FAULTS").map_or(1, |faults| {
        let faults = faults.parse();
        faults.expect("PROTOCOLS_FAULTS is a number")
    });
    let world = World { protocol, faults };
    let mut before: Vec<P::Client> = Vec::new();
    explore_model(world, |text, state, is_first| {
        if is_first {
            before.clear();
        }
        let _ = writeln!(text, "  {:?}", state.documents);
        for (at, client) in state.clients.iter().enumerate() {
            if before.get(at) != Some(client) {
                let _ = writeln!(text, "    {at}: {client:?}");
            }
        }
        before.clone_from(&state.clients);
    })
}

/// Explores a model. The function writes a state of a counterexample; its flag is whether it is the first one.
fn explore_model<M>(model: M, mut write: impl FnMut(&mut String, &M::State, bool)) -> Explored
where
    M: Model + Send + Sync + 'static,
    M::State: Hash + Send + Sync + Clone + Debug + PartialEq + 'static,
    M::Action: Debug + Clone + PartialEq,
{
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let checker = model.checker().threads(threads).spawn_bfs().join();
    let (mut violated, mut unreached) = (BTreeMap::new(), Vec::new());
    let mut discoveries = checker.discoveries();
    for property in checker.model().properties() {
        match (property.expectation, discoveries.remove(property.name)) {
            (Expectation::Sometimes, None) => unreached.push(property.name),
            (Expectation::Always, Some(path)) => {
                let mut counterexample = String::new();
                for (at, (state, step)) in path.into_vec().into_iter().enumerate() {
                    write(&mut counterexample, &state, at == 0);
                    if let Some(step) = step {
                        let _ = writeln!(counterexample, "{step:?}");
                    }
                }
                violated.insert(property.name, counterexample);
            }
            _ => {}
        }
    }
    Explored {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        violated,
        unreached,
    }
}

impl Explored {
    /// Asserts that all invariants hold, in at least that number of states: a model that cannot take a step violates
    /// nothing.
    ///
    /// # Panics
    /// If an invariant is violated, with the counterexample, or a situation was not reached.
    pub fn assert_holds(&self, at_least: usize) {
        for (name, counterexample) in &self.violated {
            println!("VIOLATED {name}:\n{counterexample}");
        }
        let violated: Vec<_> = self.violated.keys().collect();
        assert!(violated.is_empty(), "violated: {violated:?}");
        assert!(self.unreached.is_empty(), "not reached: {:?}", self.unreached);
        assert!(self.states >= at_least, "only {} states", self.states);
        println!("{} states, at most {} steps", self.states, self.depth);
    }

    /// Asserts that these invariants are violated. Prints the counterexamples.
    ///
    /// # Panics
    /// If one of them holds.
    pub fn assert_refuted(&self, names: &[&str]) {
        for name in names {
            let counterexample = self.violated.get(name);
            let counterexample =
                counterexample.unwrap_or_else(|| panic!("not violated: {name}, {} states", self.states));
            println!("VIOLATED {name}:\n{counterexample}");
        }
    }
}
