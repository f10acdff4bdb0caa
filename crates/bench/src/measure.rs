//! Contestants that take turns.

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

use crate::Bench;
use crate::cpu::Cpu;

/// What is timed.
pub(crate) type Work = BoxFuture<'static, Result<()>>;

/// Operation number `n`, from 0.
pub(crate) type Operation = Arc<dyn Fn(u64) -> BoxFuture<'static, Result<()>> + Send + Sync>;

/// An operation of a function.
pub(crate) fn operation<F>(of: impl Fn(u64) -> F + Send + Sync + 'static) -> Operation
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    Arc::new(move |number| of(number).boxed())
}

/// Has all that was written go to the disk, so that it is not in the server's CPU time of what comes next.
pub(crate) async fn settle(client: &Client) -> Result<()> {
    client.database("admin").run_command(doc! { "fsync": 1 }).await?;
    Ok(())
}

/// One way to do a job.
pub(crate) struct Contestant<'a> {
    name: String,
    baseline: String,
    ours: bool,
    operations: u64,
    passes: u32,
    prepare: Box<dyn Fn() -> BoxFuture<'a, Result<Work>> + 'a>,
}

impl<'a> Contestant<'a> {
    /// `prepare` makes the server ready, which is not timed, and returns the work, which is. The work does so many
    /// operations.
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

    /// It is a call of ours, and stands out in the charts.
    pub(crate) fn ours(mut self) -> Self {
        self.ours = true;
        self
    }

    /// Whom it is compared with, instead of with itself.
    pub(crate) fn against(mut self, baseline: impl Into<String>) -> Self {
        self.baseline = baseline.into();
        self
    }

    /// How often it is prepared and works in a round: for work that is too short to time.
    pub(crate) fn passes(mut self, passes: u32) -> Self {
        self.passes = passes;
        self
    }
}

/// What one contestant took in one round.
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

/// What one contestant took in all rounds, and what else is known of it.
#[derive(Debug, Serialize)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) baseline: String,
    pub(crate) ours: bool,
    pub(crate) samples: Vec<Sample>,
    /// By the name of their column, in order.
    #[serde(serialize_with = "as_map")]
    pub(crate) figures: Vec<(String, f64)>,
}

fn as_map<S: Serializer>(figures: &[(String, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(figures.iter().map(|(column, value)| (column, value)))
}

impl Entry {
    /// One of which there are figures alone.
    pub(crate) fn untimed(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            baseline: name.to_owned(),
            ours: false,
            samples: Vec::new(),
            figures: Vec::new(),
        }
    }
}

/// Lets them take turns: every round all of them, and another one first each time. The first round does not count.
pub(crate) async fn compare(bench: &Bench<'_>, title: &str, contestants: Vec<Contestant<'_>>) -> Result<Vec<Entry>> {
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); contestants.len()];
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {prefix}: {msg}")?;
    let bar = ProgressBar::new(((bench.rounds + 1) * contestants.len()) as u64).with_style(style);
    bar.set_prefix(title.to_owned());
    for round in 0..=bench.rounds {
        for place in 0..contestants.len() {
            let index = (place + round) % contestants.len();
            let contestant = &contestants[index];
            bar.set_message(contestant.name.clone());
            let sample = sample(bench, contestant).await;
            let sample = sample.with_context(|| format!("{title}: {}", contestant.name))?;
            if round > 0 {
                samples[index].push(sample);
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let entries = contestants.into_iter().zip(samples).map(|(contestant, samples)| Entry {
        name: contestant.name,
        baseline: contestant.baseline,
        ours: contestant.ours,
        samples,
        figures: Vec::new(),
    });
    Ok(entries.collect())
}

async fn sample(bench: &Bench<'_>, contestant: &Contestant<'_>) -> Result<Sample> {
    let server = bench.db.server().process().map(Mongod::pid);
    let mut total = Sample {
        operations: contestant.operations * u64::from(contestant.passes),
        seconds: 0.0,
        client_cpu_seconds: Some(0.0),
        server_cpu_seconds: Some(0.0),
    };
    for _ in 0..contestant.passes {
        let work = (contestant.prepare)().await?;
        let (cpu, started) = (Cpu::now(server), Instant::now());
        // In a task of its own, as in a service: the thread of `main` would have to be woken for every reply.
        tokio::spawn(work).await??;
        total.seconds += started.elapsed().as_secs_f64();
        let used = Cpu::now(server).since(cpu);
        let add = |total: Option<f64>, used: Option<f64>| Some(total? + used?);
        total.client_cpu_seconds = add(total.client_cpu_seconds, used.client);
        total.server_cpu_seconds = add(total.server_cpu_seconds, used.server);
    }
    Ok(total)
}

/// So many operations by so many tasks: task `t` does numbers `t`, `t + tasks`, and so on, one after another.
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

/// The middle, or the mean of the two in the middle; `None` of nothing.
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
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
