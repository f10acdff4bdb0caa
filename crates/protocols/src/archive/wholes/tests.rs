use super::*;
use crate::check::{Explored, explore};

fn explored(form: Form) -> Explored {
    explore(Wholes { form })
}

#[test]
fn related_documents_stay_with_theirs_beside_pushes() {
    explored(Form::Related).assert_holds(500);
}

#[test]
fn a_main_document_alone_leaves_orphans() {
    let orphans = "overflow documents are where their main document is";
    explored(Form::MainOnly).assert_refuted(&["an acknowledged element is in the list", orphans]);
}

/// The rule for programs that insert related documents.
#[test]
fn an_insert_that_does_not_write_the_main_document_leaves_orphans() {
    let orphans = "overflow documents are where their main document is";
    explored(Form::OpenAlone).assert_refuted(&["an acknowledged element is in the list", orphans]);
}
