use std::collections::BTreeMap;
use std::fmt::Write;

use stateright::{Checker, Expectation, Model};

use super::call::Call::{self, *};
use super::*;

struct Checked {
    broken: BTreeMap<&'static str, String>,
    unseen: Vec<&'static str>,
    states: usize,
}

fn check(process: Process) -> Checked {
    let checker = process.checker().spawn_bfs().join();
    let mut discoveries = checker.discoveries();
    let (mut broken, mut unseen) = (BTreeMap::new(), Vec::new());
    for property in checker.model().properties() {
        match (property.expectation, discoveries.remove(property.name)) {
            (Expectation::Sometimes, None) => unseen.push(property.name),
            (Expectation::Always, Some(path)) => {
                let mut way = String::new();
                let mut before: Vec<Task> = Vec::new();
                for (now, step) in path.into_vec() {
                    let _ = writeln!(way, "  {:?}", now.documents);
                    for (at, task) in now.tasks.iter().enumerate() {
                        if before.get(at) != Some(task) {
                            let waits = if now.locks.is_waiting(at) { ", waits" } else { "" };
                            let _ = writeln!(way, "    {at}: {task:?}{waits}");
                        }
                    }
                    before = now.tasks;
                    if let Some(step) = step {
                        let _ = writeln!(way, "{step:?}");
                    }
                }
                broken.insert(property.name, way);
            }
            _ => {}
        }
    }
    Checked {
        broken,
        unseen,
        states: checker.unique_state_count(),
    }
}

/// That all holds, with the documents in one stripe and in two, and with a dropped future and without.
fn assert_right(form: Form, starts: &[([Document; 2], Vec<Call>)]) {
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
            for (name, way) in &checked.broken {
                println!("NOT {name}:\n{way}");
            }
            let broken: Vec<_> = checked.broken.keys().collect();
            assert!(
                broken.is_empty(),
                "it does not hold that {broken:?}, stripes {stripes:?}, {drops} drops"
            );
            assert!(checked.unseen.is_empty(), "never seen: {:?}", checked.unseen);
            states += checked.states;
        }
    }
    assert!(states > 1000, "only {states} states");
    println!("{states} states");
}

fn assert_wrong(form: Form, stripes: [usize; 2], drops: u8, calls: &[Call], documents: [Document; 2], name: &str) {
    let starts = vec![(documents, calls.to_vec())];
    let checked = check(Process {
        form,
        stripes,
        starts,
        drops,
    });
    let way = checked.broken.get(name);
    let way = way.unwrap_or_else(|| panic!("it holds that {name}: {} states", checked.states));
    println!("NOT {name}:\n{way}");
}

const FULL: [Document; 2] = [Document::FULL; 2];
const FLAGGED: [Document; 2] = [Document::FLAGGED; 2];
const NONE: [Document; 2] = [Document::NONE, Document::FULL];
const STANDALONE: Form = Form {
    is_standalone: true,
    ..ours()
};

const fn ours() -> Form {
    Form {
        is_standalone: false,
        insert_waits_for_opener: false,
        verify_ignores_pushes: false,
        repair_ignores_pushes: false,
        verify_is_buffered: false,
        locks_in_any_order: false,
        dropped: Dropped::AbortsThenUnlocks,
    }
}

#[test]
fn calls_of_a_process_wait_for_no_other_for_ever() {
    let starts = [
        (FULL, vec![Push(0), Push(0), Verify(0), Verify(1)]),
        (FULL, vec![Push(0), Push(1), Verify(0), Rebalance(0)]),
        (FLAGGED, vec![Push(0), Push(0), Rebalance(0), Delete(0)]),
        (NONE, vec![Insert(0), Push(0), Push(1), Delete(0)]),
        (NONE, vec![Insert(0), Insert(0), Push(0), Verify(0)]),
        (FULL, vec![Verify(0), Verify(1), PushOfReader(1), Push(0)]),
    ];
    assert_right(ours(), &starts);
}

#[test]
fn nor_do_they_on_a_standalone() {
    let starts = [
        (FULL, vec![Push(0), Push(0), Verify(0), Push(1)]),
        (NONE, vec![Insert(0), Push(0), Push(0), Delete(0)]),
        (NONE, vec![Insert(0), Push(0), Push(1), Verify(0)]),
        (FLAGGED, vec![Push(0), Push(0), RepairInSteps(0), Verify(0)]),
        (FLAGGED, vec![Push(0), RepairInSteps(0), RepairInSteps(1), Delete(0)]),
    ];
    assert_right(STANDALONE, &starts);
}

#[test]
fn keys_are_locked_in_one_order() {
    let both = |is_reversed| LocksBoth { is_reversed };
    let calls = vec![both(false), both(true), Delete(0), Delete(1)];
    assert_right(ours(), &[(FULL, [&calls[..], &[Push(1)]].concat())]);
    let any_order = Form {
        locks_in_any_order: true,
        ..ours()
    };
    assert_wrong(any_order, [0, 1], 0, &calls, FULL, WAITS);
}

#[test]
fn an_insert_that_waits_for_an_opener_waits_for_ever() {
    let form = Form {
        insert_waits_for_opener: true,
        ..STANDALONE
    };
    assert_wrong(form, [0, 0], 0, &[Push(1), Insert(0)], NONE, WAITS);
    assert_wrong(
        form,
        [0, 1],
        0,
        &[Insert(0), Push(0), Delete(0)],
        [Document::FULL; 2],
        WAITS,
    );
}

/// The second document is looked at with its lock held, and not polled.
#[test]
fn the_reader_of_a_buffered_stream_waits_for_ever() {
    let form = Form {
        verify_is_buffered: true,
        ..ours()
    };
    for stripes in [[0, 0], [0, 1]] {
        assert_wrong(form, stripes, 0, &[Verify(0), Verify(1), PushOfReader(1)], FULL, WAITS);
    }
}

#[test]
fn a_verify_that_ignores_pushes_reads_between_flag_and_overflow_documents() {
    for is_standalone in [false, true] {
        let form = Form {
            verify_ignores_pushes: true,
            is_standalone,
            ..ours()
        };
        assert_wrong(
            form,
            [0, 1],
            0,
            &[Push(0), Verify(0)],
            FULL,
            "verify reads nothing in the middle of a push",
        );
    }
}

#[test]
fn a_repair_that_ignores_pushes_hides_an_acknowledged_element() {
    let form = Form {
        repair_ignores_pushes: true,
        ..STANDALONE
    };
    let name = "an acknowledged element is seen by who follows the flag";
    assert_wrong(form, [0, 1], 0, &[Push(0), Push(0), RepairInSteps(0)], FLAGGED, name);
}

#[test]
fn a_key_is_unlocked_after_the_transaction_of_a_dropped_call() {
    let calls = [Push(0), Rebalance(0)];
    let name = "no call meets a transaction of its process";
    for dropped in [Dropped::UnlocksAtOnce, Dropped::StaysOpen] {
        assert_wrong(Form { dropped, ..ours() }, [0, 1], 1, &calls, FULL, name);
    }
    let form = Form {
        dropped: Dropped::StaysOpen,
        ..ours()
    };
    assert_wrong(form, [0, 1], 1, &calls, FULL, "no transaction stays open");
}

const WAITS: &str = "no task waits for ever";
