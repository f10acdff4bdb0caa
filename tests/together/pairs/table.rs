//! The table of the chapter "Several patterns in one service": each of its cells is tried.

use mongo_patterns::{ErrorKind, Repository};
use mongo_patterns_testkit::TestDatabase;

use super::super::repositories::buckets;
use super::arrays::{Children, Embedded, List};
use super::fields::{Counted, Referring, Source, Versioned};
use super::moves::{Archived, History, Intervals, Trashed};
use super::{Role, try_pair};
use crate::conformance::each;

type New = fn(&TestDatabase) -> Box<dyn Role>;

/// Those of the table, in its order. Buckets, which come last, are refused beside all that own a field.
const ROLES: [(&str, New); 11] = [
    ("list", |db| Box::new(List::new(db))),
    ("subset", |db| Box::new(Children::new(db))),
    ("embedded", |db| Box::new(Embedded::new(db))),
    ("history", |db| Box::new(History::new(db))),
    ("intervals", |db| Box::new(Intervals::new(db))),
    ("source", |db| Box::new(Source::new(db))),
    ("referring", |db| Box::new(Referring::new(db))),
    ("versioned", |db| Box::new(Versioned::new(db))),
    ("counted", |db| Box::new(Counted::new(db))),
    ("trash", |db| Box::new(Trashed::new(db))),
    ("archive", |db| Box::new(Archived::new(db))),
];

const CHAPTER: &str = include_str!("../../../book/src/cookbook/one-document.md");

/// A cell of the table.
#[derive(Clone, Copy, Debug)]
struct Cell {
    name: &'static str,
    roles: [usize; 2],
    works: bool,
}

/// Reads the cells of the table: `no` is a pair that is refused, and anything else one that works.
fn cells() -> Vec<Cell> {
    let rows = CHAPTER.split("<!-- pairs -->").nth(1).unwrap().trim().lines();
    let cells_of = |row: &'static str| row.trim_matches('|').split('|').map(str::trim).collect::<Vec<&str>>();
    let mut rows = rows.map(cells_of);
    let header = rows.next().unwrap();
    let position = |name: &str| ROLES.iter().position(|(role, _)| *role == name).unwrap();
    let mut cells = Vec::new();
    for row in rows.skip(1) {
        let one = position(row[0].trim_matches('*'));
        for (other, text) in header.iter().zip(&row).skip(1).filter(|(_, text)| !text.is_empty()) {
            let other = position(other);
            cells.push(Cell {
                name: format!("{} and {}", ROLES[one].0, ROLES[other].0).leak(),
                roles: [one, other],
                works: *text != "no",
            });
        }
    }
    cells
}

#[test]
fn the_table_has_each_pair_once() {
    let mut pairs: Vec<[usize; 2]> = cells().into_iter().map(|cell| cell.roles).collect();
    pairs.iter_mut().for_each(|pair| pair.sort_unstable());
    pairs.sort_unstable();
    let all = (0..ROLES.len()).flat_map(|one| (one + 1..ROLES.len()).map(move |other| [one, other]));
    assert_eq!(pairs, all.collect::<Vec<_>>());
}

async fn try_cell(db: &TestDatabase, cell: Cell) {
    let [one, other] = cell.roles.map(|role| ROLES[role].1(db));
    match cell.works {
        true => try_pair(db, [&*one, &*other]).await,
        false => {
            refused(db, &*one, &*other).await;
            refused(db, &*other, &*one).await;
        }
    }
}

/// Checks that the second pattern is refused.
async fn refused(db: &TestDatabase, first: &dyn Role, second: &dyn Role) {
    db.plain_client().database(db.database().name()).drop().await.unwrap();
    let repositories = |role: &'_ dyn Role| role.repositories().len();
    assert_eq!([first, second].map(repositories), [1, 1]);
    first.repositories()[0].ensure_indexes().await.unwrap();
    let refused = second.repositories()[0].ensure_indexes().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::SettingsMismatch, "{refused:?}");
}

/// Tries a part of the cells, so that the parts run beside other tests.
async fn try_part(part: usize) {
    let cells = cells().into_iter().enumerate();
    let cells = cells.filter(|(number, _)| number % 4 == part).map(|(_, cell)| cell);
    each(cells, |cell| cell.name, try_cell).await;
}

#[tokio::test]
async fn each_pair_of_the_table_is_as_it_says_first_part() {
    try_part(0).await;
}

#[tokio::test]
async fn each_pair_of_the_table_is_as_it_says_second_part() {
    try_part(1).await;
}

#[tokio::test]
async fn each_pair_of_the_table_is_as_it_says_third_part() {
    try_part(2).await;
}

#[tokio::test]
async fn each_pair_of_the_table_is_as_it_says_fourth_part() {
    try_part(3).await;
}

#[tokio::test]
async fn buckets_are_the_whole_document() {
    let roles = ROLES.iter().filter(|(name, _)| !["trash", "archive"].contains(name));
    each(
        roles.map(|(name, new)| (*name, *new)),
        |(name, _)| name,
        async |db, (_, new): (&str, New)| {
            let (role, buckets) = (new(db), buckets(db, "orders"));
            for buckets_first in [true, false] {
                db.plain_client().database(db.database().name()).drop().await.unwrap();
                let mut both: Vec<&dyn Repository> = role.repositories();
                both.insert(usize::from(!buckets_first), &buckets);
                both[0].ensure_indexes().await.unwrap();
                let refused = both[1].ensure_indexes().await.unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::SettingsMismatch, "{refused:?}");
            }
        },
    )
    .await;
}
