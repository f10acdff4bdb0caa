//! Migrations with concurrent writers: no stale copy, no lost change.

use std::collections::BTreeMap;
use std::pin::pin;

use futures::future::join_all;
use mongo_patterns::reference::OnReferences;
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};
use tokio::sync::Mutex;

use support::common::{all, until};
use support::pace::Pace;
use support::random::random;
use support::reference::migrate::*;
use support::reference::*;

/// The server has one fail point of a kind.
static HOLD: Mutex<()> = Mutex::const_new(());

/// Runs a migration whose first write the server holds, after it has read the sources, until the other future has ended.
async fn while_held<T>(
    db: &TestDatabase,
    migration: impl IntoFuture<Output = Result<T, Error>>,
    then: impl Future<Output = ()>,
) -> Result<T, Error> {
    let _one = HOLD.lock().await;
    let admin = db.plain_client().database("admin");
    let namespace = format!("{}.orders", db.database().name());
    let hold = async |mode: &str| {
        let hold = doc! { "configureFailPoint": "hangDuringBatchUpdate", "mode": mode, "data": { "nss": &namespace } };
        admin.run_command(hold).await.unwrap();
    };
    let held = doc! { "currentOp": true, "active": true, "failpointMsg": "hangDuringBatchUpdate", "ns": &namespace };
    let until_held = until("the write", async || {
        let found = admin.run_command(held.clone()).await.unwrap();
        !found.get_array("inprog").unwrap().is_empty()
    });
    hold("alwaysOn").await;
    let mut migration = pin!(migration.into_future());
    tokio::select! {
        migrated = &mut migration => {
            hold("off").await;
            panic!("it has written nothing: {:?}", migrated.map(drop));
        }
        () = until_held => {}
    }
    then.await;
    hold("off").await;
    migration.await
}

/// The rename is between the server's read of the customer and its write of the copy. Without the second read, the copies
/// are outdated for good.
#[tokio::test]
async fn a_rename_between_the_read_and_the_write_is_seen_by_the_second_read() {
    testkit::run(async |db| {
        for array in [false, true] {
            let products = bare(db.database())
                .reference_field("customer")
                .copied_fields(["name", "address"]);
            let orders = match array {
                true => products.array(),
                false => products,
            };
            let orders = orders.build().unwrap();
            let old = |id: i32| match array {
                true => doc! { "_id": id, "customer": [1 + id % 3, 4] },
                false => doc! { "_id": id, "customer": 1 + id % 3 },
            };
            unmigrated(db, (0..20).map(old)).await;
            add_customers(db, 1..=4).await;
            let migrated = while_held(db, orders.migrate_from_references(), rename_unnoticed(db, 2, "Bea")).await;
            assert_eq!(number_of(&migrated.unwrap()), 20);
            let names = db.recorder().names();
            // It sweeps the one customer that was renamed.
            let after_chunk = names[names.len() - 7..].join(" ");
            assert_eq!(after_chunk, "aggregate aggregate find update update aggregate update");
            assert_eq!(findings(&orders).await, []);
            let bea = doc! { "customer.name": "Bea", "customer.v": 1_i64 };
            assert!(stored(db).count_documents(bea).await.unwrap() >= 6);
            db.recorder().clear();
        }
    })
    .await;
}

/// A deletion has looked for references, and found none, because the order has no copy yet. The second read removes its
/// mark, so the deletion checks again.
#[tokio::test]
async fn a_deletion_between_the_read_and_the_write_finds_the_new_references() {
    testkit::run(async |db| {
        let orders = several(patient(builder(db.database()))).build().unwrap();
        unmigrated(db, [doc! { "_id": 1, "customer": 1 }, doc! { "_id": 2, "payer": 2 }]).await;
        add_customers(db, 1..=2).await;
        let mark = async {
            let mark = doc! { "$set": { "mongo_patterns_deleting": mongodb::bson::oid::ObjectId::new() } };
            customers(db).update_many(doc! {}, mark).await.unwrap();
        };
        while_held(db, orders.migrate_from_references(), mark).await.unwrap();
        for customer in all(&customers(db)).await {
            assert!(!customer.contains_key("mongo_patterns_deleting"), "{customer}");
            let id = customer.get_i32("_id").unwrap();
            let refused = orders.delete_source(id).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Referenced);
        }
    })
    .await;
}

/// Deletions do not find references in the old form, so the requirements exclude them. Nothing is lost nevertheless.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_source_that_is_deleted_between_the_reads_leaves_a_marked_copy() {
    testkit::run(async |db| {
        for rule in [OnReferences::Restrict, OnReferences::KeepCopy] {
            let orders = several(builder(db.database())).build().unwrap();
            let old = [
                doc! { "_id": 1, "customer": 1, "payer": 1 },
                doc! { "_id": 2, "products": [2, 1] },
            ];
            unmigrated(db, old).await;
            add_customers(db, 1..=2).await;
            let delete = async {
                // With this rule, an update of the copies would be held too.
                match rule {
                    OnReferences::Restrict => drop(orders.delete_source(1).await.unwrap()),
                    _ => drop(customers(db).delete_one(doc! { "_id": 1 }).await.unwrap()),
                }
            };
            while_held(db, orders.migrate_from_references(), delete).await.unwrap();
            assert_eq!(findings(&orders).await, []);
            let copy = |id: i32| doc! { "_id": id, "name": "Ann", "v": 0_i64 };
            let marked = |mut copy: Document| {
                copy.insert("deleted", true);
                copy
            };
            let found = all(&stored(db)).await;
            assert_eq!(found[0].get_document("payer").unwrap(), &marked(copy(1)));
            assert!(found[0].get_document("customer").unwrap().get_bool("deleted").unwrap());
            assert_eq!(
                found[1].get_array("products").unwrap(),
                &vec![Bson::from(copy(2)), marked(copy(1)).into()]
            );
        }
    })
    .await;
}

