use super::delete_parent::DeleteParent;
use super::rebuild_all::RebuildAll;
use super::write::{Change, Mode, Write};
use super::{Child, Client, Documents, Form, Subset};
use crate::check::{explore, is_long};

fn of(form: Form, mode: Mode) -> impl Fn(Change) -> Client {
    move |change| Client::Write(Write::new(form, mode, change))
}

fn cached(change: Change) -> Client {
    Client::Write(Write::new(Form::Ours, Mode::Eventual, change).with_cached_version(1))
}

/// A transaction of a process that has written the parent before.
fn child_first(change: Change) -> Client {
    Client::Write(Write::new(Form::Ours, Mode::Transactional, change).with_known_parent())
}

/// The subset has children 0 and 1, but not 2.
const CHILDREN: [Child; 3] = [(0, 9), (1, 8), (2, 5)];

fn writes(write: &impl Fn(Change) -> Client, total: bool) -> Vec<(Documents, Vec<Client>)> {
    use Change::{Delete, Insert, Nothing, Update};
    let (three, none) = (Documents::of(&CHILDREN, total), Documents::of(&[], total));
    let calls = |changes: [Change; 3]| changes.map(write).to_vec();
    let mut starts = vec![
        (three.clone(), calls([Insert((3, 7)), Delete(0), Delete(1)])),
        (three.clone(), calls([Update((0, 1)), Update((2, 10)), Insert((3, 3))])),
    ];
    if is_long() {
        starts.extend([
            (none, calls([Insert((3, 7)), Insert((4, 7)), Insert((5, 1))])),
            (three.clone(), calls([Delete(0), Update((1, 2)), Update((2, 9))])),
            (three.clone(), calls([Insert((3, 10)), Delete(0), Nothing])),
            (three, calls([Delete(1), Delete(2), Insert((3, 1))])),
        ]);
    }
    starts
}

#[test]
fn the_parent_is_eventually_correct() {
    use Change::{Delete, Insert, Update};
    let write = of(Form::Ours, Mode::Eventual);
    let mut starts = writes(&write, false);
    let three = Documents::of(&CHILDREN, false);
    let mut stale = three.clone();
    stale.children.remove(0); // its deleter died
    let unmoved = Documents::embedded(&CHILDREN);
    let unmanaged = Documents {
        children: CHILDREN.to_vec(),
        ..unmoved.clone()
    };
    let deletes = Client::DeleteParent(DeleteParent::default());
    let later_ids = Documents::of(&[(1, 9), (2, 8), (3, 5)], false);
    starts.extend([
        (
            three.clone(),
            vec![cached(Insert((3, 7))), cached(Insert((4, 1))), write(Delete(0))],
        ),
        (stale.clone(), vec![write(Insert((3, 1)))]),
        (stale, vec![cached(Insert((3, 1))), write(Insert((4, 2)))]),
        (unmoved.clone(), vec![write(Insert((3, 7))), write(Delete(0))]),
        (unmanaged.clone(), vec![write(Insert((3, 7))), write(Delete(0))]),
        (three.clone(), vec![write(Insert((3, 1))), deletes.clone()]),
        (three.clone(), vec![cached(Insert((4, 1))), deletes.clone()]),
        (later_ids, vec![write(Insert((0, 1))), deletes.clone()]),
    ]);
    if is_long() {
        starts.extend([
            (
                three.clone(),
                vec![cached(Insert((3, 10))), write(Update((1, 1))), write(Delete(2))],
            ),
            (
                unmanaged,
                vec![write(Insert((3, 7))), write(Delete(0)), write(Update((1, 1)))],
            ),
            (three, vec![write(Insert((3, 10))), cached(Insert((4, 1))), deletes]),
        ]);
    }
    let subset = Subset {
        form: Form::Ours,
        total: false,
        starts,
    };
    explore(subset).assert_holds(10_000);
}

#[test]
fn deleting_the_children_only_once_leaves_some() {
    let three = Documents::of(&[(1, 9), (2, 8), (3, 5)], false);
    let insert = of(Form::Ours, Mode::Eventual)(Change::Insert((0, 1)));
    let subset = Subset {
        form: Form::Ours,
        total: false,
        starts: vec![(three, vec![insert, Client::DeleteParent(DeleteParent::naive())])],
    };
    explore(subset).assert_refuted(&["when all calls have returned, no child is without its parent"]);
}

