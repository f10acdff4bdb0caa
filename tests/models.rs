//! Random sequences of calls against models in memory: each repository does what a few lines of code do, call by call.
//!
//! `MODEL_OPERATIONS=1000000 cargo test -p integration-tests -- models` runs a million; without it 10,000 are run. What
//! fails is shrunk to a short sequence, and printed with a seed: `MODEL_SEED` runs the same sequences again.

use std::cell::Cell;
use std::fmt::Debug;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tokio::runtime::Handle;

/// How many operations all models run together.
const OPERATIONS: usize = 10_000;
/// How many models there are.
const MODELS: usize = 5;
/// How long a sequence is, at most.
const LONGEST: usize = 60;

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    let value = std::env::var(name).ok()?;
    let number = value.parse().ok();
    Some(number.unwrap_or_else(|| panic!("{name} is not a number: {value}")))
}

/// Runs sequences of these calls until one model's share of the operations is done. Each sequence gets a number, by which
/// it takes keys that no other has.
pub async fn check_random<C: Debug>(call: impl Strategy<Value = C>, check: impl AsyncFn(u32, Vec<C>)) {
    let operations = variable("MODEL_OPERATIONS").unwrap_or(OPERATIONS) / MODELS;
    let seed: u64 = variable("MODEL_SEED").unwrap_or_else(|| fastrand::u64(..));
    let runtime = Handle::current();
    let config = Config {
        cases: 1,
        failure_persistence: None,
        max_shrink_iters: 500,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let calls = prop::collection::vec(call, 1..LONGEST);
    let (sequences, done) = (Cell::new(0), Cell::new(0));
    tokio::task::block_in_place(|| {
        while done.get() < operations {
            let ran = runner.run(&calls, |calls| {
                sequences.set(sequences.get() + 1);
                done.set(done.get() + calls.len());
                runtime.block_on(check(sequences.get(), calls));
                Ok(())
            });
            ran.unwrap_or_else(|failure| panic!("{failure}\nrun it again with MODEL_SEED={seed}"));
        }
    });
    println!(
        "{} operations in {} sequences, MODEL_SEED={seed}",
        done.get(),
        sequences.get()
    );
}
