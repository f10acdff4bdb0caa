use super::*;
use crate::check::{Explored, explore};
use crate::traces::{Code, all, alone};

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

#[test]
fn the_code_sends_the_commands_of_the_model() {
    let files = Files { form: Form::Recorded };
    let sent = |start: usize, call| {
        let (mut documents, _) = files.starts()[start].clone();
        alone(&files, &mut documents, Client::of(call))
    };
    let mut code = Code::of("files");
    let run = sent(0, Call::Run);
    // Two chunks, after the settings and the `_id`s are read. The first discards what is left.
    let chunks = [&["read mongo_patterns", "read sales"], &run[..], &run[1..]];
    code.sends("file_archive::Sales FileArchive::run", &chunks.concat());
    code.sends("file_archive::Sales FileArchive::restore_file", &sent(2, Call::Restore));
    // It discards a file that is left.
    code.has_no_trace_of(&all(files), ["update mongo_patterns"]);
}