#[test]
fn the_total_is_eventually_correct() {
    let mut starts = writes(&of(Form::Ours, Mode::Eventual), true);
    if !is_long() {
        starts.iter_mut().for_each(|(_, clients)| clients.truncate(2));
    }
    let subset = Subset {
        form: Form::Ours,
        total: true,
        starts,
    };
    explore(subset).assert_holds(1000);
}

/// A second subset, which is read at a later moment: a child can belong to either, to both or to none.
#[test]
fn two_subsets_are_eventually_correct() {
    use Change::{Delete, Insert, Update};
    let write = of(Form::Ours, Mode::Eventual);
    let three = || Documents::of(&CHILDREN, false).with_second();
    let mut starts = vec![
        (three(), vec![write(Insert((3, 7))), write(Delete(2))]),
        (three(), vec![cached(Insert((3, 7))), write(Update((2, 9)))]),
        (three(), vec![cached(Insert((3, 1))), cached(Insert((4, 7)))]),
        (three(), vec![write(Insert((3, 6))), write(Update((0, 1)))]),
    ];
    if is_long() {
        let all = writes(&write, false).into_iter();
        starts.extend(all.map(|(documents, clients)| (documents.with_second(), clients)));
        starts.push((
            three(),
            vec![cached(Insert((3, 7))), write(Delete(2)), write(Update((0, 6)))],
        ));
    }
    let subset = Subset {
        form: Form::Ours,
        total: false,
        starts,
    };
    explore(subset).assert_holds(1000);
}

#[test]
fn with_transactions_two_subsets_are_always_correct() {
    let parent_first = of(Form::Ours, Mode::Transactional);
    let starts = [writes(&parent_first, false), writes(&child_first, false)]
        .concat()
        .into_iter();
    let starts = starts.map(|(documents, clients)| (documents.with_second(), clients));
    let subset = Subset {
        form: Form::Ours,
        total: false,
        starts: starts.collect(),
    };
    explore(subset).assert_holds(1000);
}

#[test]
fn with_transactions_the_parent_is_always_correct() {
    for total in [false, true] {
        let subset = Subset {
            form: Form::Ours,
            total,
            starts: writes(&of(Form::Ours, Mode::Transactional), total),
        };
        explore(subset).assert_holds(1000);
    }
}

/// Without a total: with one, a transaction writes the parent first.
#[test]
fn transactions_that_write_the_child_first_keep_the_parent_correct() {
    use Change::{Delete, Insert, Nothing, Update};
    let parent_first = of(Form::Ours, Mode::Transactional);
    let three = Documents::of(&CHILDREN, false);
    let mut starts = writes(&child_first, false);
    starts.extend([
        (
            three.clone(),
            vec![
                child_first(Insert((3, 7))),
                parent_first(Delete(0)),
                child_first(Update((1, 1))),
            ],
        ),
        (
            three,
            vec![
                child_first(Insert((0, 9))),
                child_first(Update((5, 1))),
                child_first(Delete(5)),
            ],
        ),
        (
            Documents::embedded(&CHILDREN),
            vec![
                child_first(Insert((3, 7))),
                child_first(Delete(0)),
                parent_first(Nothing),
            ],
        ),
    ]);
    let subset = Subset {
        form: Form::Ours,
        total: false,
        starts,
    };
    explore(subset).assert_holds(1000);
}

