//! Orders, three of each customer.

use mongo_patterns::reference::{Problem, Unrepaired};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, doc};

use super::model::Outcome::{Left, Restored, Values};
use super::model::{Damage, Model, Stored, calls, delete, update};
use support::reference;
use support::reference::{Judged, customer, customers, judge, orders, rename, stored};

pub(super) struct Orders(reference::Orders);

impl Model for Orders {
    const COLLECTIONS: &'static [Stored] = &[
        ["customers", "_id", "name", "_id"],
        ["orders", "of", "customer.name", "_id"],
    ];
    const IS_ONE_REPAIR: bool = false;
    const FIELDS: &'static [&'static str] = &["customer"];

    async fn new(db: &TestDatabase) -> Self {
        let repository = orders(db).await;
        for id in 1..=21 {
            let mut source = customer(id, "Cas");
            source.insert("v", 2_i64);
            let mut copy = source.clone();
            copy.remove("visits");
            let order = |n: i32| doc! { "_id": id * 10 + n, "of": id, "customer": &copy };
            stored(db).insert_many((1..=3).map(order)).await.unwrap();
            customers(db).insert_one(source).await.unwrap();
        }
        let without = [
            doc! { "of": "no customer" },
            doc! { "of": "no customer", "customer": null },
        ];
        stored(db).insert_many(without).await.unwrap();
        Self(repository)
    }

    #[rustfmt::skip] // a kind of damage in a line
    fn damages() -> Vec<Damage<Self>> {
        let damage = |id: i32, write, orders: &[i32], problem, outcome| Damage::<Self> {
            owner: id.into(),
            writes: vec![write],
            problems: orders.iter().map(|order| ("orders", (id * 10 + order).into(), problem)).collect(),
            related: Some(id.into()),
            outcome,
        };
        let source = |id, write, problem, outcome| damage(id, write, &[1, 2, 3], problem, outcome);
        let set = |id: i32, set: Document| update("customers", doc! { "_id": id }, doc! { "$set": set });
        let second = |id, change, problem, outcome| {
            damage(id, update("orders", doc! { "_id": id * 10 + 2 }, change), &[2], problem, outcome)
        };
        let copy = |field: &str, value: Bson| doc! { "$set": { field: value } };
        let named = |name: &str| Values(vec![name.into(); 4]);
        let stale = Problem::Stale { version: 2, source_version: 3 };
        let newer = Problem::NewerThanSource { version: 2, source_version: 1 };
        let delete = delete("customers", doc! { "_id": 6 });
        let mut damages = vec![
            // A process updated the customer and died before its sweep.
            source(1, set(1, doc! { "name": "Dan", "v": 3_i64 }), stale, named("Dan")),
            // Another program does not know the version.
            source(2, set(2, doc! { "name": "Dan" }), Problem::Differs, named("Dan")),
            second(3, copy("customer.name", "Dan".into()), Problem::Differs, Restored),
            second(4, doc! { "$unset": { "customer.v": "" } }, Problem::VersionMissing, Restored),
            // Restored from a backup.
            source(5, set(5, doc! { "name": "Bea", "v": 1_i64 }), newer, named("Bea")),
            source(6, delete, Problem::SourceMissing, Left(Unrepaired::SourceMissing)),
            second(7, copy("customer.deleted", true.into()), Problem::Differs, Restored),
        ];
        // The server compares some of these as newer than every version.
        let numbers = [7.5, f64::INFINITY, f64::NAN].map(Bson::from);
        let versions = ["2".into(), vec![9].into(), Bson::MaxKey].into_iter().chain(numbers);
        damages.extend((8..).zip(versions).map(|(id, version)| {
            second(id, copy("customer.v", version), Problem::VersionMissing, Restored)
        }));
        let db_ref = doc! { "$ref": "customers", "$id": 1, "name": "Ann" };
        let other_forms: [(Bson, _, _); 7] = [
            (1.into(), Problem::NotAReference, Unrepaired::NotAReference),
            ("Ann".into(), Problem::NotAReference, Unrepaired::NotAReference),
            (vec![doc! { "_id": 1 }].into(), Problem::NotAReference, Unrepaired::NotAReference),
            (doc! { "_id": null, "$id": 1 }.into(), Problem::NotAReference, Unrepaired::NotAReference),
            (doc! {}.into(), Problem::WithoutId, Unrepaired::WithoutId),
            (doc! { "id": 1, "name": "Ann" }.into(), Problem::WithoutId, Unrepaired::WithoutId),
            (db_ref.into(), Problem::DbRef, Unrepaired::WithoutId),
        ];
        damages.extend((14..).zip(other_forms).map(|(id, (value, problem, left))| {
            Damage::<Self> { related: None, ..second(id, copy("customer", value), problem, Left(left)) }
        }));
        damages
    }

    async fn judge(db: &TestDatabase) {
        let expected = Judged {
            copies: 13 * 3,
            ..Judged::default()
        };
        assert_eq!(judge(db).await, expected);
    }

    async fn write(&self, owner: Bson, n: i32) -> mongo_patterns::Result<()> {
        let updated = self.0.update_source(owner, rename(&format!("last{n}"))).await?;
        // Beside a repair, some copies are not found by the update.
        assert!(updated.copies == 3 || n > 0);
        Ok(())
    }

    calls!();
}
