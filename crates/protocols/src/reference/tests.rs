use super::*;
use crate::check::{explore, is_long};
use crate::traces::{Code, all, alone};
use Mode::{Single, Transaction};

/// The calls of the tests. Each is of source 0, if it does not name another one.
#[derive(Clone, Copy)]
enum Call {
    /// Inserts an order of the client.
    Insert,
    /// Sets the reference of an order to a source.
    Set(u8, u8),
    Rename,
    Sweep,
    Delete,
    DeleteThrough,
}

use Call::{Insert, Rename, Set, Sweep};

/// The order that a client inserts.
fn inserted_by(client: u8) -> u8 {
    4 + client
}

fn clients(form: Form, calls: &[(Mode, Call)]) -> Vec<Client> {
    let client = |((mode, call), client): (&(Mode, Call), u8)| match *call {
        Insert => Client::Link(Link::insert(*mode, inserted_by(client), 0)),
        Set(order, source) => Client::Link(Link::set(*mode, order, source)),
        Rename => Client::Change(Change::rename(*mode, 0)),
        Sweep => Client::Change(Change::sweep(0)),
        Call::Delete => Client::Delete(Delete::new(form, *mode, client, 0)),
        Call::DeleteThrough => Client::Delete(Delete::through(form, client, 0)),
    };
    calls.iter().zip(0..).map(client).collect()
}

/// Source 0 with two current copies.
fn current() -> Documents {
    Documents::of([0, 0], &[(0, 0), (0, 0)])
}

/// Two sources at other versions, and one order with a copy of source 1.
fn two_sources() -> Documents {
    Documents::of([0, 3], &[(1, 3)])
}

/// Source 0 after processes died before their sweeps.
fn stale() -> Documents {
    Documents::of([2, 0], &[(0, 0), (0, 1)])
}

fn unreferenced() -> Documents {
    Documents::of([0, 0], &[])
}

/// Calls of three clients, in this mode.
fn renames(form: Form, mode: Mode) -> Vec<(Documents, Vec<Client>)> {
    let of = |calls: [Call; 3]| clients(form, &calls.map(|call| (mode, call)));
    let mut starts = vec![
        (current(), of([Rename, Rename, Insert])),
        (current(), of([Rename, Insert, Insert])),
        (two_sources(), of([Rename, Set(0, 0), Set(0, 1)])),
        (two_sources(), of([Rename, Rename, Set(0, 0)])),
        (two_sources(), of([Rename, Insert, Set(inserted_by(1), 1)])),
        (stale(), of([Rename, Rename, Set(0, 0)])),
    ];
    if is_long() {
        starts.extend([
            (
                Documents::of([0, 0], &[(0, 0), (0, 0), (0, 0)]),
                of([Rename, Rename, Rename]),
            ),
            (stale(), of([Rename, Insert, Set(1, 1)])),
        ]);
    }
    starts
}

fn deletions(form: Form, mode: Mode) -> Vec<(Documents, Vec<Client>)> {
    let of = |calls: [Call; 3]| clients(form, &calls.map(|call| (mode, call)));
    let mut starts = vec![
        (unreferenced(), of([Insert, Insert, Call::Delete])),
        (unreferenced(), of([Insert, Call::Delete, Call::Delete])),
        (unreferenced(), of([Insert, Rename, Call::Delete])),
        (unreferenced().marked(), of([Insert, Rename, Call::Delete])),
        (two_sources(), of([Set(0, 0), Rename, Call::Delete])),
        (two_sources(), of([Set(0, 0), Set(0, 1), Call::Delete])),
        (unreferenced(), of([Insert, Set(inserted_by(0), 1), Call::Delete])),
        (current(), of([Set(0, 1), Set(1, 1), Call::Delete])),
    ];
    if is_long() {
        starts.extend([
            (unreferenced(), of([Call::Delete, Call::Delete, Call::Delete])),
            (two_sources().marked(), of([Set(0, 0), Call::Delete, Call::Delete])),
        ]);
    }
    starts
}

#[test]
fn no_copy_stays_stale_after_renames_inserts_and_sweeps() {
    let form = Form::Ours;
    let mut starts = renames(form, Single);
    let of = |calls: [Call; 3]| clients(form, &calls.map(|call| (Single, call)));
    starts.extend([
        (stale(), of([Sweep, Rename, Insert])),
        (stale(), of([Sweep, Sweep, Set(0, 1)])),
    ]);
    explore(Reference { form, starts }).assert_holds(10_000);
}

