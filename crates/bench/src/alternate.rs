//! Variants that take turns operation by operation, to measure differences that are smaller than the variation of a
//! machine's speed from one second to the next.

use std::time::Instant;

use anyhow::Result;
use futures::future::{BoxFuture, try_join_all};
use mongodb::{Client, Database};
use tokio::runtime;

use crate::bench::Bench;
use crate::cpu::thread_cpu_seconds;
use crate::measure::{Entry, Operation, Sample, median};

/// One implementation of an operation.
pub(crate) struct Alternative {
    pub(crate) name: &'static str,
    pub(crate) ours: bool,
    pub(crate) operation: Operation,
}

/// The number of turns, and of operations in a turn.
#[derive(Clone, Copy)]
pub(crate) struct Turns {
    /// The turns of each variant in a round.
    pub(crate) turns: u64,
    /// The number of concurrent operations in a turn.
    pub(crate) concurrency: u64,
}

/// Runs the variants in turns, on one thread with a runtime and a client of its own. So the thread's CPU time is that
/// of the operations in the client: of this project, the driver and the system. The variants are compared with the
/// baseline. The sample of a round has the CPU time of the median turn.
pub(crate) async fn alternate(
    bench: &Bench<'_>,
    turns: Turns,
    baseline: &'static str,
    prepare: impl FnOnce(Database) -> BoxFuture<'static, Result<Vec<Alternative>>> + Send + 'static,
) -> Result<Vec<Entry>> {
    let options = bench.db.server().client_options().await?;
    let name = bench.db.database().name().to_owned();
    let rounds = bench.rounds as u64;
    let thread = move || {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let database = Client::with_options(options)?.database(&name);
            take_turns(rounds, turns, baseline, &prepare(database).await?).await
        })
    };
    // A dedicated thread.
    tokio::task::spawn_blocking(thread).await?
}

async fn take_turns(
    rounds: u64,
    Turns { turns, concurrency }: Turns,
    baseline: &str,
    alternatives: &[Alternative],
) -> Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = alternatives
        .iter()
        .map(|alternative| Entry {
            baseline: baseline.to_owned(),
            ours: alternative.ours,
            ..Entry::untimed(alternative.name)
        })
        .collect();
    for round in 0..=rounds {
        let mut seconds = vec![0.0; alternatives.len()];
        let mut cpu: Vec<Vec<f64>> = vec![Vec::new(); alternatives.len()];
        for turn in round * turns..(round + 1) * turns {
            for position in 0..alternatives.len() {
                // Each variant is the first equally often.
                let index = (position + turn as usize) % alternatives.len();
                let operation = &alternatives[index].operation;
                let (before, started) = (thread_cpu_seconds(), Instant::now());
                try_join_all((turn * concurrency..(turn + 1) * concurrency).map(|number| operation(number))).await?;
                seconds[index] += started.elapsed().as_secs_f64();
                cpu[index].extend(thread_cpu_seconds().zip(before).map(|(after, before)| after - before));
            }
        }
        // The first round is the warm-up.
        if round > 0 {
            for ((entry, seconds), cpu) in entries.iter_mut().zip(seconds).zip(cpu) {
                entry.samples.push(Sample {
                    operations: turns * concurrency,
                    seconds,
                    client_cpu_seconds: median(cpu).map(|middle| middle * turns as f64),
                    server_cpu_seconds: None,
                });
            }
        }
    }
    Ok(entries)
}