/// The write of the server changes neither other fields nor a reference that was changed since its read.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_change_between_the_read_and_the_write_is_kept() {
    testkit::run(changes_are_kept).await;
}

async fn changes_are_kept(db: &TestDatabase) {
    let orders = several(builder(db.database())).build().unwrap();
    let products = [doc! { "_id": 1, "n": 1 }];
    let old = (1..=6).map(|id| doc! { "_id": id, "total": 5, "customer": 1, "products": products.to_vec() });
    unmigrated(db, old).await;
    add_customers(db, 1..=2).await;
    let copy = |id: i32, name: &str| doc! { "_id": id, "name": name, "address": { "city": "x" }, "v": 0_i64 };
    let changes = [
        doc! { "$inc": { "total": 1 } },
        doc! { "$set": { "customer": copy(2, "set") } },
        doc! { "$unset": { "customer": "" } },
        doc! { "$set": { "customer": 2 } },
        doc! { "$set": { "products.0.n": 2 } },
    ];
    let change = async {
        for (id, change) in (1..).zip(changes) {
            let changed = stored(db).find_one_and_update(doc! { "_id": id }, change).await;
            changed.unwrap().unwrap();
        }
        let deleted = stored(db).find_one_and_delete(doc! { "_id": 6 }).await;
        deleted.unwrap().unwrap();
    };
    let migrated = while_held(db, orders.migrate_from_references(), change).await.unwrap();
    assert_eq!(migrated.documents, 5);
    let [ann, other] = [1, 2].map(|id| doc! { "_id": id, "name": "Ann", "address": { "city": "Dublin" }, "v": 0_i64 });
    let product = |n: i32| [doc! { "_id": 1, "name": "Ann", "v": 0_i64, "n": n }].to_vec();
    assert_eq!(
        all(&stored(db)).await,
        [
            doc! { "_id": 1, "total": 6, "customer": &ann, "products": product(1) },
            doc! { "_id": 2, "total": 5, "customer": copy(2, "set"), "products": product(1) },
            doc! { "_id": 3, "total": 5, "products": product(1) },
            doc! { "_id": 4, "total": 5, "customer": &other, "products": product(1) },
            doc! { "_id": 5, "total": 5, "customer": &ann, "products": product(2) },
        ]
    );
}

/// Renames, inserts, changes of references and of other fields, while a migration runs. Each acknowledged one is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn writers_continue_during_a_migration() {
    testkit::run(async |db| {
        const ORDERS: i32 = 900;
        let repository = || patient(builder(db.database())).build().unwrap();
        let old = (0..ORDERS).map(|id| doc! { "_id": id, "customer": 1 + id % 5, "n": 0 });
        unmigrated(db, old).await;
        add_customers(db, 1..=5).await;
        // A service creates the indexes at its start.
        repository().ensure_indexes().await.unwrap();
        let pace = Pace::of(200);
        let writers = (0..6).map(|writer| {
            let (orders, pace) = (repository(), pace.clone());
            let plain = stored(db);
            tokio::spawn(async move {
                let (mut inserted, mut set, mut increments) = (0, Vec::new(), 0);
                let (mut n, mut random) = (0, random(writer));
                while n < 10 || pace.next().await {
                    n += 1;
                    let (customer, of) = (random.i32(1..=5), random.i32(0..ORDERS / 6) * 6 + writer);
                    match random.u8(..4) {
                        0 => {
                            orders.insert(&order(format!("{writer}-{n}"), customer)).await.unwrap();
                            inserted += 1;
                        }
                        1 => {
                            orders.set_reference(of, customer).await.unwrap();
                            set.push((of, customer));
                        }
                        2 => {
                            let increment = doc! { "$inc": { "n": 1 } };
                            plain.update_one(doc! { "_id": of }, increment).await.unwrap();
                            increments += 1;
                        }
                        _ => {
                            let rename = rename(&format!("{writer}-{n}"));
                            orders.update_source(customer, rename).await.unwrap();
                        }
                    }
                }
                (inserted, set, increments)
            })
        });
        let writers: Vec<_> = writers.collect();
        let migrated = repository()
            .migrate_from_references()
            .chunk(50)
            .on_progress(|_| pace.add(10))
            .await
            .unwrap();
        pace.end();
        let written: Vec<_> = join_all(writers).await.into_iter().map(Result::unwrap).collect();
        assert!(migrated.documents > 0);
        let inserted: usize = written.iter().map(|(inserted, ..)| inserted).sum();
        assert_eq!(assert_current(db, &repository()).await, ORDERS as usize + inserted);
        let stored = all(&stored(db)).await;
        let increments: i32 = written.iter().map(|(.., increments)| increments).sum();
        let counted = stored.iter().filter_map(|order| order.get_i32("n").ok()).sum::<i32>();
        assert_eq!(counted, increments);
        for (_, set, _) in &written {
            // The last change of each order.
            let last: BTreeMap<i32, i32> = set.iter().copied().collect();
            for (of, customer) in last {
                let order = stored
                    .iter()
                    .find(|order| order.get("_id") == Some(&of.into()))
                    .unwrap();
                let copy = order.get_document("customer").unwrap();
                assert_eq!(copy.get_i32("_id").unwrap(), customer, "{order}");
            }
        }
    })
    .await;
}
