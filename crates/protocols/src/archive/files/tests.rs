use super::*;
use crate::check::{Explored, explore};

fn explored(form: Form) -> Explored {
    explore(Files { form })
}

#[test]
fn nothing_is_lost_between_a_collection_and_files() {
    explored(Form::Recorded).assert_holds(50_000);
}

/// A paused process commits after its file was deleted.
#[test]
fn a_file_that_is_discarded_without_a_write_of_its_record_is_lost() {
    explored(Form::Unfenced).assert_refuted(&["a stored record has its file"]);
}

#[test]
fn a_transaction_that_stores_any_record_stores_one_without_a_file() {
    explored(Form::Unguarded).assert_refuted(&["a stored record has its file"]);
}

#[test]
fn a_transaction_that_does_not_read_again_loses_writes() {
    explored(Form::Unread).assert_refuted(&["an acknowledged write is read"]);
}

#[test]
fn a_file_that_is_written_after_the_transaction_is_lost() {
    explored(Form::WrittenLast).assert_refuted(&["a stored record has its file"]);
}
