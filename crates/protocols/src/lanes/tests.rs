use super::*;
use crate::check::{explore_process, is_long};

fn joins(document: usize) -> Call {
    Call {
        documents: vec![document],
        joins: true,
        ..Call::default()
    }
}

fn waits(documents: &[usize]) -> Call {
    Call {
        documents: documents.to_vec(),
        ..Call::default()
    }
}

fn refused(call: Call) -> Call {
    Call {
        is_refused: true,
        ..call
    }
}

/// Polled by a runtime that does not end.
fn elsewhere(call: Call) -> Call {
    Call { runtime: 1, ..call }
}

fn at(place: Place, call: Call) -> Call {
    Call { place, ..call }
}

fn process(form: Form, calls: impl Into<Vec<Call>>) -> Process {
    Process {
        form,
        calls: calls.into(),
        in_transaction: false,
        faults: 0,
        can_end: false,
    }
}

/// Returns how many items each command has when that many calls begin before the first reply.
pub(crate) fn batches(calls: usize) -> Vec<usize> {
    let process = process(Form::Ours, vec![joins(0); calls]);
    let mut now = process.init_states().remove(0);
    let mut sent = Vec::new();
    loop {
        let steps = process.progress(&now).into_iter().map(|(step, _)| step);
        let Some(step) = steps.min_by_key(|step| matches!(step, Step::Executes(_))) else {
            return sent;
        };
        if let Step::Works(at) = step
            && now.works[at].at == CommandAt::Unsent
        {
            sent.push(now.works[at].items.len());
        }
        now = process.next_state(&now, step).expect("a step that can run");
    }
}

/// Asserts that all invariants hold, with single commands and with transactions.
fn assert_holds(calls: &[Call], faults: u8, can_end: bool, at_least: usize) {
    for in_transaction in [false, true] {
        let process = Process {
            in_transaction,
            faults,
            can_end,
            ..process(Form::Ours, calls)
        };
        explore_process(process).assert_holds(at_least);
    }
}

fn assert_refuted(process: Process, name: &str) {
    explore_process(process).assert_refuted(&[name]);
}

#[test]
fn calls_that_join_get_the_outcome_of_their_own_items() {
    let refused = refused(joins(0));
    assert_holds(&[joins(0), joins(0), refused.clone(), joins(0)], 0, false, 200);
    let mut calls = vec![joins(0), joins(0), joins(0), waits(&[0])];
    assert_holds(&calls, 1, false, 1_000);
    if is_long() {
        calls.push(refused);
        assert_holds(&calls, 2, false, 10_000);
    }
}

#[test]
fn calls_can_be_dropped_at_any_step() {
    let refused = refused(joins(0));
    assert_holds(&[joins(0), joins(0), refused.clone()], 2, false, 1_000);
    assert_holds(&[joins(0), waits(&[0]), joins(1)], 2, false, 1_000);
    if is_long() {
        assert_holds(&[joins(0), joins(0), refused, joins(1)], 3, false, 100_000);
    }
}

#[test]
fn a_runtime_can_end() {
    let mut calls = vec![joins(0), joins(0), elsewhere(joins(0)), elsewhere(waits(&[0]))];
    assert_holds(&calls, 0, true, 1_000);
    if is_long() {
        calls.push(elsewhere(joins(0)));
        assert_holds(&calls, 2, true, 10_000);
    }
}

#[test]
fn lanes_in_one_order_prevent_deadlocks() {
    let calls = [waits(&[0, 1]), waits(&[1, 0]), joins(0), waits(&[1])];
    assert_holds(&calls, 1, false, 1_000);
    assert_refuted(process(Form::InAnyOrder, calls), WAITS);
}

#[test]
fn a_stream_in_rounds_lets_its_reader_call_the_repository() {
    let stream = |document| at(Place::Stream, waits(&[document]));
    let calls = [stream(0), stream(1), at(Place::Reader, waits(&[1]))];
    assert_holds(&calls, 0, false, 20);
    assert_refuted(process(Form::BufferedStream, calls), WAITS);
}

#[test]
fn a_lane_that_is_free_too_early_lets_two_commands_meet() {
    let process = |in_transaction| Process {
        in_transaction,
        faults: 1,
        ..process(Form::FreesLane, [joins(0), joins(0)])
    };
    assert_refuted(process(false), "a call keeps its lanes until the last reply");
    assert_refuted(process(false), "a document has one command on the server");
    assert_refuted(process(true), "a document has one command on the server");
}

/// The defect of the driver.
#[test]
fn a_command_that_is_dropped_with_its_future_lets_another_document_wait() {
    let process = Process {
        faults: 1,
        ..process(Form::DropsCommand, [joins(0), joins(1)])
    };
    assert_refuted(process, "a call waits for its own document alone");
}

#[test]
fn a_transaction_that_stays_open_lets_the_next_call_wait() {
    let process = || Process {
        in_transaction: true,
        faults: 1,
        ..process(Form::LeavesTransactionOpen, [joins(0), joins(0)])
    };
    assert_refuted(process(), "a document has one command on the server");
    assert_refuted(process(), "at the end nothing is locked, queued or open");
}

#[test]
fn a_caller_that_stores_for_others_leaves_them_waiting_when_it_is_dropped() {
    let process = Process {
        faults: 1,
        ..process(Form::ByCaller, [joins(0), joins(0), joins(0)])
    };
    assert_refuted(process, WAITS);
}

#[test]
fn an_undivided_batch_refuses_the_items_of_others() {
    let calls = [joins(0), joins(0), refused(joins(0))];
    assert_refuted(
        process(Form::Undivided, calls),
        "a call is refused for its own item alone",
    );
}

#[test]
fn an_item_that_stays_in_the_queue_is_stored_for_a_dropped_call() {
    let process = Process {
        faults: 1,
        ..process(Form::KeepsDroppedItems, [joins(0), joins(0)])
    };
    assert_refuted(process, "what has no effect is not stored");
}

#[test]
fn a_task_that_ends_in_two_steps_loses_a_call() {
    assert_refuted(process(Form::EndsInTwoSteps, [joins(0), joins(0), joins(0)]), WAITS);
}

#[test]
fn a_queue_that_outlives_its_task_is_never_sent() {
    let process = Process {
        can_end: true,
        ..process(Form::LeavesQueue, [joins(0), joins(0), elsewhere(joins(0))])
    };
    assert_refuted(process, WAITS);
}

const WAITS: &str = "no call waits forever";
