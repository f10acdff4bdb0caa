//! Random sequences of calls against models in memory: a few lines of code compute the expected result of each call.
//!
//! `cargo test` runs 2,500 operations, `cargo xtask ci --full` 10,000 more, and `cargo xtask long models` a million. A failing
//! sequence is shrunk, and printed with its seed: `cargo xtask long models --seed` runs the same sequences again.

use std::cell::Cell;
use std::fmt::Debug;

use mongo_patterns_testkit::TestDatabase;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tokio::runtime::Handle;

/// The number of operations of all models together.
const OPERATIONS: usize = 2_500;
/// The number of models.
const MODELS: usize = 13;
/// The maximum length of a sequence.
const LONGEST: usize = 60;

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    let value = std::env::var(name).ok()?;
    let number = value.parse().ok();
    Some(number.unwrap_or_else(|| panic!("{name} is not a number: {value}")))
}

/// A sequence of calls.
#[derive(Debug)]
pub struct Sequence<C> {
    /// Selects keys that no other sequence uses.
    pub number: u32,
    /// Selects one of several repositories.
    pub variant: usize,
    pub calls: Vec<C>,
}

/// Runs sequences of these calls until the model has run its share of the operations.
pub async fn check_random<C: Debug>(
    db: &TestDatabase,
    call: impl Strategy<Value = C>,
    check: impl AsyncFn(Sequence<C>),
) {
    let operations = variable("MODEL_OPERATIONS").unwrap_or(OPERATIONS) / MODELS;
    let mut seed: u64 = variable("MODEL_SEED").unwrap_or_else(|| fastrand::u64(..));
    let runtime = Handle::current();
    let config = Config {
        cases: 1,
        failure_persistence: None,
        max_shrink_iters: 500,
        ..Config::default()
    };
    let calls = prop::collection::vec(call, 1..LONGEST);
    let (number, done) = (Cell::new(0), Cell::new(0));
    tokio::task::block_in_place(|| {
        while done.get() < operations {
            // Each sequence has a seed of its own, so that `MODEL_SEED` runs a failing one first.
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&seed.to_le_bytes());
            let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
            let ran = TestRunner::new_with_rng(config.clone(), rng).run(&calls, |calls| {
                number.set(number.get() + 1);
                done.set(done.get() + calls.len());
                runtime.block_on(check(Sequence {
                    number: number.get(),
                    variant: (seed % 64) as usize,
                    calls,
                }));
                // A million calls would fill the memory.
                db.recorder().clear();
                Ok(())
            });
            ran.unwrap_or_else(|failure| {
                panic!("{failure}\nrun it again with `cargo xtask long models --seed {seed}`")
            });
            seed = seed.wrapping_add(1);
        }
    });
    println!("{} operations in {} sequences", done.get(), number.get());
}

/// Runs a check for random values. A failing one is shrunk.
pub fn check_cases<V: Debug>(cases: u32, values: &impl Strategy<Value = V>, check: impl AsyncFn(V)) {
    let runtime = Handle::current();
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Config::default()
    });
    let ran = tokio::task::block_in_place(|| {
        runner.run(values, |value| {
            runtime.block_on(check(value));
            Ok(())
        })
    });
    ran.unwrap_or_else(|failure| panic!("{failure}"));
}

/// A pseudo-random sequence, the same in each run: xorshift64.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }
}
