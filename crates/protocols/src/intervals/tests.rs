use super::write::{Change, Write};
use super::{Documents, Form, Intervals};
use crate::check::{explore, is_long};
use crate::traces::{Code, all, alone};
use Change::{End, Insert, InsertFrom, Update, UpdateFrom};

/// Returns clients with these changes, each with a number of its own, and a clock that is so much ahead.
fn clients(form: Form, calls: &[(Change, i8)]) -> Vec<Write> {
    let write = |((change, ahead), author): (&(Change, i8), u8)| Write::new(form, author, *change, *ahead);
    calls.iter().zip(0..).map(write).collect()
}

#[test]
fn a_transaction_leaves_no_overlap_and_no_gap() {
    let calls = |calls: [(Change, i8); 3]| clients(Form::Ours, &calls);
    let (valid, ended, changed) = (Documents::valid(), Documents::ended(3), Documents::changed());
    let mut starts = vec![
        (
            valid.clone(),
            calls([(Update(None), 0), (Update(None), -1), (Update(Some(1)), 1)]),
        ),
        (
            valid.clone(),
            calls([(Update(None), -3), (Update(None), 3), (Update(None), 0)]),
        ),
        (valid.clone(), calls([(Update(None), 0), (End, 0), (Insert, 0)])),
        (
            changed.clone(),
            calls([(Update(Some(3)), 1), (Update(Some(3)), -3), (End, 0)]),
        ),
        (ended.clone(), calls([(Insert, 0), (Insert, 0), (Update(None), 1)])),
        // The clock of the one that ended it was ahead.
        (Documents::ended(9), calls([(Insert, 0), (Update(None), 0), (End, 0)])),
        (Documents::default(), calls([(Insert, 0), (Insert, 0), (End, 0)])),
    ];
    let (later, begun) = (Documents::scheduled(7), Documents::scheduled(3));
    starts.extend([
        (later.clone(), calls([(Update(None), 0), (UpdateFrom(5), 0), (End, 0)])),
        (
            later.clone(),
            calls([(UpdateFrom(6), 0), (UpdateFrom(2), 0), (Update(None), 1)]),
        ),
        (later.clone(), calls([(End, 0), (Insert, 0), (InsertFrom(6), 0)])),
        (begun.clone(), calls([(Update(None), 0), (UpdateFrom(8), 0), (End, 0)])),
        (begun.clone(), calls([(Update(Some(3)), 0), (End, 0), (Insert, 0)])),
        (
            begun.clone(),
            calls([(UpdateFrom(2), 0), (InsertFrom(0), 0), (UpdateFrom(8), 0)]),
        ),
        // Into one gap.
        (
            Documents::default(),
            calls([(InsertFrom(5), 0), (InsertFrom(2), 0), (Insert, 0)]),
        ),
        (
            ended.clone(),
            calls([(InsertFrom(5), 0), (InsertFrom(8), 0), (InsertFrom(6), 0)]),
        ),
        (valid.clone(), calls([(End, 0), (InsertFrom(6), 0), (Insert, 0)])),
    ]);
    if is_long() {
        starts.extend([
            (later, calls([(Update(None), 0), (Update(None), 1), (UpdateFrom(6), 0)])),
            (begun, calls([(UpdateFrom(4), 0), (Insert, 0), (End, 0)])),
            (changed, calls([(Update(None), 1), (Update(None), 1), (Insert, 0)])),
            (ended, calls([(Insert, 0), (End, 0), (End, 0)])),
            (valid, calls([(End, 0), (Insert, 0), (Update(Some(1)), -3)])),
        ]);
    }
    explore(Intervals { starts }).assert_holds(1000);
}

fn updates(form: Form, documents: Documents, ahead: &[i8]) -> Intervals {
    let calls: Vec<(Change, i8)> = ahead.iter().map(|ahead| (Update(None), *ahead)).collect();
    let starts = vec![(documents, clients(form, &calls))];
    Intervals { starts }
}

#[test]
fn the_manuals_recipe_never_closes_the_valid_document() {
    let one_writer = updates(Form::Manual, Documents::changed(), &[0]);
    explore(one_writer).assert_refuted(&["at most one document is valid", "intervals do not overlap"]);
}

#[test]
fn two_writers_without_a_transaction_leave_two_valid_documents_and_gaps() {
    let two_writers = updates(Form::Repaired, Documents::valid(), &[0, 0]);
    explore(two_writers).assert_refuted(&["at most one document is valid", "a gap follows an end"]);
}

#[test]
fn in_a_transaction_a_time_from_before_another_commit_makes_intervals_overlap() {
    let writers = updates(Form::InTransaction, Documents::valid(), &[0, 0, 0]);
    explore(writers).assert_refuted(&["intervals do not overlap"]);
}

#[test]
fn the_code_sends_the_commands_of_the_model() {
    let intervals = Intervals { starts: Vec::new() };
    let sent = |mut documents: Documents, change, ahead| {
        let client = Write::new(Form::Ours, 0, change, ahead);
        alone(&intervals, &mut documents, client)
    };
    let mut code = Code::of("intervals").without_catalog();
    code.leave_out("in the caller's transaction");
    for (call, documents, change, ahead) in [
        ("insert", Documents::default(), Insert, 0),
        ("insert, after an end", Documents::ended(3), Insert, 0),
        ("update", Documents::changed(), Update(None), 0),
        ("update, at a start", Documents::changed(), Update(Some(3)), 0),
        (
            "update, by a clock that is behind",
            Documents::changed(),
            Update(None),
            -3,
        ),
        ("replace", Documents::changed(), Update(None), 0),
        ("update, in the past", Documents::valid(), UpdateFrom(2), 0),
        ("update, in the future", Documents::valid(), UpdateFrom(9), 0),
        (
            "update, after a scheduled start",
            Documents::scheduled(3),
            Update(Some(3)),
            0,
        ),
        ("insert, with a start", Documents::default(), InsertFrom(3), 0),
        ("insert, between", Documents::ended(3), InsertFrom(0), 0),
        ("end, after a scheduled start", Documents::scheduled(3), End, 0),
        ("end", Documents::changed(), End, 0),
    ] {
        let operation = format!("intervals::Shop IntervalRepository::{call}");
        code.sends(&operation, &sent(documents, change, ahead));
    }
    let calls = [(Update(Some(1)), -3), (End, 0), (End, 0)];
    let starts = vec![(Documents::valid(), clients(Form::Ours, &calls))];
    // What an end that finds nothing reads.
    code.has_no_trace_of(&all(Intervals { starts }), []);
}
