//! Contestants that take turns operation by operation: for differences that are smaller than what a machine's speed
//! varies by from one second to the next.

use std::time::Instant;

use anyhow::Result;
use futures::future::{BoxFuture, try_join_all};
use mongodb::{Client, Database};
use tokio::runtime;

use crate::Bench;
use crate::cpu::thread_cpu_seconds;
use crate::measure::{Entry, Operation, Sample, median};

/// One way to do an operation.
pub(crate) struct Alternative {
    pub(crate) name: &'static str,
    pub(crate) ours: bool,
    pub(crate) operation: Operation,
}

/// How long the contestants take turns.
#[derive(Clone, Copy)]
pub(crate) struct Turns {
    /// Of each contestant in a round.
    pub(crate) turns: u64,
    /// How many operations are under way at once in a turn.
    pub(crate) at_once: u64,
}

/// Lets them take turns, on one thread with a runtime and a client of its own, so that the thread's CPU time is what the
/// operations take in the client: ours, the driver's and the system's. All are compared with the one of that name. The
/// sample of a round has the CPU time of the median turn.
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
    // A thread that runs nothing else.
    tokio::task::spawn_blocking(thread).await?
}

async fn take_turns(
    rounds: u64,
    Turns { turns, at_once }: Turns,
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
            for place in 0..alternatives.len() {
                // Each is the first as often as the others.
                let index = (place + turn as usize) % alternatives.len();
                let operation = &alternatives[index].operation;
                let (before, started) = (thread_cpu_seconds(), Instant::now());
                try_join_all((turn * at_once..(turn + 1) * at_once).map(|number| operation(number))).await?;
                seconds[index] += started.elapsed().as_secs_f64();
                cpu[index].extend(thread_cpu_seconds().zip(before).map(|(after, before)| after - before));
            }
        }
        // The first round warms up.
        if round > 0 {
            for ((entry, seconds), cpu) in entries.iter_mut().zip(seconds).zip(cpu) {
                entry.samples.push(Sample {
                    operations: turns * at_once,
                    seconds,
                    client_cpu_seconds: median(cpu).map(|middle| middle * turns as f64),
                    server_cpu_seconds: None,
                });
            }
        }
    }
    Ok(entries)
}
