use stateright::{Checker, Expectation, Model};

use super::Change::{self, Delete, Insert};
use super::*;

fn check(process: Process) -> (usize, Vec<&'static str>) {
    let checker = process.checker().spawn_bfs().join();
    let discoveries = checker.discoveries();
    let mut violated = Vec::new();
    for property in checker.model().properties() {
        match (property.expectation, discoveries.get(property.name)) {
            (Expectation::Always, Some(path)) => {
                println!("VIOLATED {}:", property.name);
                for (now, step) in path.clone().into_vec() {
                    println!("  {now:?}\n{step:?}");
                }
                violated.push(property.name);
            }
            (Expectation::Sometimes, None) => panic!("not reached: {}", property.name),
            _ => {}
        }
    }
    (checker.unique_state_count(), violated)
}

fn process(form: Form, faults: u8, other: Option<Change>) -> Process {
    Process {
        form,
        starts: vec![
            (0b11, vec![Insert(2), Insert(3), Insert(4)]),
            (0b111_0000, vec![Insert(0), Delete(6), Insert(7)]),
            (0b111_0000, vec![Insert(0), Insert(1), Delete(6)]),
            (0b111_0000, vec![Insert(0), Delete(5), Delete(6)]),
        ],
        other,
        faults,
    }
}

#[test]
fn a_shared_refresh_covers_every_call_that_shares_it() {
    let mut states = 0;
    for faults in [0, 1] {
        for other in [None, Some(Insert(6)), Some(Delete(4))] {
            let (explored, violated) = check(process(Form::Ours, faults, other));
            assert!(violated.is_empty(), "{violated:?}, {faults} faults, {other:?}");
            states += explored;
        }
    }
    assert!(states > 10_000, "only {states} states");
    println!("{states} states");
}

#[test]
fn sharing_a_refresh_that_is_running_loses_an_acknowledged_child() {
    let (_, violated) = check(process(Form::SharesRunning, 1, None));
    let name = "an acknowledged change is in the parent when all calls have ended";
    assert!(violated.contains(&name), "{violated:?}");
}

#[test]
fn waiting_for_a_dropped_refresh_never_ends() {
    let mut naive = process(Form::WaitsForDropped, 1, None);
    naive.starts.truncate(1);
    let checker = naive.checker().spawn_bfs().join();
    assert!(checker.discovery("no call waits forever").is_some());
}
