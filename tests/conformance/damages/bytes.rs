//! Buckets with a bound of bytes: two full ones and an open one of each key.

use mongo_patterns::bucket::{Problem, Unrepaired};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, doc};

use super::model::Outcome::{Restored, Values};
use super::model::{Damage, Model, Stored, calls, update};
use support::bucket::bytes::{BOUND, bounded, sized, violations_of};
use support::bucket::figures::{Orders, prepared};
use support::common::{SECOND, all, plain};

pub(super) struct Buckets(Orders);

const FIRST: i64 = SECOND;
const LAST: i64 = SECOND + 4;

fn items(numbers: std::ops::Range<i64>) -> Vec<Document> {
    numbers.map(|n| sized(n, 400)).collect()
}

fn id_of(key: i32, second: i64) -> Bson {
    format!("{key}_{second}").into()
}

fn set(bytes: impl Into<Bson>) -> Document {
    doc! { "$set": { "bytes": bytes.into() } }
}

impl Model for Buckets {
    const COLLECTIONS: &'static [Stored] = &[["trades", "customerId", "history", "_id"]];
    const IS_ONE_REPAIR: bool = true;

    async fn new(db: &TestDatabase) -> Self {
        let orders = prepared(db, bounded(db)).await;
        for key in 0..8_u32 {
            orders.append_many(&key, &items(0..6)).await.unwrap();
        }
        let of = |second| doc! { "_id": id_of(0, second) };
        plain(db).update_one(of(LAST), set(800_i64)).await.unwrap();
        // The server takes it for an open bucket, of which the index has one only.
        plain(db).update_one(of(FIRST), set(999)).await.unwrap_err();
        Self(orders)
    }

    #[rustfmt::skip] // a kind of damage in a line
    fn damages() -> Vec<Damage<Self>> {
        use Problem::*;
        let wrong = |bytes| Bytes { bytes, sum: 800 };
        let open = || vec![(FIRST, wrong(None)), (FIRST, NotFull { items: 2 }), (LAST, SeveralOpen { open: 2 })];
        let push = doc! { "$push": { "history": sized(6, 400) }, "$inc": { "count": 1 } };
        let pushed = vec![(LAST, Bytes { bytes: Some(800), sum: 1200 }), (LAST, TooManyBytes { bytes: 1200 })];
        let damages = [
            (FIRST, set(1001), vec![(FIRST, wrong(Some(1001)))], Restored),
            (FIRST, set("1000"), open(), Restored),
            (FIRST, doc! { "$unset": { "bytes": "" } }, open(), Restored),
            (LAST, set(0), vec![(LAST, wrong(Some(0)))], Restored),
            (LAST, set(799.5), vec![(LAST, wrong(None))], Restored),
            (LAST, push, pushed, Values(items(0..7).into_iter().map(Bson::from).collect())),
        ];
        let damage = |(key, (second, change, problems, outcome)): (i32, (_, _, Vec<_>, _))| Damage::<Self> {
            owner: key.into(),
            writes: vec![update("trades", doc! { "_id": id_of(key, second) }, change)],
            problems: problems.into_iter().map(|(second, problem)| ("trades", id_of(key, second), problem)).collect(),
            related: Some(key.into()),
            outcome,
        };
        (1..).zip(damages).map(damage).collect()
    }

    async fn judge(db: &TestDatabase) {
        let mut buckets = all(&plain(db)).await;
        buckets.retain(|bucket| bucket.get_i32("bytes").is_ok());
        assert_eq!(violations_of(&buckets, BOUND, 5), [""; 0]);
    }

    async fn write(&self, owner: Bson, n: i32) -> mongo_patterns::Result<()> {
        let key = owner.as_i32().unwrap().unsigned_abs();
        self.0.append(&key, &sized(20 + i64::from(n), 150)).await.map(drop)
    }

    calls!();
}