#[test]
fn no_reference_is_dangling_after_deletions_of_unreferenced_sources() {
    let form = Form::Ours;
    let starts = deletions(form, Single);
    explore(Reference { form, starts }).assert_holds(10_000);
}

#[test]
fn a_deletion_through_another_repository_keeps_the_source_and_leaves_no_dangling_reference() {
    let form = Form::Ours;
    let of = |calls: [Call; 3]| clients(form, &calls.map(|call| (Single, call)));
    let starts = vec![
        (unreferenced(), of([Insert, Insert, Call::DeleteThrough])),
        (unreferenced(), of([Insert, Call::DeleteThrough, Call::DeleteThrough])),
        (unreferenced(), of([Insert, Call::Delete, Call::DeleteThrough])),
        (unreferenced().marked(), of([Insert, Rename, Call::DeleteThrough])),
        (two_sources(), of([Set(0, 0), Set(0, 1), Call::DeleteThrough])),
        (
            unreferenced(),
            clients(
                form,
                &[(Transaction, Insert), (Single, Call::DeleteThrough), (Single, Insert)],
            ),
        ),
    ];
    explore(Reference { form, starts }).assert_holds(10_000);
}

#[test]
fn calls_in_transactions_keep_both() {
    let form = Form::Ours;
    let mut starts = renames(form, Transaction);
    starts.extend(deletions(form, Transaction));
    explore(Reference { form, starts }).assert_holds(1000);
}

/// A transaction locks the source of the reference that it writes, so renames, deletions and sweeps outside of transactions
/// see it.
#[test]
fn references_of_transactions_and_other_calls_outside_of_them_keep_both() {
    let form = Form::Ours;
    let of = |calls: &[(Mode, Call)]| clients(form, calls);
    let starts = vec![
        (
            current(),
            of(&[(Transaction, Insert), (Single, Rename), (Single, Rename)]),
        ),
        (
            current(),
            of(&[(Transaction, Insert), (Single, Insert), (Single, Rename)]),
        ),
        (
            two_sources(),
            of(&[(Transaction, Set(0, 0)), (Single, Set(0, 1)), (Single, Rename)]),
        ),
        (stale(), of(&[(Transaction, Insert), (Single, Sweep), (Single, Rename)])),
        (
            unreferenced(),
            of(&[(Transaction, Insert), (Single, Call::Delete), (Single, Call::Delete)]),
        ),
        (
            unreferenced(),
            of(&[(Transaction, Insert), (Single, Call::Delete), (Single, Insert)]),
        ),
        (
            two_sources(),
            of(&[(Transaction, Set(0, 0)), (Single, Call::Delete), (Single, Rename)]),
        ),
        (
            current(),
            of(&[(Transaction, Rename), (Single, Rename), (Transaction, Insert)]),
        ),
    ];
    explore(Reference { form, starts }).assert_holds(1000);
}

#[test]
fn the_manuals_form_leaves_stale_copies_and_brings_older_ones_back() {
    let form = Form::Manual;
    let starts = renames(form, Single);
    explore(Reference { form, starts }).assert_refuted(&[
        "when all calls have returned, no copy is stale",
        "a copy never goes back to an older version",
    ]);
}

/// A snapshot does not prevent write skew: the insert reads the source that the rename writes.
#[test]
fn the_manuals_form_in_transactions_leaves_stale_copies() {
    let form = Form::Manual;
    let of = |calls: [Call; 3]| clients(form, &calls.map(|call| (Transaction, call)));
    let starts = vec![(current(), of([Rename, Insert, Insert]))];
    explore(Reference { form, starts }).assert_refuted(&["when all calls have returned, no copy is stale"]);
}

#[test]
fn a_sweep_that_compares_no_versions_brings_older_copies_back() {
    let form = Form::UnguardedSweep;
    let starts = renames(form, Single);
    explore(Reference { form, starts }).assert_refuted(&[
        "when all calls have returned, no copy is stale",
        "a copy never goes back to an older version",
    ]);
}

#[test]
fn a_set_reference_that_compares_no_versions_brings_an_older_copy_back() {
    let form = Form::UnguardedSet;
    let starts = renames(form, Single);
    explore(Reference { form, starts }).assert_refuted(&["a copy never goes back to an older version"]);
}

#[test]
fn an_insert_without_a_second_read_leaves_stale_and_dangling_references() {
    let form = Form::NoSecondRead;
    let mut starts = renames(form, Single);
    starts.extend(deletions(form, Single));
    explore(Reference { form, starts }).assert_refuted(&[
        "when all calls have returned, no copy is stale",
        "when all calls have returned, no reference is dangling",
    ]);
}

