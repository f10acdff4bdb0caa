//! Runs the checker, and says what it found.

use std::collections::BTreeMap;
use std::fmt::Write;

use stateright::{Checker, Expectation, Model};

use crate::world::{Protocol, World};

/// What was found in all states that can be reached.
#[derive(Debug)]
pub struct Explored {
    /// How many states there are.
    pub states: usize,
    /// How many steps the longest way has.
    pub depth: usize,
    /// What must hold and does not, with the shortest way to it.
    pub broken: BTreeMap<&'static str, String>,
    /// What should be seen and is not.
    pub unseen: Vec<&'static str>,
}

/// Whether to check more starts: where the environment variable `PROTOCOLS` is `long`.
pub fn is_long() -> bool {
    std::env::var("PROTOCOLS").is_ok_and(|form| form == "long")
}

/// Goes through every interleaving, with one fault in a run, or as many as the environment variable `PROTOCOLS_FAULTS`
/// says.
///
/// # Panics
/// When that is no number.
pub fn explore<P: Protocol>(protocol: P) -> Explored {
    let faults = std::env::var("PROTOCOLS_FAULTS").map_or(1, |faults| {
        let faults = faults.parse();
        faults.expect("PROTOCOLS_FAULTS is a number")
    });
    let world = World { protocol, faults };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let checker = world.checker().threads(threads).spawn_bfs().join();
    let (mut broken, mut unseen) = (BTreeMap::new(), Vec::new());
    let mut discoveries = checker.discoveries();
    for property in checker.model().properties() {
        match (property.expectation, discoveries.remove(property.name)) {
            (Expectation::Sometimes, None) => unseen.push(property.name),
            (Expectation::Always, Some(path)) => {
                let mut way = String::new();
                let mut before: Vec<P::Client> = Vec::new();
                for (state, step) in path.into_vec() {
                    let _ = writeln!(way, "  {:?}", state.documents);
                    for (at, client) in state.clients.iter().enumerate() {
                        if before.get(at) != Some(client) {
                            let _ = writeln!(way, "    {at}: {client:?}");
                        }
                    }
                    before = state.clients;
                    if let Some(step) = step {
                        let _ = writeln!(way, "{step:?}");
                    }
                }
                broken.insert(property.name, way);
            }
            _ => {}
        }
    }
    Explored {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        broken,
        unseen,
    }
}

impl Explored {
    /// That everything holds, in so many states at least: a model that cannot go anywhere breaks nothing.
    ///
    /// # Panics
    /// When something does not hold, with the way to it, or was not seen.
    pub fn assert_right(&self, at_least: usize) {
        for (name, way) in &self.broken {
            println!("NOT {name}:\n{way}");
        }
        let broken: Vec<_> = self.broken.keys().collect();
        assert!(broken.is_empty(), "it does not hold that {broken:?}");
        assert!(self.unseen.is_empty(), "never seen: {:?}", self.unseen);
        assert!(self.states >= at_least, "only {} states", self.states);
        println!("{} states, {} steps at most", self.states, self.depth);
    }

    /// That these do not hold. Prints the ways to them.
    ///
    /// # Panics
    /// When one holds.
    pub fn assert_wrong(&self, names: &[&str]) {
        for name in names {
            let way = self.broken.get(name);
            let way = way.unwrap_or_else(|| panic!("it holds that {name}: {} states", self.states));
            println!("NOT {name}:\n{way}");
        }
    }
}
