use super::*;
use crate::check::{explore, is_long};
use Change::{Delete, Insert, Restore, Update};
use Mode::{CompareAndSet, Transaction};

/// Returns clients with these changes, each with a number of its own.
fn clients(form: Form, calls: &[(Mode, Change)]) -> Vec<Client> {
    let write =
        |((mode, change), author): (&(Mode, Change), u8)| Client::Write(Write::new(form, author, *mode, *change));
    calls.iter().zip(0..).map(write).collect()
}

/// Returns the same, and a prune that keeps this number of revisions.
fn pruned(form: Form, calls: &[(Mode, Change)], keep: u8) -> Vec<Client> {
    let mut clients = clients(form, calls);
    clients.push(Client::Prune(Prune::new(keep)));
    clients
}

/// The calls of three clients, in this mode.
fn history(form: Form, mode: Mode) -> History {
    let of = |changes: [Change; 3]| clients(form, &changes.map(|change| (mode, change)));
    let pruned = |changes: [Change; 2], keep| pruned(form, &changes.map(|change| (mode, change)), keep);
    let (two, three) = (Documents::of(2), Documents::of(3));
    let (deleted, dead) = (Documents::deleted(2), Documents::of(2).unrecorded());
    let mut starts = vec![
        (two.clone(), of([Update(None), Update(None), Update(Some(2))])),
        (three.clone(), of([Update(None), Restore(1), Update(Some(4))])),
        (two.clone(), of([Insert, Delete, Update(None)])),
        (deleted.clone(), of([Insert, Insert, Delete])),
        (deleted.clone(), of([Insert, Delete, Restore(1)])),
        (Documents::default(), of([Insert, Insert, Update(None)])),
        (dead, of([Update(None), Insert, Delete])),
        (three.clone(), pruned([Update(None), Restore(1)], 1)),
        (three, pruned([Update(None), Update(None)], 1)),
        (deleted.clone(), pruned([Insert, Delete], 1)),
    ];
    if is_long() {
        starts.extend([
            (two.clone(), of([Insert, Delete, Delete])),
            (two, of([Restore(1), Restore(2), Delete])),
            (
                Documents::deleted(3).unrecorded(),
                of([Insert, Restore(1), Update(None)]),
            ),
            (deleted, of([Restore(1), Restore(1), Delete])),
        ]);
    }
    History { form, starts }
}

#[test]
fn a_transaction_loses_no_update_and_no_revision() {
    explore(history(Form::Ours, Transaction)).assert_holds(1000);
}

#[test]
fn compare_and_set_loses_no_update_and_no_revision() {
    explore(history(Form::Ours, CompareAndSet)).assert_holds(10_000);
}

#[test]
fn writers_of_both_forms_can_share_a_document() {
    let form = Form::Ours;
    let (two, deleted) = (Documents::of(2), Documents::deleted(2));
    let starts = vec![
        (
            two.clone(),
            clients(
                form,
                &[
                    (Transaction, Update(None)),
                    (CompareAndSet, Update(None)),
                    (Transaction, Update(Some(2))),
                ],
            ),
        ),
        (
            two.clone(),
            clients(
                form,
                &[
                    (Transaction, Delete),
                    (CompareAndSet, Insert),
                    (CompareAndSet, Update(None)),
                ],
            ),
        ),
        (
            two,
            clients(
                form,
                &[
                    (CompareAndSet, Delete),
                    (Transaction, Insert),
                    (Transaction, Restore(1)),
                ],
            ),
        ),
        (
            deleted.clone(),
            clients(
                form,
                &[(Transaction, Insert), (CompareAndSet, Insert), (Transaction, Delete)],
            ),
        ),
        (
            deleted.clone(),
            clients(
                form,
                &[(Transaction, Insert), (Transaction, Delete), (CompareAndSet, Insert)],
            ),
        ),
        (
            deleted,
            pruned(form, &[(Transaction, Insert), (CompareAndSet, Restore(1))], 1),
        ),
    ];
    explore(History { form, starts }).assert_holds(1000);
}

fn updates(form: Form) -> History {
    let calls = [(CompareAndSet, Update(None)); 3];
    History {
        form,
        starts: vec![(Documents::of(1), clients(form, &calls))],
    }
}

#[test]
fn the_manuals_form_leaves_gaps_and_stores_revisions_twice() {
    explore(updates(Form::Manual)).assert_refuted(&[
        "when all calls have returned, every revision has a copy",
        "no revision is stored twice",
    ]);
}

#[test]
fn find_copy_update_loses_updates() {
    let mut history = updates(Form::FindCopyUpdate);
    // It stores a copy of a revision when the next one follows.
    history.starts[0].0.copies.clear();
    explore(history).assert_refuted(&[
        "no update is lost",
        "each change has a number of its own",
        "no revision is stored twice",
    ]);
}

/// An insert that has read its number before others deleted the document again, or for the first time.
#[test]
fn an_insert_that_does_not_compare_the_newest_copy_takes_a_number_twice() {
    for form in [Form::NoCheck, Form::NumberOnly] {
        let calls = [Insert, Insert, Delete].map(|change| (CompareAndSet, change));
        let other = [Insert, Delete, Delete].map(|change| (CompareAndSet, change));
        let starts = vec![
            (Documents::deleted(2), clients(form, &calls)),
            (Documents::of(2), clients(form, &other)),
        ];
        explore(History { form, starts }).assert_refuted(&["the current document is the newest revision"]);
    }
}
