//! The faults of the primary.

use std::fmt;
use std::time::{Duration, Instant};

use mongo_patterns_testkit::ReplicaSet;
use tokio::time::timeout;

use crate::cluster::load::calls::Load;

/// How many calls succeed before the next fault, and while a node is away.
const HEALTHY: u64 = 40;
const AWAY: u64 = 20;
/// The longest time that a node is frozen after another primary was elected.
const FROZEN: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Kill,
    Freeze,
    StepDown,
}

/// The number of each fault.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub kills: usize,
    pub freezes: usize,
    pub step_downs: usize,
}

impl Faults {
    /// Returns all faults, evenly interleaved.
    fn interleaved(self) -> Vec<Fault> {
        let kinds = [
            (Fault::Kill, self.kills),
            (Fault::Freeze, self.freezes),
            (Fault::StepDown, self.step_downs),
        ];
        let spread =
            |(fault, times): (Fault, usize)| (0..times).map(move |time| ((time as f64 + 0.5) / times as f64, fault));
        let mut faults: Vec<(f64, Fault)> = kinds.into_iter().flat_map(spread).collect();
        faults.sort_by(|a, b| a.0.total_cmp(&b.0));
        faults.into_iter().map(|(_, fault)| fault).collect()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} kills, {} freezes, ", self.kills, self.freezes)?;
        write!(f, "{} step-downs of the primary", self.step_downs)
    }
}

/// Takes the primary away and brings it back, for each fault. Before each, the load has been healthy for some hundred
/// milliseconds. Prints the durations, for the case that one fails.
pub async fn inject_faults(set: &mut ReplicaSet, load: &Load, faults: Faults) {
    for (number, fault) in faults.interleaved().into_iter().enumerate() {
        load.progress(HEALTHY).await;
        let started = Instant::now();
        let replaced = match fault {
            Fault::Kill => set.kill_primary().await,
            Fault::Freeze => set.freeze_primary().await,
            Fault::StepDown => set.step_down().await,
        };
        let (node, elected) = (replaced.unwrap(), started.elapsed());
        match fault {
            Fault::Kill => load.progress(AWAY).await,
            // Half of the frozen nodes are back while their clients still wait for them. A secondary that syncs from a
            // frozen node continues to do so for some 20 seconds, and without that secondary there is no majority.
            Fault::Freeze if number % 2 == 0 => drop(timeout(FROZEN, load.progress(AWAY)).await),
            _ => {}
        }
        let worked = started.elapsed();
        match fault {
            Fault::Kill => set.restart(node).await.unwrap(),
            Fault::Freeze => set.thaw(node).await.unwrap(),
            Fault::StepDown => {}
        }
        println!(
            "{number} {fault:?}: another primary after {elected:.1?}, restarted after {worked:.1?}, available after {:.1?}",
            started.elapsed()
        );
    }
    load.progress(HEALTHY).await;
}
