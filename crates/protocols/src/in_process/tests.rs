use std::fmt::Write;

use super::call::Call::{self, *};
use super::*;
use crate::check::{Explored, explore_model};

fn check(process: Process) -> Explored {
    let mut before: Vec<Task> = Vec::new();
    explore_model(process, |text, now, is_first| {
        if is_first {
            before.clear();
        }
        let _ = writeln!(text, "  {:?}", now.documents);
        for (at, task) in now.tasks.iter().enumerate() {
            if before.get(at) != Some(task) {
                let waits = if now.locks.is_waiting(at) { ", waits" } else { "" };
                let _ = writeln!(text, "    {at}: {task:?}{waits}");
            }
        }
        before.clone_from(&now.tasks);
    })
}

/// Asserts that all invariants hold, with the documents in one stripe and in two, with a dropped future and without.
fn assert_holds(form: Form, starts: &[([Document; 2], Vec<Call>)]) {
    let mut states = 0;
    for stripes in [[0, 0], [0, 1]] {
        for drops in [0, 1] {
            let starts = starts.to_vec();
            let checked = check(Process {
                form,
                stripes,
                starts,
                drops,
            });
            for (name, counterexample) in &checked.violated {
                println!("VIOLATED {name}:\n{counterexample}");
            }
            let violated: Vec<_> = checked.violated.keys().collect();
            assert!(
                violated.is_empty(),
                "violated: {violated:?}, stripes {stripes:?}, {drops} drops"
            );
            assert!(checked.unreached.is_empty(), "not reached: {:?}", checked.unreached);
            states += checked.states;
        }
    }
    assert!(states > 1000, "only {states} states");
    println!("{states} states");
}

fn assert_refuted(form: Form, stripes: [usize; 2], drops: u8, calls: &[Call], documents: [Document; 2], name: &str) {
    let starts = vec![(documents, calls.to_vec())];
    let checked = check(Process {
        form,
        stripes,
        starts,
        drops,
    });
    checked.assert_refuted(&[name]);
}

const FULL: [Document; 2] = [Document::FULL; 2];
const FLAGGED: [Document; 2] = [Document::FLAGGED; 2];
const NONE: [Document; 2] = [Document::NONE, Document::FULL];
const fn ours() -> Form {
    Form {
        verify_ignores_pushes: false,
        verify_is_buffered: false,
        locks_in_any_order: false,
        dropped: Dropped::AbortsThenUnlocks,
    }
}

#[test]
fn calls_of_a_process_never_deadlock() {
    let starts = [
        (FULL, vec![Push(0), Push(0), Verify(0), Verify(1)]),
        (FULL, vec![Push(0), Push(1), Verify(0), Rebalance(0)]),
        (FLAGGED, vec![Push(0), Push(0), Rebalance(0), Delete(0)]),
        (NONE, vec![Insert(0), Push(0), Push(1), Delete(0)]),
        (NONE, vec![Insert(0), Insert(0), Push(0), Verify(0)]),
        (FULL, vec![Verify(0), Verify(1), PushOfReader(1), Push(0)]),
    ];
    assert_holds(ours(), &starts);
}

#[test]
fn locking_keys_in_one_order_prevents_deadlocks() {
    let both = |is_reversed| LocksBoth { is_reversed };
    let calls = vec![both(false), both(true), Delete(0), Delete(1)];
    assert_holds(ours(), &[(FULL, [&calls[..], &[Push(1)]].concat())]);
    let any_order = Form {
        locks_in_any_order: true,
        ..ours()
    };
    assert_refuted(any_order, [0, 1], 0, &calls, FULL, WAITS);
}

/// The second document is being read with its lock held, and its task is not polled.
#[test]
fn the_reader_of_a_buffered_stream_deadlocks() {
    let form = Form {
        verify_is_buffered: true,
        ..ours()
    };
    for stripes in [[0, 0], [0, 1]] {
        assert_refuted(form, stripes, 0, &[Verify(0), Verify(1), PushOfReader(1)], FULL, WAITS);
    }
}

#[test]
fn a_verify_that_ignores_pushes_reads_between_flag_and_overflow_documents() {
    let form = Form {
        verify_ignores_pushes: true,
        ..ours()
    };
    let name = "verify never reads a document in the middle of a push";
    assert_refuted(form, [0, 1], 0, &[Push(0), Verify(0)], FULL, name);
}

#[test]
fn a_dropped_call_unlocks_its_key_after_its_transaction_is_aborted() {
    let calls = [Push(0), Rebalance(0)];
    let name = "no call meets a transaction of its process";
    for dropped in [Dropped::UnlocksAtOnce, Dropped::StaysOpen] {
        assert_refuted(Form { dropped, ..ours() }, [0, 1], 1, &calls, FULL, name);
    }
    let form = Form {
        dropped: Dropped::StaysOpen,
        ..ours()
    };
    assert_refuted(form, [0, 1], 1, &calls, FULL, "no transaction stays open");
}

const WAITS: &str = "no task waits forever";
