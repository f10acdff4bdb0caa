//! Buckets of three items.

use std::ops::Range;

use mongo_patterns::bucket::{Problem, Unrepaired};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document};

use super::model::Outcome::{Left, Values};
use super::model::{Damage, Model, Stored, calls, insert};
use support::bucket::damage::{Named, bucket, bucket_at, named, plant, with, without};
use support::common::{Repository, confirm_settings, plain, spread};

pub(super) struct Buckets(Named);

// The ends of two `_id`s, and of one without a valid second.
const FIRST: &str = "1698335223";
const SECOND: &str = "1698335226";
const ENDLESS: &str = "9999999999999";

/// Returns all kinds of damage, of one key.
#[rustfmt::skip] // a kind of damage in a line or two
fn kinds(key: &str) -> Vec<Damage<Buckets>> {
    use Problem::*;
    let id = |tail: &str| Bson::from(format!("{key}_{tail}"));
    let kind = |documents: &[Document], problems: &[(&str, Problem)], outcome| Damage::<Buckets> {
        owner: key.into(),
        writes: documents.iter().map(|bucket| insert("trades", bucket.clone())).collect(),
        problems: problems.iter().map(|(tail, problem)| ("trades", id(tail), *problem)).collect(),
        related: Some(key.into()),
        outcome,
    };
    // With the end of the `_id` of each page.
    let fixed = |documents: &[Document], problems: &[(&str, Problem)], pages: &[(&str, Range<i64>)]| {
        let pages = pages.iter().map(|(tail, trades)| with(bucket(key, trades.clone()), "_id", id(tail)).into());
        kind(documents, problems, Values(pages.collect()))
    };
    let left = |documents: &[Document], problems: &[_], reason| kind(documents, problems, Left(reason));
    let is = |id: Bson, damage: Damage<Buckets>| Damage { problems: vec![("trades", id, IdFormat)], ..damage };
    let of = |trades| bucket(key, trades);
    let at = |second, trades| bucket_at(key, second, trades);
    let two_pages = [(FIRST, 0..3), (SECOND, 3..4)];
    let not_full = |items| NotFull { items };
    let one_page = [(FIRST, 0..2)];
    let (name, other) = (format!("bucket of {key}"), format!("{key}b"));
    let keyless = || without(of(0..3), "customerId");
    let key_is = |key: Bson| with(of(0..3), "customerId", key);
    let noted = |bucket| with(bucket, "note", "mine");
    let endless = |items| with(of(items), "_id", id(ENDLESS));
    vec![
        fixed(&[with(of(0..3), "count", 2), of(3..4)], &[(FIRST, Count { count: Some(2), items: 3 })], &two_pages),
        fixed(&[of(0..3), without(of(3..4), "count")], &[(SECOND, Count { count: None, items: 1 })], &two_pages),
        fixed(&[of(0..8), of(8..10)], &[(FIRST, TooManyItems { items: 8 })],
            &[(FIRST, 0..3), (SECOND, 3..6), ("1698335229", 6..9), ("1698335231", 9..10)]),
        fixed(&[of(0..2), of(2..3), of(3..6), of(6..8)],
            &[(FIRST, not_full(2)), ("1698335225", not_full(1)), ("1698335229", SeveralOpen { open: 3 })],
            &[(FIRST, 0..3), (SECOND, 3..6), ("1698335229", 6..8)]),
        // Fields that are not of the pattern stay, or stop the repair.
        kind(&[of(0..2), noted(of(2..4)), of(4..6)],
            &[(FIRST, not_full(2)), ("1698335225", not_full(2)), ("1698335227", SeveralOpen { open: 3 })],
            Values([of(0..3), noted(at(1_698_335_225, 3..6))].map(Bson::from).to_vec())),
        left(&[of(0..1), noted(of(1..2))],
            &[(FIRST, not_full(1)), ("1698335224", SeveralOpen { open: 2 })], Unrepaired::OwnFields),
        fixed(&[at(852_076_800, 0..3), of(3..6)], &[("852076800", IdOrder)], &[("0852076800", 0..3), (SECOND, 3..6)]),
        fixed(&[at(-86_400, 0..3), at(-5, 3..6), at(7, 6..8)], &[("-86400", IdOrder), ("-5", IdOrder), ("7", IdOrder)],
            &[("0000000000", 0..3), ("0000000000_000001", 3..6), ("0000000007", 6..8)]),
        fixed(&[at(1_698_335_223_000, 0..3), of(3..4)], &[("1698335223000", IdOrder)], &two_pages),
        is(name.as_str().into(), fixed(&[with(of(0..3), "_id", name.as_str()), of(3..4)], &[], &two_pages)),
        is(7.into(), fixed(&[with(of(0..3), "_id", 7), of(3..4)], &[], &two_pages)),
        fixed(&[keyless(), of(3..4)], &[(FIRST, KeyMissing)], &two_pages),
        fixed(&[key_is(Bson::Null)], &[(FIRST, KeyMissing)], &[(FIRST, 0..3)]),
        fixed(&[at(7, 0..0), of(0..2)], &[("7", IdOrder), ("7", Empty)], &one_page),
        fixed(&[of(0..2), endless(0..0)], &[(ENDLESS, IdOrder), (ENDLESS, Empty)], &one_page),
        Damage {
            owner: other.as_str().into(), related: Some(other.as_str().into()),
            ..left(&[key_is(other.into())], &[(FIRST, KeyMismatch)], Unrepaired::AmbiguousKey)
        },
        left(&[key_is(5.into())], &[(FIRST, KeyType)], Unrepaired::AmbiguousKey),
        Damage {
            owner: "what".into(), related: None,
            problems: vec![("trades", "what".into(), IdFormat), ("trades", "what".into(), KeyMissing)],
            ..left(&[with(keyless(), "_id", "what")], &[], Unrepaired::AmbiguousKey)
        },
        left(&[with(of(0..3), "history", "what"), of(3..7)],
            &[(FIRST, ItemsNotArray), (SECOND, TooManyItems { items: 4 })], Unrepaired::ItemsNotArray),
        left(&[with(endless(0..1), "history", [1])],
            &[(ENDLESS, IdOrder), (ENDLESS, ItemTimeMissing { items: 1 })], Unrepaired::UnknownPosition),
    ]
}

