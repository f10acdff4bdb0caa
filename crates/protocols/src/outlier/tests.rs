use super::*;
use crate::check::explore;
use crate::traces::{Code, all, alone};

fn push(form: Form, elements: &[u8]) -> Client {
    Client::Push(Push::new(form, elements))
}

/// A push of a process that knows an outlier with this newest overflow document.
fn known(form: Form, element: u8, newest: u8) -> Client {
    Client::Push(Push::known(form, false, &[element], newest))
}

fn known_unique(form: Form, element: u8, newest: u8) -> Client {
    Client::Push(Push::known(form, true, &[element], newest))
}

fn delete() -> Client {
    Client::Delete(Delete::new(false))
}

fn remove(element: u8) -> Client {
    Client::Remove(Remove::new(element))
}

fn update(element: u8) -> Client {
    Client::Update(Update::new(element))
}

fn refresh() -> Client {
    Client::Refresh(Refresh::default())
}

/// Elements from 8 on are those that clients push.
fn outlier(form: Form) -> Outlier {
    let push = |elements: &[u8]| push(form, elements);
    let (short, full) = (Documents::of(&[0], &[]), Documents::of(&[0, 1], &[]));
    let flagged = Documents {
        flag: true,
        ..full.clone()
    };
    let after_removals = Documents::of(&[0], &[&[1, 2], &[]]);
    let one_extra = Documents::of(&[0, 1], &[&[2]]);
    let emptied = Documents::of(&[0], &[&[]]);
    Outlier {
        rules: Rules { form, unique: false },
        starts: vec![
            (short.clone(), vec![push(&[8]), push(&[9]), push(&[10])]),
            (full.clone(), vec![push(&[8]), push(&[9, 10]), push(&[11])]),
            (short, vec![push(&[8, 9, 10]), push(&[11]), refresh()]),
            (full, vec![push(&[8]), remove(0), refresh()]),
            (flagged.clone(), vec![push(&[8]), refresh(), refresh()]),
            (flagged, vec![push(&[8, 9]), push(&[10]), refresh()]),
            (after_removals.clone(), vec![push(&[8]), push(&[9]), refresh()]),
            (after_removals, vec![push(&[8]), remove(1), refresh()]),
            (one_extra.clone(), vec![remove(0), remove(2), refresh()]),
            (one_extra, vec![push(&[8, 9, 10]), remove(2), refresh()]),
            (emptied, vec![push(&[8]), push(&[9]), refresh()]),
        ],
    }
}

/// Updates of elements that a refresh moves.
fn updated(form: Form) -> Outlier {
    let after_removals = Documents::of(&[0], &[&[1, 2], &[]]);
    let gaps = Documents::of(&[0], &[&[1, 2], &[3]]);
    let one_extra = Documents::of(&[0, 1], &[&[2]]);
    let mut outlier = outlier(form);
    outlier.starts.extend([
        (one_extra.clone(), vec![update(2), update(2), refresh()]),
        (one_extra.clone(), vec![update(2), remove(0), refresh()]),
        (one_extra.clone(), vec![update(0), push(form, &[8]), refresh()]),
        (one_extra, vec![update(2), delete(), push(form, &[8])]),
        (after_removals.clone(), vec![update(1), update(2), refresh()]),
        (after_removals, vec![update(1), refresh(), refresh()]),
        (gaps.clone(), vec![update(3), update(3), refresh()]),
        (gaps, vec![update(2), update(2), refresh()]),
    ]);
    outlier
}

#[test]
fn an_update_is_applied_once_to_an_element_that_moves() {
    explore(updated(Form::Ours)).assert_holds(1000);
}

#[test]
fn without_a_snapshot_an_update_misses_an_element_that_moves() {
    explore(updated(Form::NoSnapshot)).assert_refuted(&["an update finds its element"]);
}

#[test]
fn elements_are_stored_once_and_found_by_following_the_flag() {
    explore(outlier(Form::Ours)).assert_holds(1000);
}

