use super::*;
use crate::check::{explore, is_long};
use crate::traces::{Code, all, alone};

fn steps(form: Form) -> Steps {
    Steps {
        form,
        instances: 2,
        ends: 2,
    }
}

#[test]
fn steps_in_transactions_are_applied_once_and_plain_ones_at_least_once() {
    let ends = if is_long() { 3 } else { 2 };
    explore(Steps {
        ends,
        ..steps(Form::Ours)
    })
    .assert_holds(1000);
}

#[test]
fn without_the_fence_a_late_instance_records_again() {
    explore(steps(Form::Unfenced)).assert_refuted(&[
        "a step in a transaction is applied once",
        "steps are recorded once and in their order",
    ]);
}

/// Two instances that start at once are enough.
#[test]
fn a_tool_without_a_lease_runs_steps_twice() {
    explore(steps(Form::Tool)).assert_refuted(&[
        "a step in a transaction is applied once",
        "steps are recorded once and in their order",
        "without an end of the lease, a plain step runs once",
    ]);
}

#[test]
fn the_code_sends_the_commands_of_the_model() {
    let mut code = Code::of("steps");
    let sent = alone(&steps(Form::Ours), &mut Documents::default(), START);
    code.sends("schema::Instance Migrations::run", &sent);
    code.has_no_trace_of(&all(steps(Form::Ours)), []);
}
