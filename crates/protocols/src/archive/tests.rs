use super::*;
use crate::check::{Explored, explore};
use crate::traces::{Code, all, alone};

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

#[test]
fn the_code_sends_the_commands_of_the_model() {
    let archive = Archive {
        form: Form::Transaction,
    };
    let sent = |stored: [Option<u8>; 2], call| {
        let mut documents = Documents {
            stored,
            ..Documents::default()
        };
        alone(&archive, &mut documents, Client::of(call))
    };
    // The restore of one document deletes one.
    let mut code = Code::of("archive").with("delete", "deleteMany");
    code.leave_out("related");
    code.sends(
        "archive::Sales Archive::get, archived",
        &sent([None, Some(0)], Call::Get),
    );
    code.sends("archive::Sales Archive::get, absent", &sent([None; 2], Call::Get));
    let run = sent([Some(0), None], Call::Move(0));
    let scan = vec!["read mongo_patterns", "read sales"];
    code.sends("archive::Sales Archive::run", &[scan, run.clone(), run].concat());
    let restore = sent([None, Some(0)], Call::Move(1));
    code.sends("archive::Sales Archive::restore", &restore);
    let scan = vec!["read archived_sales", "read mongo_patterns", "read archived_sales"];
    let restored = [scan, restore.clone(), restore].concat();
    code.sends("archive::Sales Archive::restore_many", &restored);
    code.has_no_trace_of(&all(archive), []);
}
