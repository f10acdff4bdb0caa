//! Existing documents and damage by other programs: `migrate_existing`, `verify` and `repair`.

use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns::intervals::{Corrections, Problem, Repaired, Unrepaired};
use mongo_patterns::{ErrorKind, Remedy, Repository};
use mongo_patterns_testkit::{self as testkit, FailPoint};
use mongodb::bson::{Bson, Document, doc};

use support::common::all;
use support::intervals::*;

#[tokio::test]
async fn what_the_manuals_recipe_leaves_is_migrated() {
    testkit::run(async |db| {
        by_the_recipe(&stored(db), "pants", 3).await;
        // The recipe's own query finds three valid prices.
        let valid = doc! { "item": "pants", "isValid": true };
        assert_eq!(stored(db).count_documents(valid).await.unwrap(), 3);
        stored(db).insert_one(price("shirt", 4)).await.unwrap();
        let prices = builder(db.database()).build().unwrap();
        let found = problems(&prices).await;
        let mut expected = vec![Problem::Missing];
        expected.extend([Problem::Overlap; 3]);
        expected.push(Problem::SeveralValid { documents: 3 });
        assert_eq!(found, expected);
        assert_eq!(prices.ensure_indexes().await.unwrap_err().kind(), ErrorKind::Corrupt);
        let missing = prices.update("pants", to(9)).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::IndexMissing);

        let migrated = prices.migrate_existing().await.unwrap();
        let Corrections {
            starts, ends, marks, ..
        } = migrated.corrections;
        assert_eq!((migrated.documents, starts, ends, marks), (4, 1, 4, 3));
        assert_eq!(migrated.created_indexes, ["item_1_isValid", "item_1_validFrom_1"]);
        let pants = intervals(&of_item(db, "pants").await);
        let expected = [
            (0, BEGIN, at(1000), false),
            (1, at(1000), at(2000), false),
            (2, at(2000), at(3000), false),
            (3, at(3000), END, true),
        ];
        assert_eq!(pants, expected);
        assert_eq!(intervals(&of_item(db, "shirt").await), [(4, BEGIN, END, true)]);
        assert_eq!(findings(&prices).await, []);
        for item in ["pants", "shirt"] {
            prices.update(item, to(9)).await.unwrap();
            judge(db, item).await;
        }
    })
    .await;
}

fn stored_price(price: i32, from: impl Into<Bson>, to: impl Into<Bson>, is_valid: impl Into<Bson>) -> Document {
    doc! { "_id": price, "item": "pants", "price": price, "validFrom": from, "validTo": to, "isValid": is_valid }
}

#[tokio::test]
async fn a_price_that_another_program_inserts_after_an_end_begins_then() {
    testkit::run(async |db| {
        let (five, ten) = (at(5000), at(10_000));
        let before = [
            stored_price(1, five, ten, false),
            doc! { "_id": 2, "item": "pants", "price": 2 },
        ];
        stored(db).insert_many(before).await.unwrap();
        let prices = builder(db.database()).build().unwrap();
        prices.migrate_existing().await.unwrap();
        let expected = [(1, five, ten, false), (2, ten, END, true)];
        assert_eq!(intervals(&of_item(db, "pants").await), expected);
        assert_eq!(findings(&prices).await, []);
    })
    .await;
}

const ENDED: &str = include_str!("data/ended.json");

