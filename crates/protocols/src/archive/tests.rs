use super::*;
use crate::check::{Explored, explore};

fn explored(form: Form) -> Explored {
    explore(Archive { form })
}

#[test]
fn a_transaction_loses_nothing_beside_a_writer_and_a_restore() {
    explored(Form::Transaction).assert_holds(500);
}

/// A document that is restored between the two reads of a reader.
#[test]
fn a_reader_that_does_not_look_again_misses_a_document() {
    explored(Form::ShortRead).assert_refuted(&["a reader finds the document"]);
}

#[test]
fn a_merge_and_a_deletion_lose() {
    explored(Form::Merge).assert_refuted(&["an acknowledged write is read", "the document is in one collection"]);
    explored(Form::KeepExisting)
        .assert_refuted(&["an acknowledged write is read", "the document is in one collection"]);
}
