use super::*;
use crate::check::{Explored, explore};

fn explored(form: Form) -> Explored {
    explore(Versions { form })
}

#[test]
fn guarded_writes_lose_nothing_beside_a_conversion() {
    explored(Form::Typed).assert_holds(500);
    explored(Form::OnServer).assert_holds(200);
}

/// A correct conversion does not help.
#[test]
fn a_first_release_that_writes_by_id_loses() {
    explored(Form::Unguarded).assert_refuted(&[
        "an acknowledged write is read",
        "a converted document has no field of the old version",
    ]);
}

#[test]
fn a_conversion_by_a_read_and_a_replacement_loses() {
    explored(Form::AtRead).assert_refuted(&["an acknowledged write is read", "a document is converted once"]);
    explored(Form::Batch).assert_refuted(&["an acknowledged write is read"]);
}