#[test]
fn unique_elements_are_stored_once_by_any_number_of_clients() {
    let form = Form::Ours;
    let (full, one_extra) = (Documents::of(&[0, 1], &[]), Documents::of(&[0, 1], &[&[2]]));
    let after_removals = Documents::of(&[0], &[&[1, 2], &[3]]);
    let starts = vec![
        (full.clone(), vec![push(form, &[8]), push(form, &[8]), push(form, &[8])]),
        (full, vec![push(form, &[8]), push(form, &[9]), refresh()]),
        (one_extra.clone(), vec![push(form, &[8]), push(form, &[8]), refresh()]),
        (one_extra, vec![push(form, &[2]), remove(0), refresh()]),
        (
            after_removals.clone(),
            vec![push(form, &[8]), push(form, &[8]), refresh()],
        ),
        (after_removals, vec![push(form, &[1]), push(form, &[3]), refresh()]),
    ];
    let unique = Outlier {
        rules: Rules { form, unique: true },
        starts,
    };
    explore(unique).assert_holds(1000);
}

#[test]
fn the_manuals_logic_exceeds_the_threshold_and_opens_overflow_documents_twice() {
    let mut manual = outlier(Form::Manual);
    for (_, clients) in &mut manual.starts {
        clients.retain(|client| matches!(client, Client::Push(_)));
    }
    explore(manual).assert_refuted(&[
        "the array does not exceed the threshold",
        "overflow documents do not exceed their cap, and have distinct positions",
    ]);
}

#[test]
fn setting_the_flag_after_the_overflow_documents_hides_an_acknowledged_element() {
    explore(outlier(Form::FlagLast)).assert_refuted(&["a reader who follows the flag finds each acknowledged element"]);
}

/// Pushes of processes that know an outlier, which may be none any more.
fn known_outlier(form: Form) -> Outlier {
    let (push, known) = (|element| push(form, &[element]), |element| known(form, element, 0));
    let several = Client::Push(Push::known(form, false, &[8, 9, 10], 0));
    let short = Documents::of(&[0], &[]);
    let flagged = Documents {
        flag: true,
        ..Documents::of(&[0, 1], &[])
    };
    let one_extra = Documents::of(&[0, 1], &[&[2]]);
    let full_extra = Documents::of(&[0, 1], &[&[2, 3]]);
    let after_removals = Documents::of(&[0], &[&[1, 2], &[]]);
    let emptied = Documents::of(&[0], &[&[]]);
    Outlier {
        rules: Rules { form, unique: false },
        starts: vec![
            (short, vec![known(8), known(9), delete()]),
            (flagged, vec![known(8), refresh(), push(9)]),
            (one_extra.clone(), vec![known(8), known(9), push(10)]),
            (one_extra.clone(), vec![several, known(11), refresh()]),
            (one_extra.clone(), vec![known(8), remove(2), refresh()]),
            (one_extra.clone(), vec![known(8), delete(), refresh()]),
            (one_extra, vec![known(8), delete(), Client::Delete(Delete::new(true))]),
            (full_extra.clone(), vec![known(8), known(9), delete()]),
            (full_extra, vec![push(8), remove(2), delete()]),
            (after_removals, vec![known(8), known(9), refresh()]),
            (emptied, vec![known(8), refresh(), delete()]),
        ],
    }
}

#[test]
fn a_push_to_a_known_outlier_stores_where_readers_look_or_finds_that_it_is_none() {
    explore(known_outlier(Form::Ours)).assert_holds(1000);
}

#[test]
fn a_delete_by_two_commands_lets_a_push_to_a_known_outlier_store_in_orphaned_documents() {
    explore(known_outlier(Form::DeleteApart)).assert_refuted(&[
        "a push stores its elements where readers find them",
        "overflow documents exist only with the flag",
    ]);
}

