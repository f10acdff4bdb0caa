//! What all patterns promise in the same words, tested once. A pattern joins by an `impl` of the trait of each part.

mod finds;
mod followers;
mod migrations;
mod sessions;

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use futures::future::join_all;
use mongo_patterns_testkit::{self as testkit, TestDatabase};

/// Runs a test for each of the models, with a database of its own. A failure does not prevent the others.
async fn each<M: Copy, const N: usize>(
    models: [M; N],
    name: impl Fn(M) -> &'static str,
    test: impl AsyncFn(&TestDatabase, M),
) {
    let one = async |model: M| {
        let test = testkit::run(async |db| test(db, model).await);
        AssertUnwindSafe(test).catch_unwind().await
    };
    let ended = models.into_iter().zip(join_all(models.map(one)).await);
    let failed = ended.filter(|(_, ended)| ended.is_err());
    let failed: Vec<&str> = failed.map(|(model, _)| name(model)).collect();
    assert!(failed.is_empty(), "{failed:?}");
}
