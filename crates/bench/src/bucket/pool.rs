//! The connections of a client.

use anyhow::Result;
use futures::FutureExt;
use mongodb::bson::Document;

use super::latency::prepare;
use crate::bench::{Bench, client};
use crate::latency::MOST_WRITERS;
use crate::measure::{Variant, compare, in_tasks};
use crate::report::{Comparison, Section};

const KEYS: u64 = 10_000;
const DEFAULT: u32 = 10;

const TEXT: &str = "\
Tasks append to 10,000 keys at random, in a new collection. The driver's clients have ten connections at most, unless \
`maxPoolSize` is set. Rows are compared with the same number of tasks and ten connections.";

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let mut variants = Vec::new();
    for tasks in [16, 64, MOST_WRITERS] {
        let operations = bench.pick(u64::from(tasks) * 40, u64::from(tasks));
        let name = |connections: u32| format!("{tasks} tasks, {connections} connections");
        for connections in [DEFAULT, 100] {
            let collection = client(bench.db, connections).await?.collection::<Document>("pool");
            let variant = Variant::new(name(connections), operations, move || {
                let collection = collection.clone();
                async move {
                    let append = prepare(collection, true, KEYS, operations).await?;
                    Ok(in_tasks(tasks.into(), operations, append))
                }
                .boxed()
            });
            variants.push(variant.against(name(DEFAULT)).ours());
        }
    }
    let title = "Appends to 10,000 keys";
    let mut section = Section::new("pool", "Connections", TEXT);
    section.add(&Comparison::new(
        title,
        "append",
        compare(bench, title, variants).await?,
    ));
    Ok(section)
}
