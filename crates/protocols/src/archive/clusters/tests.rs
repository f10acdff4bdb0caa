use super::*;
use crate::check::{Explored, explore};

fn explored(form: Form) -> Explored {
    explore(Clusters { form })
}

#[test]
fn nothing_is_lost_between_two_clusters() {
    explored(Form::Linked).assert_holds(50_000);
}

/// A paused process commits after the copy of its move was deleted.
#[test]
fn a_judgement_without_a_write_of_the_entry_loses() {
    explored(Form::Unfenced).assert_refuted(&["the document is in one collection at least"]);
}

#[test]
fn without_the_ids_a_copy_stays() {
    explored(Form::Unrecorded).assert_refuted(&["a document in both is one of a move to end"]);
}

#[test]
fn a_move_that_begins_over_a_record_with_ids_loses_it() {
    explored(Form::Unguarded).assert_refuted(&["a document in both is one of a move to end"]);
}

/// A restore takes effect after another call has judged that it did not.
#[test]
fn a_move_that_begins_its_transaction_late_leaves_a_copy() {
    explored(Form::Late).assert_refuted(&["a document in both is one of a move to end"]);
}