/// Unique pushes of processes that know an outlier.
fn known_unique_outlier(form: Form) -> Outlier {
    let known = |element, newest| known_unique(form, element, newest);
    let one_extra = Documents::of(&[0, 1], &[&[2]]);
    let full_extra = Documents::of(&[0, 1], &[&[2, 3]]);
    let gap = Documents::of(&[0], &[&[1, 2]]);
    let gaps = Documents::of(&[0], &[&[1, 2], &[3]]);
    let emptied = Documents::of(&[0], &[&[]]);
    Outlier {
        rules: Rules { form, unique: true },
        starts: vec![
            (one_extra.clone(), vec![known(8, 0), known(8, 0), refresh()]),
            (one_extra.clone(), vec![known(2, 0), remove(0), refresh()]),
            (one_extra.clone(), vec![known(0, 0), known(1, 0), refresh()]),
            (one_extra, vec![known(8, 0), push(form, &[8]), delete()]),
            (full_extra, vec![known(8, 0), known(8, 0), refresh()]),
            (gap.clone(), vec![known(1, 0), push(form, &[8]), refresh()]),
            (gap, vec![known(1, 0), known(2, 0), refresh()]),
            (gaps.clone(), vec![known(1, 1), known(3, 1), refresh()]),
            (gaps.clone(), vec![known(1, 1), refresh(), refresh()]),
            (gaps, vec![known(1, 0), remove(3), refresh()]),
            (emptied, vec![known(8, 0), refresh(), delete()]),
        ],
    }
}

#[test]
fn a_unique_push_to_a_known_outlier_checks_the_array_again_only_after_a_refresh() {
    explore(known_unique_outlier(Form::Ours)).assert_holds(1000);
}

#[test]
fn without_the_check_or_new_ids_a_refresh_makes_a_unique_push_store_an_element_twice() {
    for form in [Form::NoCheck, Form::SameIds] {
        explore(known_unique_outlier(form)).assert_refuted(&["no element is stored twice"]);
    }
}

#[test]
fn the_code_sends_the_commands_of_the_model() {
    let form = Form::Ours;
    let of = |unique| Outlier {
        rules: Rules { form, unique },
        starts: Vec::new(),
    };
    let mut code = Code::of("outlier").without_catalog();
    code.leave_out("in the caller's transaction");
    code.leave_out("through a trash");
    let mut compare = |operation: &str, unique, documents: &Documents, client| {
        let sent = alone(&of(unique), &mut documents.clone(), client);
        code.sends(&format!("outlier::Shop OutlierRepository::{operation}"), &sent);
    };
    let (short, full) = (Documents::of(&[0], &[]), Documents::of(&[0, 1], &[]));
    let (one, no_room) = (Documents::of(&[0, 1], &[&[2]]), Documents::of(&[0, 1], &[&[2, 3]]));

    compare("push, into the array", false, &short, push(form, &[8]));
    compare("push, into an overflow document", false, &one, push(form, &[8]));
    compare("push, that creates an outlier", false, &full, push(form, &[8]));
    compare(
        "push, that opens an overflow document",
        false,
        &no_room,
        push(form, &[8]),
    );
    let many = push(form, &[8, 9, 10]);
    compare(
        "push_many, into the array and overflow documents",
        false,
        &short,
        many.clone(),
    );
    compare("push_many, into overflow documents", false, &one, many);
    compare("push_unique, into the array", true, &short, push(form, &[8]));
    compare("push_unique, into an overflow document", true, &one, push(form, &[8]));
    compare(
        "push_unique, that opens an overflow document",
        true,
        &no_room,
        push(form, &[8]),
    );

    compare("remove, from the array", false, &one, remove(0));
    compare("remove, from an overflow document", false, &one, remove(2));
    compare("remove, of an absent element", false, &one, remove(9));
    compare("update_element, in the array", false, &one, update(0));
    compare("update_element, in an overflow document", false, &one, update(2));
    let after_removals = Documents::of(&[0], &[&[1, 2], &[3]]);
    compare("refresh", false, &after_removals, refresh());
    compare("delete", false, &short, delete());
    compare("delete, with overflow documents", false, &one, delete());

    let mut commands = all(updated(form));
    commands.extend(all(Outlier {
        rules: Rules { form, unique: true },
        ..outlier(form)
    }));
    code.has_no_trace_of(
        &commands,
        [
            // A retried refresh locks the newest overflow document and the main document first.
            "begin: update extra_sales",
            "then: update extra_sales",
            "then: updateMany sales",
            // After it has cleared the flag.
            "read extra_sales",
        ],
    );
}
