//! Figures of stored buckets: verified, repaired, refreshed and migrated; other programs, concurrent writers and faults.

use futures::TryStreamExt;
use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::{Problem, Repaired, Unrepaired};
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{Bson, DateTime, Document, doc};

use crate::bucket::figures::*;
use support::bucket::figures::*;
use support::bucket::*;
use support::common::*;

async fn problems(orders: &Orders) -> Vec<Problem> {
    let findings = collected(orders.verify().stream()).await;
    findings.into_iter().map(|finding| finding.problem).collect()
}

async fn repaired(orders: &Orders) -> Vec<Repaired> {
    collected(orders.repair().stream()).await
}

async fn set(db: &TestDatabase, fields: Document) {
    plain(db).update_one(doc! {}, doc! { "$set": fields }).await.unwrap();
}

#[tokio::test]
async fn wrong_figures_are_found_and_repaired() {
    testkit::run(async |db| {
        let orders = prepared(db, figured(db).count_by("ticker")).await;
        append_orders(&orders, 1, 5).await;
        let correct = all(&plain(db)).await;
        for wrong in [
            doc! { "figures.qty.sum": 1 },
            doc! { "figures.qty.sum": "many" },
            doc! { "figures.qty.sum": f64::NAN },
            doc! { "figures.qty.min": -1 },
            doc! { "figures.qty.max": Bson::Null },
            doc! { "figures.qty.count": 4 },
            doc! { "figures.qty": 5 },
            doc! { "figures.dollars.sum": decimal("10.5000000001") },
            doc! { "figures.date.first": at(5) },
            doc! { "figures.date.last": at(SECOND + 3) },
            doc! { "figures.ticker.counts": [] },
            doc! { "figures.ticker.counts.0.count": 9 },
            doc! { "figures": "what" },
        ] {
            set(db, wrong.clone()).await;
            assert_eq!(problems(&orders).await, [Problem::Figures], "{wrong}");
            assert_eq!(repaired(&orders).await.len(), 1, "{wrong}");
            assert_eq!(problems(&orders).await, [], "{wrong}");
            assert_eq!(all(&plain(db)).await, correct, "{wrong}");
        }
        // Equal in another form, and fields of other programs.
        for same in [
            doc! { "figures.qty.sum": Bson::Int64(i64::from(correct_sum(&correct))) },
            doc! { "figures.dollars.sum": decimal("10.500") },
            doc! { "figures.qty.mean": 5 },
        ] {
            set(db, same.clone()).await;
            assert_eq!(problems(&orders).await, [], "{same}");
        }
    })
    .await;
}

fn correct_sum(buckets: &[Document]) -> i32 {
    let figures = buckets[0].get_document("figures").unwrap();
    figures.get_document("qty").unwrap().get_i32("sum").unwrap()
}

#[tokio::test]
async fn items_without_a_valid_value_are_reported_and_left_out() {
    testkit::run(async |db| {
        let orders = prepared(db, figured(db).count_by("ticker")).await;
        append_orders(&orders, 1, 4).await;
        let invalid = doc! { "history.1.qty": "x", "history.2.ticker": [1], "history.3.qty": f64::NAN, "count": 9 };
        set(db, invalid).await;
        let (found, invalid) = (problems(&orders).await, Problem::ItemValueInvalid { items: 3 });
        assert!(
            found.contains(&Problem::Figures) && found.contains(&invalid),
            "{found:?}"
        );
        assert_eq!(repaired(&orders).await[0].unrepaired, Some(Unrepaired::UnreadableItems));
        assert_eq!(problems(&orders).await, [invalid]);
        let bucket = all(&plain(db)).await.remove(0);
        let qty = bucket.get_document("figures").unwrap().get_document("qty").unwrap();
        assert_eq!(qty, &doc! { "count": 4, "max": 3, "min": 0, "sum": 3 });
        let totals = orders.totals(&1).await.unwrap();
        assert_eq!((totals.items, totals.sum("qty")), (4, Some(&Bson::Int32(3))));
    })
    .await;
}

/// A sum of doubles depends on the order of the additions.
#[tokio::test]
async fn sums_of_doubles_are_verified_with_a_tolerance() {
    testkit::run(async |db| {
        let orders = prepared(db, plain_builder(db).page_size(50).sum("qty").sum("dollars")).await;
        for n in 0..45_i32 {
            let mut item = order(n.into());
            item.insert("qty", f64::from(n) * 0.1 * if n % 2 == 0 { 1e6 } else { -1e-3 });
            // A sum of all types.
            let mixed = [
                Bson::Double(0.1),
                Bson::Int64(n.into()),
                Bson::Int32(n),
                Bson::Decimal128(decimal("0.30")),
            ];
            item.insert("dollars", mixed[usize::try_from(n % 4).unwrap()].clone());
            orders.append(&1, &item).await.unwrap();
        }
        assert_eq!(problems(&orders).await, []);
        assert_eq!(repaired(&orders).await, []);
        assert_eq!(orders.refresh_figures().await.unwrap().documents, 1);
        assert_eq!(problems(&orders).await, []);
    })
    .await;
}