impl Model for Buckets {
    const COLLECTIONS: &'static [Stored] = &[["trades", "customerId", "", "_id"]];
    const IS_ONE_REPAIR: bool = true;

    async fn new(db: &TestDatabase) -> Self {
        let named = named(db).build().unwrap();
        plant(db, [bucket("s", 0..3), bucket("s", 3..4)]).await;
        confirm_settings(named.ensure_indexes()).await;
        // The index refuses some damage.
        plain(db).drop_indexes().await.unwrap();
        Self(named)
    }

    fn damages() -> Vec<Damage<Self>> {
        (0..)
            .map_while(|n| kinds(&format!("k{n}")).into_iter().nth(n))
            .collect()
    }

    /// Hand-written documents can have their key only in one of both fields.
    fn owner(_: &Stored, bucket: &Document) -> Bson {
        match (bucket.get("customerId"), bucket.get_str("_id")) {
            (Some(Bson::String(key)), _) => key.as_str().into(),
            (_, id) => id.unwrap().split('_').next().into(),
        }
    }

    fn parts(mut bucket: Bson) -> Vec<Bson> {
        let bucket = bucket.as_document_mut().unwrap();
        std::mem::take(bucket.get_array_mut("history").unwrap())
    }

    async fn write(&self, owner: Bson, n: i32) -> mongo_patterns::Result<()> {
        self.0
            .append(owner.as_str().unwrap(), &spread(99 + i64::from(n)))
            .await
            .map(drop)
    }

    calls!();
}
