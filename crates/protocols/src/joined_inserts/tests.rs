use stateright::{Checker, Expectation, Model};

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

fn process(form: Form, existing: Option<u8>, faults: u8) -> Process {
    // The last two calls insert the same child.
    Process {
        form,
        children: vec![0, 1, 2, 3, 3],
        existing,
        faults,
    }
}

#[test]
fn every_call_gets_the_outcome_of_its_own_child() {
    let mut states = 0;
    for faults in 0..=2 {
        for existing in [None, Some(1)] {
            let (explored, violated) = check(process(Form::Ours, existing, faults));
            assert!(violated.is_empty(), "{violated:?}, {faults} faults, {existing:?}");
            states += explored;
        }
    }
    assert!(states > 10_000, "only {states} states");
    println!("{states} states");
}

#[test]
fn a_caller_that_inserts_for_others_leaves_them_waiting_when_it_is_dropped() {
    let naive = process(Form::ByCaller, None, 1);
    let checker = naive.checker().spawn_bfs().join();
    assert!(checker.discovery("no call waits forever").is_some());
}

#[test]
fn an_undivided_batch_refuses_the_children_of_others() {
    let (_, violated) = check_naive(process(Form::Undivided, Some(1), 0));
    assert!(
        violated.contains(&"a call is refused for its own child alone"),
        "{violated:?}"
    );
}

#[test]
fn a_task_that_ends_in_two_steps_loses_a_call() {
    let (_, violated) = check_naive(process(Form::EndsInTwoSteps, None, 0));
    assert!(violated.contains(&"no call waits forever"), "{violated:?}");
}

/// Checks a naive form, which need not reach all situations.
fn check_naive(process: Process) -> (usize, Vec<&'static str>) {
    let checker = process.checker().spawn_bfs().join();
    let names = checker.model().properties().into_iter();
    let violated = names.filter(|property| property.expectation == Expectation::Always);
    let violated = violated.map(|property| property.name);
    let violated: Vec<_> = violated.filter(|name| checker.discovery(name).is_some()).collect();
    (checker.unique_state_count(), violated)
}