#[test]
fn a_deletion_without_a_mark_leaves_dangling_references() {
    let form = Form::NoMark;
    let starts = deletions(form, Single);
    explore(Reference { form, starts }).assert_refuted(&["when all calls have returned, no reference is dangling"]);
}

#[test]
fn a_transaction_that_keeps_the_mark_of_a_deletion_leaves_a_dangling_reference() {
    let form = Form::MarkKept;
    let calls = [(Transaction, Insert), (Single, Call::Delete), (Single, Rename)];
    let starts = vec![(unreferenced(), clients(form, &calls))];
    explore(Reference { form, starts }).assert_refuted(&["when all calls have returned, no reference is dangling"]);
}

/// What the documentation says of `update_source` and `delete_source` in a transaction: a call outside of it does not see
/// their writes before the commit.
#[test]
fn an_insert_outside_of_a_transaction_can_miss_the_rename_and_the_deletion_in_it() {
    let form = Form::Ours;
    for (call, violated) in [
        (Rename, "when all calls have returned, no copy is stale"),
        (Call::Delete, "when all calls have returned, no reference is dangling"),
    ] {
        let calls = [(Transaction, call), (Single, Insert), (Single, Sweep)];
        let starts = vec![(unreferenced(), clients(form, &calls))];
        explore(Reference { form, starts }).assert_refuted(&[violated]);
    }
}

#[test]
fn the_code_sends_the_commands_of_the_model() {
    let form = Form::Ours;
    let reference = Reference {
        form,
        starts: Vec::new(),
    };
    // The documents of the table have two fields with references.
    let code = Code::of("reference").of_one_field().without_catalog();
    let mut code = code.with("people", "customers");
    code.leave_out(", clearing references");
    code.leave_out(", keeping copies");
    // No copy has these fields, so nothing is swept.
    code.leave_out(", of other fields");
    code.leave_out(", through three others");
    code.leave_out(", through a trash, in the caller's transaction");
    let sent = |mut documents: Documents, mode, call| {
        let [client] = <[Client; 1]>::try_from(clients(form, &[(mode, call)])).expect("one client");
        alone(&reference, &mut documents, client)
    };
    let caller = ", in the caller's transaction";
    for (call, documents, of) in [
        ("insert", unreferenced as fn() -> Documents, Insert),
        ("set_reference", current, Set(0, 0)),
        ("update_source", current, Rename),
        ("delete_source", unreferenced, Call::Delete),
    ] {
        let operation = format!("reference::Sales ReferenceRepository::{call}");
        code.sends(&operation, &sent(documents(), Single, of));
        code.sends(&format!("{operation}{caller}"), &sent(documents(), Transaction, of));
    }
    for (operation, documents, of) in [
        (
            "Sales ReferenceRepository::insert, of two sources",
            unreferenced(),
            Insert,
        ),
        (
            "Sales ReferenceRepository::update_source, after a process died",
            stale(),
            Rename,
        ),
    ] {
        code.sends(&format!("reference::{operation}"), &sent(documents, Single, of));
    }
    let mut absent = unreferenced();
    absent.sources[0] = None;
    for (case, documents) in [("through a trash", unreferenced()), ("through a trash, absent", absent)] {
        let operation = format!("through::Customers ReferenceRepository::delete_source, {case}");
        code.sends(&operation, &sent(documents, Single, Call::DeleteThrough));
    }
    for (operation, of) in [
        ("insert, by the source key", Insert),
        ("set_reference, by the source key", Set(0, 0)),
        ("update_source, of the source key", Rename),
    ] {
        let sent = sent(current(), Single, of);
        code.sends(&format!("reference_key::Posts ReferenceRepository::{operation}"), &sent);
    }
    let of = |calls: [(Mode, Call); 3]| clients(form, &calls);
    let every = Reference {
        form,
        starts: vec![
            (
                current(),
                of([(Single, Rename), (Single, Insert), (Transaction, Set(0, 0))]),
            ),
            (
                unreferenced(),
                of([(Single, Call::Delete), (Single, Insert), (Transaction, Insert)]),
            ),
            (
                unreferenced(),
                of([(Single, Set(0, 0)), (Transaction, Call::Delete), (Single, Insert)]),
            ),
        ],
    };
    // The withdrawal of an insert.
    code.has_no_trace_of(&all(every), ["delete orders"]);
}
