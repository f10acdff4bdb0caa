use super::*;
use crate::check::{Explored, explore};
use crate::traces::{Code, all, alone};

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

#[test]
fn the_code_sends_the_commands_of_the_model() {
    let wholes = Wholes { form: Form::Related };
    let sent = |from: usize| {
        let mut documents = Documents::default();
        documents.stored[from] = (true, [Some(0), None, None, None]);
        alone(&wholes, &mut documents, Client::of(Call::Move(from)))
    };
    // The restore of one document deletes one.
    let mut code = Code::of("wholes").with("delete", "deleteMany");
    code.leave_out("archive::Sales");
    let (run, restore) = (sent(0), sent(1));
    let scan = vec!["read mongo_patterns", "read sales"];
    let two = [scan, run.clone(), run].concat();
    code.sends("archive_books::Books Archive::run, related", &two);
    code.sends("archive_books::Books Archive::restore, related", &restore);
    let scan = vec!["read archived_sales", "read mongo_patterns", "read archived_sales"];
    let two = [scan, restore.clone(), restore].concat();
    code.sends("archive_books::Books Archive::restore_many, related", &two);
    // Those of pushes, which are compared with the model of outliers.
    let pushes = ["begin: update sales", "then: update sales", "update extra_sales"];
    code.has_no_trace_of(&all(wholes), pushes);
}
