//! Random choices, whose seed a failing test prints: `TEST_SEED=7 cargo test ..` makes the same choices again.

use std::fmt::Debug;
use std::sync::LazyLock;

use fastrand::Rng;

static SEED: LazyLock<u64> = LazyLock::new(|| match std::env::var("TEST_SEED") {
    Ok(seed) => seed.parse().expect("TEST_SEED is a number"),
    Err(_) => fastrand::u64(..),
});

/// Returns the generator of a writer, or of another part of a test, by its number.
pub fn random(number: impl TryInto<u64, Error: Debug>) -> Rng {
    println!("TEST_SEED={}", *SEED);
    Rng::with_seed(SEED.wrapping_add(number.try_into().unwrap()))
}
