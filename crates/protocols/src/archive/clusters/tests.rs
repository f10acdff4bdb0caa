use super::*;
use crate::check::{Explored, explore};
use crate::traces::{Code, all, alone};

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

#[test]
fn the_code_sends_the_commands_of_the_model() {
    let clusters = Clusters { form: Form::Linked };
    let mut code = Code::of("clusters");
    code.leave_out("archive::Sales<false>");
    code.leave_out("related");
    let start = |is_archived: bool| Documents {
        hot: (!is_archived).then_some(0),
        cold: is_archived.then_some(0),
        ..Documents::default()
    };
    let send = |documents: &mut Documents, call| alone(&clusters, documents, Client::of(call));

    let restore = send(&mut start(true), Call::Restore);
    code.sends("archive::Sales<true> Archive::restore, another cluster", &restore);

    // Between two chunks, the next move ends the last one.
    let split = |sent: Vec<&'static str>| {
        let end = sent.iter().rposition(|command| *command == "read mongo_patterns");
        let (sent, end) = sent.split_at(end.expect("an end"));
        (sent.to_vec(), end.to_vec())
    };
    let next = |before: &Documents, has_ids: bool, call| {
        let Documents { hot, cold, .. } = start(call == Call::Restore);
        let mut documents = Documents {
            hot,
            cold,
            ..before.clone()
        };
        documents.record.has_ids = has_ids;
        send(&mut documents, call)
    };
    let mut documents = start(false);
    let (first, _) = split(send(&mut documents, Call::Archive));
    let second = next(&documents, true, Call::Archive);
    let scan = vec!["read mongo_patterns", "read sales"];
    code.sends(
        "archive::Sales<true> Archive::run, another cluster",
        &[scan, first, second].concat(),
    );

    let mut documents = start(true);
    let (first, end) = split(send(&mut documents, Call::Restore));
    let second = next(&documents, false, Call::Restore);
    let scan = ["read archived_sales", "read mongo_patterns", "read archived_sales"];
    let mut chunks = [&scan, &first[..], &end, &second[2..]].concat();
    // It learns from the insert that the collection has a document.
    chunks.retain(|command| *command != "read sales");
    code.sends("archive::Sales<true> Archive::restore_many, another cluster", &chunks);
    code.has_no_trace_of(&all(clusters), []);
}
