//! Intervals: four prices of each item.

use mongo_patterns::intervals::{Problem, Unrepaired};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, DateTime, Document, doc};

use super::model::Outcome::{Left, Restored, Values};
use super::model::{Damage, Model, Stored, calls, update};
use support::intervals::{END, Prices, at, prices, stored, to};

pub(super) struct Intervals(Prices);

fn id_of(item: i32, price: i32) -> Bson {
    (item * 10 + price).into()
}

impl Model for Intervals {
    const COLLECTIONS: &'static [Stored] = &[["prices", "item", "price", "validFrom"]];
    const IS_ONE_REPAIR: bool = true;

    async fn new(db: &TestDatabase) -> Self {
        let repository = prices(db).await;
        let prices = (0..52).map(|n| {
            let (item, price) = (n / 4, n % 4);
            let [from, to] = [1, 2].map(|n| at(i64::from(price + n) * 1_000_000));
            let to = if price == 3 { END } else { to };
            let interval = doc! { "validFrom": from, "validTo": to, "isValid": price == 3 };
            let mut stored = doc! { "_id": id_of(item, price), "item": item, "price": price };
            stored.extend(interval);
            stored
        });
        stored(db).insert_many(prices).await.unwrap();
        Self(repository)
    }

    #[rustfmt::skip] // a kind of damage in a line
    fn damages() -> Vec<Damage<Self>> {
        use Problem::*;
        let set = |set: Document| doc! { "$set": set };
        let unset = |unset: Document| doc! { "$unset": unset };
        let prices = |prices: [i32; 4]| Values(prices.map(Bson::from).to_vec());
        let late = at(20_000_000_000_000);
        let no_interval = unset(doc! { "validFrom": "", "validTo": "", "isValid": "" });
        let mut last = set(doc! { "validFrom": late });
        last.extend(unset(doc! { "validTo": "", "isValid": "" }));
        // The price that is changed, and those with a problem.
        let damages = [
            (1, set(doc! { "validTo": DateTime::MAX }), vec![(2, Overlap)], Restored),
            (1, set(doc! { "validTo": at(3_500_000) }), vec![(2, Overlap)], Left(Unrepaired::Overlap)),
            (1, set(doc! { "validTo": at(1) }), vec![(1, Reversed)], Left(Unrepaired::Reversed)),
            (0, set(doc! { "validTo": END }), vec![(1, Overlap)], Restored),
            (3, set(doc! { "isValid": false }), vec![(3, OutdatedMark)], Restored),
            (3, set(doc! { "validTo": at(5_000_000) }), vec![(3, ValidEnded)], Left(Unrepaired::Mark)),
            (3, set(doc! { "validFrom": at(7) }), vec![(0, Overlap)], Left(Unrepaired::Mark)),
            // One that has lost its interval comes first.
            (1, no_interval, vec![(1, Missing)], prices([1, 0, 2, 3])),
            (2, unset(doc! { "isValid": "" }), vec![(2, Missing)], Restored),
            // It began last, beside the valid one.
            (2, last, vec![(2, Missing)], prices([0, 1, 3, 2])),
            (0, set(doc! { "validTo": "x" }), vec![(0, Invalid)], Left(Unrepaired::Invalid)),
        ];
        let damage = |(item, (price, change, problems, outcome)): (i32, (_, _, Vec<_>, _))| Damage::<Self> {
            owner: item.into(),
            writes: vec![update("prices", doc! { "_id": id_of(item, price) }, change)],
            problems: problems.into_iter().map(|(price, problem)| ("prices", id_of(item, price), problem)).collect(),
            related: Some(item.into()),
            outcome,
        };
        (0..).zip(damages).map(damage).collect()
    }

    async fn write(&self, owner: Bson, n: i32) -> mongo_patterns::Result<()> {
        self.0.update(owner, to(9 + n)).await.map(drop)
    }

    calls!();
}
