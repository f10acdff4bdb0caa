//! Documents without a history and with one, and without intervals and with them.

use mongo_patterns::{Error, ErrorKind, Repository};
use mongo_patterns_testkit as testkit;
use mongodb::Collection;
use mongodb::bson::{Document, doc};

use super::{Form, Items, Op, Write, Writers, items_of};
use support::common::all;
use support::history::{self, Policies};
use support::intervals::{self, Prices};
use support::pace::Pace;

const KEYS: i32 = 20;

fn change(Write { id, op, value, .. }: Write) -> Document {
    let field = format!("field{id}");
    match op {
        Op::Remove => doc! { "$unset": { field: 1 } },
        _ => doc! { "$set": { field: value } },
    }
}

/// As a program without this crate changes a document, and keeps no revision.
fn plain_form(current: Collection<Document>) -> Form {
    Form::new(&[], move |write| {
        let current = current.clone();
        async move {
            let update = current.update_one(doc! { "policyId": write.key }, change(write));
            update.await.map(drop).map_err(Error::from)
        }
    })
}

fn history_form(policies: Policies) -> Form {
    Form::new(&[ErrorKind::NotMigrated], move |write| {
        let policies = policies.clone();
        async move { policies.update(write.key, change(write)).await.map(drop) }
    })
}

/// Both change fields of the documents. A change without the repository is in the document, and not in a revision, which
/// `verify` finds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_and_their_history_have_writers_during_the_migration() {
    testkit::run(async |db| {
        let current = db.plain_collection::<Document>("currentPolicies");
        let policies = (1..=KEYS).map(|key| doc! { "policyId": key });
        current.insert_many(policies).await.unwrap();
        let mover = history::builder(db.database()).build().unwrap();
        mover.ensure_indexes().await.unwrap();
        let database = db.plain_client().database(db.database().name());
        let forms = [
            plain_form(current.clone()),
            history_form(history::builder(&database).build().unwrap()),
        ];
        let pace = Pace::of(0);
        let ops = &[Op::Add, Op::Change, Op::Remove];
        let writers = Writers::start(&Items::new(), KEYS, &forms, ops, &pace);
        pace.beside(db, 20, mover.migrate_existing().into_future())
            .await
            .unwrap();
        let acknowledged = writers.end().await;
        let stored = all(&current).await.into_iter().flat_map(|policy| {
            let key = policy.get_i32("policyId").unwrap();
            assert!(policy.contains_key("revision"), "{policy}");
            let fields = policy.into_iter().filter_map(|(name, value)| {
                let id = name.strip_prefix("field")?.parse().ok()?;
                Some((id, value.as_i32()?))
            });
            fields.map(move |(id, value)| ((key, id), value)).collect::<Vec<_>>()
        });
        assert_eq!(items_of(stored), acknowledged.items);
    })
    .await;
}

/// As a program without this crate inserts a price.
fn inserted_form(prices: Collection<Document>) -> Form {
    Form::new(&[], move |Write { key, id, value, .. }| {
        let prices = prices.clone();
        async move {
            let start = intervals::at(i64::from(id) * 1000);
            let price = doc! { "item": key, "id": id, "price": value, "validFrom": start };
            prices.insert_one(price).await.map(drop).map_err(Error::from)
        }
    })
}

fn interval_form(prices: Prices) -> Form {
    Form::new(
        &[ErrorKind::NotFound, ErrorKind::NotMigrated],
        move |Write { key, id, value, .. }| {
            let prices = prices.clone();
            async move {
                let price = doc! { "item": key, "id": id, "price": value };
                prices.replace(key, &price).await.map(drop)
            }
        },
    )
}

/// Each price is stored once. One that was inserted without the repository, and contradicts the others, is an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_and_their_intervals_have_writers_during_the_migration() {
    testkit::run(async |db| {
        let stored = intervals::stored(db);
        let initial: Items = (1..=KEYS).map(|key| ((key, key), 0)).collect();
        let prices = initial
            .keys()
            .map(|(key, id)| doc! { "item": key, "id": id, "price": 0 });
        stored.insert_many(prices).await.unwrap();
        let mover = intervals::builder(db.database()).build().unwrap();
        mover.migrate_existing().await.unwrap();
        let database = db.plain_client().database(db.database().name());
        let forms = [
            inserted_form(stored.clone()),
            interval_form(intervals::builder(&database).build().unwrap()),
        ];
        let pace = Pace::of(0);
        let writers = Writers::start(&initial, KEYS, &forms, &[Op::Add], &pace);
        let migration = mover.migrate_existing().chunk(5);
        let migrated = pace.beside(db, 20, migration.into_future()).await;
        let acknowledged = writers.end().await;
        for migrated in [migrated, mover.migrate_existing().await] {
            if let Err(error) = migrated {
                let noticed = [ErrorKind::DuplicateKey, ErrorKind::Corrupt];
                assert!(noticed.contains(&error.kind()), "{error:?}");
            }
        }
        let documents = all(&stored).await;
        let number = |document: &Document, field: &str| document.get_i32(field).unwrap();
        let found = documents
            .iter()
            .map(|price| ((number(price, "item"), number(price, "id")), number(price, "price")));
        assert_eq!(items_of(found), acknowledged.items);
    })
    .await;
}
