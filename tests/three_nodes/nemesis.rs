//! What happens to the primary.

use std::fmt;

use mongo_patterns_testkit::ReplicaSet;

use super::calls::Load;

/// How many calls are done before the next fault, and while a node is away.
const HEALTHY: u64 = 40;
const AWAY: u64 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Kill,
    Freeze,
    StepDown,
}

/// How often each.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub kills: usize,
    pub freezes: usize,
    pub step_downs: usize,
}

impl Faults {
    /// All of them, well mixed.
    fn in_turns(self) -> Vec<Fault> {
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
        let Self {
            kills,
            freezes,
            step_downs,
        } = self;
        write!(
            f,
            "{kills} kills, {freezes} freezes, {step_downs} step-downs of the primary"
        )
    }
}

/// Takes the primary away again and again, each time after the load has been healthy for some hundred milliseconds, and
/// brings the node back.
pub async fn torment(set: &mut ReplicaSet, load: &Load, faults: Faults) {
    for (number, fault) in faults.in_turns().into_iter().enumerate() {
        load.progress(HEALTHY).await;
        match fault {
            Fault::Kill => {
                let node = set.kill_primary().await.unwrap();
                load.progress(AWAY).await;
                set.restart(node).await.unwrap();
            }
            Fault::Freeze => {
                let node = set.freeze_primary().await.unwrap();
                // Sometimes it is back while its clients still wait for it.
                if number % 2 == 0 {
                    load.progress(AWAY).await;
                }
                set.thaw(node).await.unwrap();
            }
            Fault::StepDown => {
                set.step_down().await.unwrap();
            }
        }
    }
    load.progress(HEALTHY).await;
}
