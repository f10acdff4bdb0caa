use super::*;
use crate::check::explore_process;

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
    for faults in 0..=2 {
        for existing in [None, Some(1)] {
            explore_process(process(Form::Ours, existing, faults)).assert_holds(1_000);
        }
    }
}

#[test]
fn a_caller_that_inserts_for_others_leaves_them_waiting_when_it_is_dropped() {
    explore_process(process(Form::ByCaller, None, 1)).assert_refuted(&["no call waits forever"]);
}

#[test]
fn an_undivided_batch_refuses_the_children_of_others() {
    let explored = explore_process(process(Form::Undivided, Some(1), 0));
    explored.assert_refuted(&["a call is refused for its own child alone"]);
}

#[test]
fn a_task_that_ends_in_two_steps_loses_a_call() {
    explore_process(process(Form::EndsInTwoSteps, None, 0)).assert_refuted(&["no call waits forever"]);
}