#[tokio::test]
async fn totals_are_exact_for_buckets_that_other_programs_write() {
    testkit::run(async |db| {
        let orders = prepared(db, figured(db)).await;
        for n in 0..13 {
            orders.append(&1, &order(n)).await.unwrap();
        }
        // The manual's command does not know of the figures, and neither does a removal by hand.
        let open = doc! { "customerId": 1, "count": { "$lt": 10 } };
        let push = doc! { "$push": { "history": order(13) }, "$inc": { "count": 1 } };
        plain(db).update_one(open, push).await.unwrap();
        orders.append(&1, &order(14)).await.unwrap();
        append_orders(&orders, 2, 5).await;
        let pull = doc! { "$pull": { "history": { "n": 4_i64 } }, "$inc": { "count": -1 } };
        plain(db).update_one(doc! { "customerId": 2 }, pull).await.unwrap();
        check_totals(&orders.totals(&2).await.unwrap(), &orders_of(0..4));
        let items = collected(orders.items(&1).stream()).await;
        assert_eq!(items.len(), 15);
        check_totals(&orders.totals(&1).await.unwrap(), &items);
        let (from, until) = (at(SECOND + 2), at(SECOND + 12));
        let within = |item: &Document| (from..until).contains(item.get_datetime("date").unwrap());
        let expected: Vec<Document> = items.iter().filter(|item| within(item)).cloned().collect();
        check_totals(&orders.totals(&1).from(from).until(until).await.unwrap(), &expected);
        let mut found = problems(&orders).await;
        found.retain(|problem| *problem == Problem::Figures);
        assert_eq!(found.len(), 2);
        repaired(&orders).await;
        check(db, &orders).await;
    })
    .await;
}

#[tokio::test]
async fn a_collection_gets_figures_on_the_server() {
    testkit::run(async |db| {
        let without = prepared(db, plain_builder(db)).await;
        append_orders(&without, 1, 35).await;
        without.append(&2, &order(1)).await.unwrap();
        let orders = figured(db).build().unwrap();
        assert_refused(orders.ensure_indexes().await, ErrorKind::SettingsMismatch);
        let other = figured(db).page_size(7).build().unwrap();
        assert_refused(other.refresh_figures().await, ErrorKind::SettingsMismatch);
        let items = orders_of(0..35);
        check_totals(&orders.totals(&1).await.unwrap(), &items);

        db.recorder().clear();
        assert_eq!(orders.refresh_figures().await.unwrap().documents, 5);
        assert_eq!(
            db.recorder().names(),
            ["find", "find", "update", "find", "update", "update"]
        );
        assert_eq!(orders.refresh_figures().await.unwrap().documents, 0);
        orders.ensure_indexes().await.unwrap();
        check(db, &orders).await;
        check_totals(&orders.totals(&1).await.unwrap(), &items);
        assert_refused(without.ensure_indexes().await, ErrorKind::SettingsMismatch);
        assert_refused(without.repair().stream().try_next().await, ErrorKind::SettingsMismatch);

        // Another figure for the same collection.
        let counted = figured(db).count_by("ticker").build().unwrap();
        assert_eq!(counted.refresh_figures().await.unwrap().documents, 5);
        check(db, &counted).await;
        assert_eq!(counted.totals(&1).await.unwrap().counts("ticker").len(), 3);
    })
    .await;
}

#[tokio::test]
async fn a_migration_computes_the_figures_and_refuses_what_has_none() {
    testkit::run(async |db| {
        let flat = db.plain_collection::<Document>("flat");
        let documents = (0..45).map(|n| {
            let mut document = order(n);
            document.extend(doc! { "_id": n, "customerId": n % 2 });
            document
        });
        flat.insert_many(documents).await.unwrap();
        let orders = figured(db).count_by("ticker").build().unwrap();
        let invalid = [
            doc! { "qty": "x" },
            doc! { "qty": f64::INFINITY },
            doc! { "ticker": 0.5 },
        ];
        for (n, fields) in invalid.into_iter().enumerate() {
            let mut document = order(100 + i64::try_from(n).unwrap());
            document.extend(doc! { "_id": 100 + i32::try_from(n).unwrap(), "customerId": 1 });
            document.extend(fields);
            flat.insert_one(document).await.unwrap();
        }
        assert_refused(orders.migrate_from_flat(&flat).await, ErrorKind::InvalidArgument);
        assert!(all(&plain(db)).await.is_empty());
        let found = orders.migrate_from_flat(&flat).find_invalid(None).await.unwrap();
        assert_eq!((found.invalid.get("figure"), found.invalid.total()), (Some(3), 3));
        let skipped = db.collection::<Document>("skipped");
        let migrated = orders.migrate_from_flat(&flat).skip_invalid(&skipped).await.unwrap();
        assert_eq!((migrated.items, migrated.skipped.get("figure")), (45, Some(3)));
        let listed = all(&db.plain_collection("skipped")).await;
        let is_figure = |listed: &Document| listed.get_str("reason").unwrap() == "figure";
        assert!(listed.iter().all(is_figure), "{listed:?}");
        check(db, &orders).await;
        // The buckets are those that appends would have written.
        let migrated = all(&plain(db)).await;
        plain(db).delete_many(doc! {}).await.unwrap();
        for n in 0..45_i64 {
            orders.append(&u32::try_from(n % 2).unwrap(), &order(n)).await.unwrap();
        }
        assert_eq!(all(&plain(db)).await, migrated);
        repaired(&orders).await;
        assert_eq!(all(&plain(db)).await, migrated);
    })
    .await;
}

