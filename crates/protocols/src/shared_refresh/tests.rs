use super::Change::{self, Delete, Insert};
use super::*;
use crate::check::explore_process;

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
    for faults in [0, 1] {
        for other in [None, Some(Insert(6)), Some(Delete(4))] {
            explore_process(process(Form::Ours, faults, other)).assert_holds(1_000);
        }
    }
}

#[test]
fn sharing_a_refresh_that_is_running_loses_an_acknowledged_child() {
    let explored = explore_process(process(Form::SharesRunning, 1, None));
    explored.assert_refuted(&["an acknowledged change is in the parent when all calls have ended"]);
}

#[test]
fn waiting_for_a_dropped_refresh_never_ends() {
    let mut naive = process(Form::WaitsForDropped, 1, None);
    naive.starts.truncate(1);
    explore_process(naive).assert_refuted(&["no call waits forever"]);
}
