use super::*;
use crate::check::{explore, is_long};
use crate::traces::{Code, all, alone};

fn write(change: Change) -> Client {
    Client::Write(Write::new(subset::Form::Ours, change))
}

fn embed(change: Change) -> Client {
    Client::Embed(change, None)
}

fn migrate(run: u8) -> Client {
    Client::Migrate(Migrate::new(run))
}

#[test]
fn no_child_is_lost_and_no_deleted_child_is_restored() {
    use Change::{Delete, Insert, Update};
    let mut children = vec![(0, 9), (1, 8)];
    if is_long() {
        children.push((2, 5));
    }
    let embedded = Documents::embedded(&children);
    let half = Documents {
        children: vec![(0, 9)],
        ..embedded.clone()
    };
    let mut starts = vec![
        (embedded.clone(), vec![migrate(1), migrate(2), write(Delete(0))]),
        (embedded.clone(), vec![migrate(1), write(Delete(1)), write(Delete(0))]),
        (half.clone(), vec![migrate(1), write(Update((1, 2)))]),
        (embedded.clone(), vec![migrate(1), migrate(2), embed(Update((0, 2)))]),
        (embedded.clone(), vec![migrate(1), embed(Delete(0)), write(Delete(1))]),
        (
            embedded.clone(),
            vec![migrate(1), embed(Insert((3, 7))), write(Insert((4, 1)))],
        ),
    ];
    if is_long() {
        starts.extend([
            (
                embedded.clone(),
                vec![migrate(1), write(Delete(0)), write(Insert((3, 7)))],
            ),
            (embedded, vec![migrate(1), write(Delete(1)), write(Update((0, 2)))]),
            (half, vec![migrate(1), migrate(2), write(Delete(1))]),
        ]);
    }
    let migration = Migration {
        form: Form::Ours,
        starts,
    };
    explore(migration).assert_holds(10_000);
}

/// Two calls, of which one dies, and the deletion of a child.
fn one_child(form: Form) -> Migration {
    let embedded = Documents::embedded(&[(0, 9)]);
    Migration {
        form,
        starts: vec![(embedded, vec![migrate(1), migrate(2), write(Change::Delete(0))])],
    }
}

#[test]
fn reading_the_parent_first_restores_a_deleted_child() {
    explore(one_child(Form::ParentFirst)).assert_refuted(&["an acknowledged write is stored"]);
}

#[test]
fn without_the_record_an_earlier_copy_restores_a_deleted_child() {
    explore(one_child(Form::Unfenced)).assert_refuted(&["an acknowledged write is stored"]);
}

#[test]
fn without_the_mark_a_change_of_an_embedded_child_is_lost() {
    let embedded = Documents::embedded(&[(0, 9)]);
    let unmarked = |change| Migration {
        form: Form::Unmarked,
        starts: vec![(embedded.clone(), vec![migrate(1), embed(change)])],
    };
    for change in [Change::Update((0, 2)), Change::Delete(0)] {
        explore(unmarked(change)).assert_refuted(&["an acknowledged change of an embedded child is kept"]);
    }
}

#[test]
fn a_script_loses_a_child_that_is_embedded_concurrently() {
    let embedded = Documents::embedded(&[(0, 9), (1, 8), (2, 5)]);
    let script = Migration {
        form: Form::Script,
        starts: vec![(embedded, vec![migrate(1), embed(Change::Insert((3, 1)))])],
    };
    explore(script).assert_refuted(&["no child is lost"]);
}

#[test]
fn the_code_sends_the_commands_of_the_model() {
    let migration = one_child(Form::Ours);
    let (mut documents, _) = migration.starts[0].clone();
    let sent = alone(&migration, &mut documents, migrate(1));
    let [begin, chunk, finish] = [&sent[..2], &sent[2..5], &sent[5..]];
    // Each chunk is followed by the position in the record. The rest checks all parents.
    let chunks = |checks: &[&'static str]| {
        let chunk = [chunk, &["update mongo_patterns"]].concat();
        let rest = ["merge product into product", "read product"];
        [checks, begin, &["read product"], &chunk, &chunk, &rest, finish].concat()
    };
    let mut code = Code::of("migration");
    let call = "subset_migrations::Shop SubsetRepository::migrate_from_embedded";
    let settings = ["read mongo_patterns", "read product"];
    let checks = ["read mongo_patterns", "read product", "read review"];
    code.sends(
        &format!("{call}, in two chunks"),
        &chunks(&[&settings[..], &checks].concat()),
    );
    let list = ["read skipped", "read product"];
    let skips = ["read skipped", "merge product into skipped"];
    code.sends(
        &format!("{call}, with a list of invalid parents and a filter"),
        &chunks(&[&settings[..], &list, &checks, &skips].concat()),
    );
    let begun = migrate(1);
    let again = Migration {
        starts: vec![(Documents::embedded(&[(0, 9), (1, 8)]), vec![begun, migrate(2)])],
        ..migration
    };
    code.has_no_trace_of(&all(again), []);
}
