use super::*;
use crate::check::{explore, is_long};
use Change::{Delete, Insert, Restore, Update, Upsert};

/// Returns clients with these changes, each with a number of its own.
fn clients(form: Form, changes: &[Change]) -> Vec<Client> {
    let write = |(change, author): (&Change, u8)| Client::Write(Write::new(form, author, *change));
    changes.iter().zip(0..).map(write).collect()
}

#[test]
fn a_transaction_loses_no_update_and_no_revision() {
    let form = Form::Ours;
    let of = |changes: [Change; 3]| clients(form, &changes);
    let pruned = |changes: [Change; 2], keep: u8| {
        let mut clients = clients(form, &changes);
        clients.push(Client::Prune(Prune::new(keep)));
        clients
    };
    let (two, three, deleted) = (Documents::of(2), Documents::of(3), Documents::deleted(2));
    let mut starts = vec![
        (two.clone(), of([Update(None), Update(None), Update(Some(2))])),
        (three.clone(), of([Update(None), Restore(1), Update(Some(4))])),
        (two.clone(), of([Insert, Delete, Update(None)])),
        (deleted.clone(), of([Insert, Insert, Delete])),
        (deleted.clone(), of([Insert, Delete, Restore(1)])),
        (Documents::default(), of([Insert, Insert, Update(None)])),
        (Documents::default(), of([Upsert, Upsert, Insert])),
        (deleted.clone(), of([Upsert, Restore(1), Insert])),
        (two.clone(), of([Upsert, Delete, Update(None)])),
        (three.clone(), pruned([Update(None), Restore(1)], 1)),
        (three, pruned([Update(None), Update(None)], 1)),
        (deleted.clone(), pruned([Insert, Delete], 1)),
    ];
    if is_long() {
        starts.extend([
            (two.clone(), of([Insert, Delete, Delete])),
            (two, of([Restore(1), Restore(2), Delete])),
            (Documents::deleted(3), of([Insert, Restore(1), Update(None)])),
            (deleted.clone(), of([Restore(1), Restore(1), Delete])),
            (deleted, of([Upsert, Upsert, Delete])),
        ]);
    }
    explore(History { form, starts }).assert_holds(1000);
}

fn updates(form: Form) -> History {
    History {
        form,
        starts: vec![(Documents::of(1), clients(form, &[Update(None); 3]))],
    }
}

#[test]
fn the_manuals_form_leaves_gaps_and_stores_revisions_twice() {
    explore(updates(Form::Manual)).assert_refuted(&["every revision has a copy", "no revision is stored twice"]);
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