#[test]
fn eventual_writers_are_compatible_with_transactions_that_write_the_child_first() {
    use Change::{Delete, Insert, Update};
    let eventual = of(Form::Ours, Mode::Eventual);
    let three = Documents::of(&CHILDREN, false);
    let deletes = Client::DeleteParent(DeleteParent::default());
    let subset = Subset {
        form: Form::Ours,
        total: false,
        starts: vec![
            (
                three.clone(),
                vec![
                    child_first(Delete(0)),
                    eventual(Insert((3, 7))),
                    eventual(Update((2, 10))),
                ],
            ),
            (
                three.clone(),
                vec![
                    child_first(Insert((3, 7))),
                    child_first(Update((1, 1))),
                    eventual(Delete(0)),
                ],
            ),
            (three.clone(), vec![child_first(Insert((3, 10))), deletes]),
            (
                three,
                vec![
                    Client::RebuildAll(RebuildAll::after_delete(0)),
                    child_first(Insert((3, 10))),
                    eventual(Update((1, 7))),
                ],
            ),
        ],
    };
    explore(subset).assert_holds(10_000);
}

#[test]
fn eventual_and_transactional_writers_are_compatible() {
    use Change::{Delete, Insert, Update};
    let (eventual, transactional) = (of(Form::Ours, Mode::Eventual), of(Form::Ours, Mode::Transactional));
    let three = Documents::of(&CHILDREN, false);
    let subset = Subset {
        form: Form::Ours,
        total: false,
        starts: vec![
            (
                three.clone(),
                vec![
                    transactional(Delete(0)),
                    eventual(Insert((3, 7))),
                    eventual(Update((2, 10))),
                ],
            ),
            (
                three,
                vec![
                    transactional(Insert((3, 7))),
                    transactional(Update((1, 1))),
                    eventual(Delete(0)),
                ],
            ),
        ],
    };
    explore(subset).assert_holds(10_000);
}

/// The documented limit of both consistencies on one parent.
#[test]
fn an_eventual_insert_and_an_open_transaction_can_miss_each_other() {
    use Change::{Delete, Insert, Update};
    let (eventual, transactional) = (of(Form::Ours, Mode::Eventual), of(Form::Ours, Mode::Transactional));
    for change in [Delete(0), Update((0, 1))] {
        let three = Documents::of(&CHILDREN, false);
        let subset = Subset {
            form: Form::Ours,
            total: false,
            starts: vec![(three, vec![transactional(change), eventual(Insert((3, 7)))])],
        };
        explore(subset).assert_refuted(&["when all calls have returned, the parent is correct"]);
    }
}

/// The starts of a program that deletes child 0 without the repository and rebuilds all parents, with two writers.
fn rebuilds(rebuild: &RebuildAll, total: bool) -> Vec<(Documents, Vec<Client>)> {
    use Change::{Delete, Insert, Update};
    let (eventual, transactional) = (of(Form::Ours, Mode::Eventual), of(Form::Ours, Mode::Transactional));
    let with = |one: Client, other: Client| {
        let clients = vec![Client::RebuildAll(rebuild.clone()), one, other];
        (Documents::of(&CHILDREN, total), clients)
    };
    let mut starts = vec![
        with(eventual(Update((1, 7))), transactional(Insert((3, 10)))),
        with(transactional(Delete(1)), transactional(Update((2, 10)))),
    ];
    if is_long() {
        starts.extend([
            with(cached(Insert((3, 10))), eventual(Delete(1))),
            with(eventual(Update((1, 7))), eventual(Insert((3, 10)))),
            with(eventual(Update((1, 1))), transactional(Update((2, 10)))),
        ]);
    }
    starts
}

#[test]
fn a_rebuild_of_all_parents_leaves_none_stale() {
    for total in [false, true] {
        let subset = Subset {
            form: Form::Ours,
            total,
            starts: rebuilds(&RebuildAll::after_delete(0), total),
        };
        explore(subset).assert_holds(10_000);
    }
}

#[test]
fn a_rebuild_that_never_checks_again_leaves_a_stale_parent() {
    let subset = Subset {
        form: Form::Ours,
        total: false,
        starts: rebuilds(&RebuildAll::after_delete(0).naive(), false),
    };
    explore(subset).assert_refuted(&["when all calls have returned, the parent is correct"]);
}

#[test]
fn naive_writers_leave_an_incorrect_parent() {
    for form in [Form::ReadAndSet, Form::PushAndPull] {
        let subset = Subset {
            form,
            total: false,
            starts: writes(&of(form, Mode::Eventual), false),
        };
        explore(subset).assert_refuted(&["when all calls have returned, the parent is correct"]);
    }
}
