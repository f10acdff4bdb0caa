use super::*;
use crate::check::{explore, is_long};
use crate::traces::{Code, all, alone};
use Change::{Delete, DeleteThrough, Insert, Restore, Update, Upsert};

/// Returns clients with these changes, each with a number of its own.
fn clients(form: Form, changes: &[Change]) -> Vec<Client> {
    let write = |(change, author): (&Change, u8)| Client::Write(Write::new(form, author, *change));
    changes.iter().zip(0..).map(write).collect()
}

#[test]
fn a_transaction_loses_no_update_and_no_revision() {
    let form = Form::Ours;
    let of = |changes: [Change; 3]| clients(form, &changes);
    let deleted_old = |changes: [Change; 2], keep: u8| {
        let mut clients = clients(form, &changes);
        clients.push(Client::DeleteOld(DeleteOld::new(keep)));
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
        (two.clone(), of([DeleteThrough, Delete, Update(None)])),
        (two.clone(), of([DeleteThrough, Upsert, Restore(1)])),
        (three.clone(), deleted_old([Update(None), Restore(1)], 1)),
        (three, deleted_old([Update(None), Update(None)], 1)),
        (deleted.clone(), deleted_old([Insert, Delete], 1)),
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

#[test]
fn the_code_sends_the_commands_of_the_model() {
    let form = Form::Ours;
    let history = History {
        form,
        starts: Vec::new(),
    };
    let mut code = Code::of("history")
        .without_catalog()
        .with("contracts", "currentPolicies")
        .with("customers", "currentPolicies")
        .with("customer_revisions", "policyRevisions")
        .with("deleted_customers", "deletedPolicies")
        .with("contractRevisions", "policyRevisions");
    code.leave_out("in the caller's transaction");
    let sent = |mut documents: Documents, change| {
        let [client] = <[Client; 1]>::try_from(clients(form, &[change])).expect("one client");
        alone(&history, &mut documents, client)
    };
    for (table, by) in [("history::Office", ""), ("history::Office<true>", ", by _id")] {
        for (call, case, documents, change) in [
            ("insert", "", Documents::default(), Insert),
            ("insert", ", after a deletion", Documents::deleted(2), Insert),
            ("update", "", Documents::of(2), Update(None)),
            ("update", ", at a revision", Documents::of(2), Update(Some(2))),
            ("replace", "", Documents::of(2), Update(None)),
            ("upsert", "", Documents::of(2), Upsert),
            ("upsert", ", after a deletion", Documents::deleted(2), Upsert),
            ("restore", "", Documents::of(3), Restore(1)),
            ("restore", ", of a deleted document", Documents::deleted(2), Restore(1)),
            ("delete", "", Documents::of(2), Delete),
        ] {
            let operation = format!("{table} HistoryRepository::{call}{by}{case}");
            code.sends(&operation, &sent(documents, change));
        }
    }
    code.sends(
        "through::Recorded HistoryRepository::delete, through a trash",
        &sent(Documents::of(2), DeleteThrough),
    );
    let sent = alone(&history, &mut Documents::of(3), Client::DeleteOld(DeleteOld::new(1)));
    for call in ["delete_before", "keep_last"] {
        code.sends(&format!("history::Office HistoryRepository::{call}"), &sent);
    }
    let every = History {
        form,
        starts: vec![
            (Documents::of(2), clients(form, &[Update(Some(2)), Delete, Insert])),
            (Documents::of(2), clients(form, &[DeleteThrough])),
            (
                Documents::deleted(2),
                clients(form, &[Upsert, Restore(1), Update(None)]),
            ),
        ],
    };
    code.has_no_trace_of(&all(every), []);
}
