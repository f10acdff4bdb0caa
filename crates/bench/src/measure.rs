//! Variants that take turns.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use futures::future::{BoxFuture, FutureExt};
use indicatif::{ProgressBar, ProgressStyle};
use mongo_patterns_testkit::Mongod;
use mongodb::Client;
use mongodb::bson::doc;
use serde::{Serialize, Serializer};
use tokio::task::JoinSet;

use crate::bench::Bench;
use crate::cpu::Cpu;

/// The work that is timed.
pub(crate) type Work = BoxFuture<'static, Result<()>>;

/// Operation number `n`, from 0.
pub(crate) type Operation = Arc<dyn Fn(u64) -> BoxFuture<'static, Result<()>> + Send + Sync>;

/// Returns an operation that calls a function.
pub(crate) fn operation<F>(of: impl Fn(u64) -> F + Send + Sync + 'static) -> Operation
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    Arc::new(move |number| of(number).boxed())
}

/// Flushes all writes to disk, so that the server's CPU time for them does not count for what follows.
pub(crate) async fn settle(client: &Client) -> Result<()> {
    client.database("admin").run_command(doc! { "fsync": 1 }).await?;
    Ok(())
}

/// One implementation of a job.
pub(crate) struct Variant<'a> {
    name: String,
    baseline: String,
    ours: bool,
    operations: u64,
    passes: u32,
    prepare: Box<dyn Fn() -> BoxFuture<'a, Result<Work>> + 'a>,
}

impl<'a> Variant<'a> {
    /// Creates a variant. `prepare` sets up the server, which is not timed, and returns the work, which is. The work
    /// consists of this number of operations.
    pub(crate) fn new<F>(name: impl Into<String>, operations: u64, prepare: impl Fn() -> F + 'a) -> Self
    where
        F: Future<Output = Result<Work>> + Send + 'a,
    {
        let name = name.into();
        Self {
            baseline: name.clone(),
            name,
            ours: false,
            operations,
            passes: 1,
            prepare: Box::new(move || prepare().boxed()),
        }
    }

    /// Marks it as a call of this project, which the charts highlight.
    pub(crate) fn ours(mut self) -> Self {
        self.ours = true;
        self
    }

    /// Sets the variant with which it is compared, instead of itself.
    pub(crate) fn against(mut self, baseline: impl Into<String>) -> Self {
        self.baseline = baseline.into();
        self
    }

    /// Sets how often it is prepared and run in a round, for work that is too short to time.
    pub(crate) fn passes(mut self, passes: u32) -> Self {
        self.passes = passes;
        self
    }
}

/// The measurements of one variant in one round.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sample {
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    pub(crate) client_cpu_seconds: Option<f64>,
    pub(crate) server_cpu_seconds: Option<f64>,
}

impl Sample {
    pub(crate) fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds
    }

    pub(crate) fn client_us(&self) -> Option<f64> {
        Some(self.client_cpu_seconds? * 1e6 / self.operations as f64)
    }

    pub(crate) fn server_us(&self) -> Option<f64> {
        Some(self.server_cpu_seconds? * 1e6 / self.operations as f64)
    }
}

/// The measurements of one variant in all rounds, and its other figures.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) baseline: String,
    pub(crate) ours: bool,
    pub(crate) samples: Vec<Sample>,
    /// The other figures, by the name of their column, in order.
    #[serde(serialize_with = "as_map")]
    pub(crate) figures: Vec<(String, f64)>,
}

fn as_map<S: Serializer>(figures: &[(String, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(figures.iter().map(|(column, value)| (column, value)))
}

impl Entry {}

/// Runs the variants in turns: each once in every round, starting with another one each time. The first round does not
/// count.
pub(crate) async fn compare(bench: &Bench<'_>, title: &str, variants: Vec<Variant<'_>>) -> Result<Vec<Entry>> {
    in_rounds(bench, title, variants, 0..=bench.rounds).await
}

async fn in_rounds(
    bench: &Bench<'_>,
    title: &str,
    variants: Vec<Variant<'_>>,
    rounds: RangeInclusive<usize>,
) -> Result<Vec<Entry>> {
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); variants.len()];
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {prefix}: {msg}")?;
    let bar = ProgressBar::new((rounds.clone().count() * variants.len()) as u64).with_style(style);
    bar.set_prefix(title.to_owned());
    for round in rounds {
        for position in 0..variants.len() {
            let index = (position + round) % variants.len();
            let variant = &variants[index];
            bar.set_message(variant.name.clone());
            let sample = sample(bench, variant).await;
            let sample = sample.with_context(|| format!("{title}: {}", variant.name))?;
            if round > 0 {
                samples[index].push(sample);
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let entries = variants.into_iter().zip(samples).map(|(variant, samples)| Entry {
        name: variant.name,
        baseline: variant.baseline,
        ours: variant.ours,
        samples,
        figures: Vec::new(),
    });
    Ok(entries.collect())
}

async fn sample(bench: &Bench<'_>, variant: &Variant<'_>) -> Result<Sample> {
    let server = bench.db.server().process().and_then(Mongod::pid);
    let mut total = Sample {
        operations: variant.operations * u64::from(variant.passes),
        seconds: 0.0,
        client_cpu_seconds: Some(0.0),
        server_cpu_seconds: Some(0.0),
    };
    for _ in 0..variant.passes {
        let work = (variant.prepare)().await?;
        let (cpu, started) = (Cpu::now(server), Instant::now());
        // In a task, as in a service: the thread of `main` would have to be woken for every reply.
        tokio::spawn(work).await??;
        total.seconds += started.elapsed().as_secs_f64();
        let used = Cpu::now(server).since(cpu);
        let add = |total: Option<f64>, used: Option<f64>| Some(total? + used?);
        total.client_cpu_seconds = add(total.client_cpu_seconds, used.client);
        total.server_cpu_seconds = add(total.server_cpu_seconds, used.server);
    }
    Ok(total)
}

/// Runs this number of operations by this number of tasks: task `t` runs numbers `t`, `t + tasks`, and so on, one after
/// another.
pub(crate) fn in_tasks(tasks: u64, operations: u64, operation: Operation) -> Work {
    async move {
        let mut running = JoinSet::new();
        for task in 0..tasks {
            let operation = Arc::clone(&operation);
            running.spawn(async move {
                for number in (task..operations).step_by(usize::try_from(tasks)?) {
                    operation(number).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(finished) = running.join_next().await {
            finished??;
        }
        Ok(())
    }
    .boxed()
}

/// Returns the median, or `None` without values.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 0 => Some((values[middle - 1] + values[middle]) / 2.0),
        _ => Some(values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_value() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