/// Documents of SQL tables and of other tools: an end is an end, and what contradicts itself is not changed.
#[tokio::test]
async fn an_end_in_the_past_stays_and_contradictions_are_refused_or_listed() {
    testkit::run(async |db| {
        store_file(db, ENDED).await;
        let before = all(&stored(db)).await;
        let prices = builder(db.database()).build().unwrap();
        for error in [
            prices.migrate_existing().await.unwrap_err(),
            prices.migrate_existing().plan().await.unwrap_err(),
        ] {
            assert_eq!(
                (error.kind(), error.remedy()),
                (ErrorKind::Corrupt, Some(Remedy::SkipInvalid))
            );
            assert!(error.document_id().is_some());
        }
        assert_eq!(all(&stored(db)).await, before);

        let list = db.plain_collection::<Document>("skipped");
        let migrate = || prices.migrate_existing().skip_invalid(&list);
        let planned = migrate().plan().await.unwrap().migrated;
        assert_eq!(all(&stored(db)).await, before);
        let migrated = migrate().await.unwrap();
        for migrated in [&planned, &migrated] {
            let Corrections {
                starts, ends, marks, ..
            } = migrated.corrections;
            assert_eq!((migrated.documents, starts, ends, marks), (4, 0, 0, 4));
            let skipped = &migrated.skipped;
            assert_eq!(
                (skipped.get("mark"), skipped.get("end_missing"), skipped.total()),
                (Some(1), Some(2), 3)
            );
        }
        let mut listed: Vec<String> = all(&list)
            .await
            .iter()
            .map(|one| one.get_str("reason").unwrap().to_owned())
            .collect();
        listed.sort();
        assert_eq!(listed, ["end_missing", "end_missing", "mark"]);
        for (before, after) in before.iter().zip(all(&stored(db)).await) {
            for time in ["validFrom", "validTo"] {
                assert_eq!(before.get(time), after.get(time));
            }
            let is_listed = ["flag true, ended", "older is flagged"].contains(&after.get_str("item").unwrap());
            let expected = if is_listed {
                before.get("isValid").cloned()
            } else {
                Some(false.into())
            };
            assert_eq!(after.get("isValid").cloned(), expected, "{after}");
        }
        for item in ["no flag", "flag null", "flag false", "flag true, ended", "two, no flag"] {
            assert_eq!(prices.get(item).await.unwrap(), None, "{item}");
        }
        assert_eq!(migrate().await.unwrap().documents, 0);
        let mut found: Vec<Repaired> = prices.repair().stream().try_collect().await.unwrap();
        found.sort_by_key(|one| one.unrepaired.map(|reason| reason.name()));
        let reasons: Vec<_> = found.iter().map(|one| one.unrepaired).collect();
        assert_eq!(reasons, [Some(Unrepaired::EndMissing), Some(Unrepaired::Mark)]);
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_migrated_is_refused_with_no_effect() {
    testkit::run(async |db| {
        let five = at(5000);
        let refused = [
            stored_price(9, "x", END, true),
            stored_price(9, five, 7, true),
            stored_price(9, five, END, 1),
            // With a document of the recipe, which ends later.
            stored_price(9, at(500), at(1500), false),
            stored_price(9, five, at(4000), false),
            doc! { "_id": 9, "price": 1 },
            doc! { "_id": 9, "item": [1], "price": 1 },
        ];
        for document in refused {
            let _ = stored(db).drop().await;
            by_the_recipe(&stored(db), "pants", 2).await;
            stored(db).insert_one(&document).await.unwrap();
            let before = all(&stored(db)).await;
            let prices = builder(db.database()).build().unwrap();
            for error in [
                prices.migrate_existing().await.unwrap_err(),
                prices.migrate_existing().plan().await.unwrap_err(),
            ] {
                assert_eq!(
                    (error.kind(), error.document_id()),
                    (ErrorKind::Corrupt, Some(&9.into())),
                    "{document}"
                );
            }
            assert_eq!(all(&stored(db)).await, before);
            let found = problems(&prices).await;
            let is_found =
                |problem: &Problem| matches!(problem, Problem::Invalid | Problem::Overlap | Problem::Reversed);
            assert!(found.iter().any(is_found), "{document}");
        }
    })
    .await;
}

/// Two valid documents of one id, which prevent the index.
#[tokio::test]
async fn several_valid_documents_are_found_and_repaired_without_the_indexes() {
    testkit::run(async |db| {
        for item in ["pants", "shirt"] {
            by_the_recipe(&stored(db), item, 2).await;
        }
        let prices = builder(db.database()).build().unwrap();
        let refused = prices.repair().stream().try_collect::<Vec<_>>().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::SettingsMismatch, "{refused:?}");
        prices.ensure_indexes().replace_settings().await.unwrap_err();
        let repaired: Vec<Repaired> = prices.repair().stream().try_collect().await.unwrap();
        assert_eq!(repaired.len(), 2);
        assert!(repaired.iter().all(|one| one.unrepaired.is_none()));
        prices.ensure_indexes().await.unwrap();
        for item in ["pants", "shirt"] {
            assert_eq!(judge(db, item).await, [0, 1, 2]);
        }
    })
    .await;
}

/// A repository changes a price after the migration has read its interval, and before it corrects it.
#[tokio::test]
async fn a_price_that_a_repository_changes_after_the_read_is_left_as_it_is() {
    testkit::run(async |db| {
        let prices = prices(db).await;
        prices.insert(&price("pants", 0)).await.unwrap();
        let no_mark = doc! { "$set": { "isValid": false } };
        stored(db).update_one(doc! { "item": "pants" }, no_mark).await.unwrap();
        let other = builder(&db.plain_client().database(db.database().name()));
        let other = other.build().unwrap();
        let fault = FailPoint::on(&["update"]).times(1).block(Duration::from_secs(1));
        let fault = fault.enable(db).await;
        let change = async {
            assert!(fault.met(db, Duration::from_secs(10)).await);
            other.update("pants", to(1)).await.unwrap();
        };
        let (migrated, ()) = tokio::join!(prices.migrate_existing(), change);
        fault.disable().await;
        assert_eq!(migrated.unwrap().documents, 0);
        assert_eq!(prices.migrate_existing().await.unwrap().documents, 0);
        assert_eq!(judge(db, "pants").await, [0, 1]);
    })
    .await;
}
