//! The latency of single operations, as percentiles.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::Result;
use futures::future::{BoxFuture, FutureExt};
use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use crate::bench::Bench;
use crate::measure::{Operation, Variant, Work, compare};
use crate::report::Comparison;

/// The most tasks of a measurement.
pub(crate) const MOST_WRITERS: u32 = 256;
/// The numbers of writers, and how many operations they do in a round together.
const WRITERS: [(u64, u64); 4] = [(1, 300), (16, 1600), (64, 2560), (MOST_WRITERS as u64, 5120)];
const QUICK: [(u64, u64); 2] = [(1, 10), (16, 32)];
const PERCENTILES: [(&str, f64); 4] = [("p50 ms", 0.5), ("p90 ms", 0.9), ("p99 ms", 0.99), ("max ms", 1.0)];

/// One implementation of an operation.
pub(crate) struct Form<'a> {
    pub(crate) name: &'static str,
    pub(crate) ours: bool,
    /// Sets up the server for this number of operations, and returns the operation.
    pub(crate) prepare: Box<dyn Fn(u64) -> BoxFuture<'a, Result<Operation>> + Send + Sync + 'a>,
}

/// The latencies in microseconds, of the rounds that count.
struct Latencies {
    all: Histogram<u64>,
    prepared: u32,
}

/// Compares the forms at each number of writers. The last form is the baseline.
pub(crate) async fn compare_latencies(
    bench: &Bench<'_>,
    title: &'static str,
    operation: &'static str,
    forms: &[Form<'_>],
) -> Result<Comparison> {
    let writers: &[(u64, u64)] = if bench.quick { &QUICK } else { &WRITERS };
    let (mut variants, mut measured) = (Vec::new(), Vec::new());
    for &(tasks, operations) in writers {
        let name = |form: &Form<'_>| match tasks {
            1 => format!("{}, 1 writer", form.name),
            _ => format!("{}, {tasks} writers", form.name),
        };
        let baseline = forms.last().map(name).unwrap_or_default();
        for form in forms {
            let all = Histogram::new(3)?;
            let latencies = Arc::new(Mutex::new(Latencies { all, prepared: 0 }));
            measured.push((name(form), Arc::clone(&latencies)));
            let variant = Variant::new(name(form), operations, move || {
                let latencies = Arc::clone(&latencies);
                async move {
                    let prepared = (form.prepare)(operations).await?;
                    begin(&latencies);
                    Ok(timed(tasks, operations, prepared, latencies))
                }
            });
            let variant = variant.against(baseline.clone());
            variants.push(if form.ours { variant.ours() } else { variant });
        }
    }
    let mut comparison = Comparison::new(title, operation, compare(bench, title, variants).await?);
    for (name, latencies) in measured {
        let all = &latencies.lock().unwrap_or_else(PoisonError::into_inner).all;
        for (column, quantile) in PERCENTILES {
            comparison.figure(&name, column, all.value_at_quantile(quantile) as f64 / 1000.0);
        }
    }
    Ok(comparison)
}

/// Begins a round. The first one warms up, and does not count.
fn begin(latencies: &Mutex<Latencies>) {
    let mut latencies = latencies.lock().unwrap_or_else(PoisonError::into_inner);
    latencies.prepared += 1;
    if latencies.prepared == 2 {
        latencies.all.reset();
    }
}

/// Does what [`in_tasks`](crate::measure::in_tasks) does, and adds the time of each operation.
fn timed(tasks: u64, operations: u64, operation: Operation, latencies: Arc<Mutex<Latencies>>) -> Work {
    async move {
        let mut running = JoinSet::new();
        for task in 0..tasks {
            let operation = Arc::clone(&operation);
            running.spawn(async move {
                let mut own = Histogram::<u64>::new(3)?;
                for number in (task..operations).step_by(usize::try_from(tasks)?) {
                    let started = Instant::now();
                    operation(number).await?;
                    own.record(u64::try_from(started.elapsed().as_micros())?)?;
                }
                anyhow::Ok(own)
            });
        }
        while let Some(finished) = running.join_next().await {
            let own = finished??;
            latencies.lock().unwrap_or_else(PoisonError::into_inner).all.add(own)?;
        }
        Ok(())
    }
    .boxed()
}