#[tokio::test]
async fn another_page_size_keeps_the_figures() {
    testkit::run(async |db| {
        let orders = prepared(db, figured(db).count_by("ticker")).await;
        append_orders(&orders, 1, 47).await;
        for (old, new) in [(10, 4), (4, 25)] {
            let resized = figured(db).count_by("ticker").page_size(new).build().unwrap();
            resized.migrate_page_size_from(old).await.unwrap();
            check(db, &resized).await;
            check_totals(&resized.totals(&1).await.unwrap(), &orders_of(0..47));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn figures_are_exact_with_64_writers() {
    testkit::run(async |db| {
        for builder in [figured(db), figured(db).count_by("ticker")] {
            let orders = prepared(db, builder).await;
            plain(db).delete_many(doc! {}).await.unwrap();
            let tasks = (0..64_i64).map(|task| {
                let orders = &orders;
                async move {
                    for n in task * 6..task * 6 + 6 {
                        orders.append(&1, &order(n)).await.unwrap();
                    }
                    let n = task * 6;
                    orders.update_item(&1, n, update(doc! { "qty": 1_000 })).await.unwrap();
                    let totals = orders.totals(&1).await.unwrap();
                    assert_eq!(totals.max("qty"), Some(&Bson::Int32(1_000)));
                    if task % 8 == 0 {
                        assert!(orders.remove_item(&1, n + 1).await.unwrap().found);
                    }
                }
            });
            join_all(tasks).await;
            check(db, &orders).await;
            let items = collected(orders.items(&1).stream()).await;
            assert_eq!(items.len(), 64 * 6 - 8);
            check_totals(&orders.totals(&1).await.unwrap(), &items);
        }
    })
    .await;
}

/// Updates an item by the first of two commands. The second, for the figures, fails.
async fn update_without_figures(db: &TestDatabase, orders: &Orders, n: i64, set: Document) {
    let fault = FailPoint::on(&["findAndModify"]).skip(1).error_code(8000);
    let fault = fault.enable(db).await;
    let updated = orders.update_item(&1, n, update(set)).await;
    fault.disable().await;
    assert!(updated.unwrap().modified);
}

/// Without the second command, totals take the items.
#[tokio::test]
async fn totals_are_exact_between_the_two_commands_of_an_update() {
    testkit::run(async |db| {
        let orders = prepared(db, figured(db)).await;
        append_orders(&orders, 1, 25).await;
        update_without_figures(db, &orders, 3, doc! { "qty": 500 }).await;
        assert_eq!(problems(&orders).await, [Problem::Figures]);
        let items = collected(orders.items(&1).stream()).await;
        assert_eq!(items[3].get_i32("qty").unwrap(), 500);
        check_totals(&orders.totals(&1).await.unwrap(), &items);
        let range = orders.totals(&1).from(DateTime::from_millis(0)).await.unwrap();
        check_totals(&range, &items);
        assert_eq!(orders.refresh_figures().await.unwrap().documents, 1);
        check(db, &orders).await;
    })
    .await;
}

/// The last time of such a bucket can be wrong. Appends do not bring it back into the TTL index.
#[tokio::test]
async fn a_marked_bucket_stays_out_of_the_expiry_until_its_figures_are_computed() {
    testkit::run(async |db| {
        let orders = prepared(db, figured(db)).await;
        orders.append(&1, &order(0)).await.unwrap();
        update_without_figures(db, &orders, 0, doc! { "date": at(SECOND + 1000) }).await;
        let expires = async || {
            let indexed = doc! { "figures.date.count": { "$gt": 0 } };
            plain(db).count_documents(indexed).await.unwrap()
        };
        for n in 1..9 {
            orders.append(&1, &order(n)).await.unwrap();
            assert_eq!(expires().await, 0, "{n} appends");
        }
        assert_eq!(orders.refresh_figures().await.unwrap().documents, 1);
        assert_eq!(expires().await, 1);
        let stored = plain(db).find_one(doc! {}).await.unwrap().unwrap();
        let times = stored.get_document("figures").unwrap().get_document("date").unwrap();
        assert_eq!(times.get_datetime("last").unwrap(), &at(SECOND + 1000));
        check(db, &orders).await;
    })
    .await;
}
