//! What all patterns promise in the same words, tested once. A pattern joins each part by the description or the
//! trait in its `model.rs`.

mod catalog;
mod catalog_keys;
mod collections;
mod costs;
pub(crate) mod damages;
mod debug;
mod deciding_reads;
mod elements;
mod erasing;
mod explain;
mod finds;
mod followers;
mod grammar;
mod ids;
mod insert_in_order;
mod large;
mod limits;
mod metrics;
mod migrations;
mod numeric_names;
mod options;
mod own_fields;
mod progress;
mod remedies;
mod sessions;
mod set_up;
mod settings;
mod sharding;
mod spans;
mod standalone;
mod steps;
mod time_limits;
mod validators;
mod values;

use std::thread;

use mongo_patterns_testkit::{self as testkit, TestDatabase};
use tokio::runtime::Builder;

/// Runs a test for each of the models, with a database of its own. Each has a thread, because a planned fault blocks it. A
/// failure does not prevent the others.
pub(crate) async fn each<M: Copy + Send>(
    models: impl IntoIterator<Item = M>,
    name: impl Fn(M) -> &'static str,
    test: impl AsyncFn(&TestDatabase, M) + Sync,
) {
    let one = |model: M| {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(testkit::run(async |db| test(db, model).await));
    };
    // The databases have the name of the test.
    let named = || thread::Builder::new().name(thread::current().name().unwrap_or_default().to_owned());
    let failed = thread::scope(|scope| {
        let start = |model: M| (model, named().spawn_scoped(scope, move || one(model)).unwrap());
        let started: Vec<_> = models.into_iter().map(start).collect();
        let ended = started.into_iter().map(|(model, thread)| (model, thread.join()));
        let failed = ended.filter(|(_, ended)| ended.is_err());
        failed.map(|(model, _)| name(model)).collect::<Vec<&str>>()
    });
    assert!(failed.is_empty(), "{failed:?}");
}
