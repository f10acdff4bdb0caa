//! What other programs and dead processes leave: `verify` names it, and `repair` corrects what can be known.

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns::reference::{OnReferences, Problem, Repaired, Unrepaired};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use crate::common::support::all;
use crate::reference::support::*;

/// Stores orders 1 to 3 of customer 1, which is at version 2, and order 4 of customer 2.
async fn sound(db: &TestDatabase) -> Orders {
    let orders = with_customers(db).await;
    for (id, customer) in [(1, 1), (2, 1), (3, 1), (4, 2)] {
        orders.insert(&order(id, customer)).await.unwrap();
    }
    for name in ["Bea", "Cas"] {
        orders.update_source(1, rename(name)).await.unwrap();
    }
    assert_eq!(assert_current(db, &orders).await, 4);
    orders
}

async fn set(db: &TestDatabase, collection: &str, id: i32, field: &str, value: impl Into<Bson>) {
    let update = doc! { "$set": { field: value.into() } };
    let collection = db.plain_collection::<Document>(collection);
    let updated = collection.update_one(doc! { "_id": id }, update).await.unwrap();
    assert_eq!(updated.modified_count, 1);
}

async fn unset(db: &TestDatabase, id: i32, field: &str) {
    let update = doc! { "$unset": { field: "" } };
    stored(db).update_one(doc! { "_id": id }, update).await.unwrap();
}

/// A change of the stored documents by another program, or by a process that died.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// A process updated the customer and died before its sweep.
    Renamed,
    /// A program updated the customer without a version.
    RenamedWithoutVersion,
    /// A program changed the name in an order.
    CopyChanged,
    /// A program removed the version in an order.
    CopyWithoutVersion,
    VersionOfText,
    /// The customer was restored from a backup.
    SourceRestored,
    SourceDeleted,
    IdAlone,
    /// A customer that exists is marked as deleted.
    MarkedAsDeleted,
}

use Damage::{
    CopyChanged, CopyWithoutVersion, IdAlone, MarkedAsDeleted, Renamed, RenamedWithoutVersion, SourceDeleted,
    SourceRestored, VersionOfText,
};

impl Damage {
    async fn apply(self, db: &TestDatabase) {
        match self {
            Renamed => {
                set(db, "customers", 1, "name", "Dan").await;
                set(db, "customers", 1, "v", 3_i64).await;
            }
            RenamedWithoutVersion => set(db, "customers", 1, "name", "Dan").await,
            CopyChanged => set(db, "orders", 2, "customer.name", "Dan").await,
            CopyWithoutVersion => unset(db, 2, "customer.v").await,
            VersionOfText => set(db, "orders", 2, "customer.v", "2").await,
            SourceRestored => {
                set(db, "customers", 1, "name", "Bea").await;
                set(db, "customers", 1, "v", 1_i64).await;
            }
            SourceDeleted => drop(customers(db).delete_one(doc! { "_id": 1 }).await.unwrap()),
            IdAlone => set(db, "orders", 2, "customer", 1).await,
            MarkedAsDeleted => set(db, "orders", 2, "customer.deleted", true).await,
        }
    }

    /// Returns the problem of each damaged order, and why it cannot be repaired.
    fn expected(self) -> (Vec<(i32, Problem)>, Option<Unrepaired>) {
        let all = |problem: Problem| (1..=3).map(|order| (order, problem)).collect();
        match self {
            Renamed => {
                let problem = Problem::Stale {
                    version: 2,
                    source_version: 3,
                };
                (all(problem), None)
            }
            RenamedWithoutVersion => (all(Problem::Differs), None),
            CopyChanged | MarkedAsDeleted => (vec![(2, Problem::Differs)], None),
            CopyWithoutVersion | VersionOfText => (vec![(2, Problem::VersionMissing)], None),
            SourceRestored => {
                let problem = Problem::NewerThanSource {
                    version: 2,
                    source_version: 1,
                };
                (all(problem), None)
            }
            SourceDeleted => (all(Problem::SourceMissing), Some(Unrepaired::SourceMissing)),
            IdAlone => (vec![(2, Problem::NotAReference)], Some(Unrepaired::NotAReference)),
        }
    }
}

const DAMAGES: [Damage; 9] = [
    Renamed,
    RenamedWithoutVersion,
    CopyChanged,
    CopyWithoutVersion,
    VersionOfText,
    SourceRestored,
    SourceDeleted,
    IdAlone,
    MarkedAsDeleted,
];

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn each_kind_of_damage_is_found_and_repaired_where_it_can_be_known() {
    testkit::run(async |db| {
        for damage in DAMAGES {
            let orders = sound(db).await;
            damage.apply(db).await;
            let damaged = contents(db).await;
            let (expected, unrepaired) = damage.expected();
            let found = findings(&orders).await;
            let mut problems: Vec<(i32, Problem)> = found
                .iter()
                .map(|finding| (finding.document_id.as_i32().unwrap(), finding.problem))
                .collect();
            problems.sort_by_key(|(order, _)| *order);
            assert_eq!(problems, expected, "{damage:?}");
            let is_reference = !matches!(damage, IdAlone);
            for finding in &found {
                assert_eq!(
                    (finding.namespace.coll.as_str(), finding.fields[0].as_str()),
                    ("orders", "customer")
                );
                assert_eq!(finding.related_id, is_reference.then(|| 1.into()));
            }

            let dry: Vec<Repaired> = orders.repair().dry_run().stream().try_collect().await.unwrap();
            assert_eq!(dry.len(), found.len(), "{damage:?}");
            assert!(
                dry.iter().all(|repaired| repaired.unrepaired == unrepaired),
                "{damage:?}: {dry:?}"
            );
            assert_eq!(contents(db).await, damaged, "{damage:?}: a dry run changes nothing");

            let done = repaired(&orders).await;
            assert!(!done.is_empty());
            assert!(
                done.iter().all(|repaired| repaired.unrepaired == unrepaired),
                "{damage:?}: {done:?}"
            );
            match unrepaired {
                None => {
                    assert_eq!(assert_current(db, &orders).await, 4, "{damage:?}");
                    let next = orders.update_source(1, rename("last")).await.unwrap();
                    assert_eq!(next.copies_updated, 3, "{damage:?}");
                    assert_eq!(assert_current(db, &orders).await, 4, "{damage:?}");
                }
                Some(_) => assert_eq!(contents(db).await, damaged, "{damage:?}"),
            }
        }
    })
    .await;
}

/// The server compares some invalid versions as newer than every version.
#[tokio::test]
async fn a_copy_with_an_invalid_version_is_repaired() {
    testkit::run(async |db| {
        let orders = sound(db).await;
        let versions: [Bson; 5] = [
            7.5.into(),
            f64::INFINITY.into(),
            f64::NAN.into(),
            vec![9].into(),
            Bson::MaxKey,
        ];
        for version in versions {
            set(db, "orders", 2, "customer.v", version.clone()).await;
            assert_eq!(problems(&orders).await, [Problem::VersionMissing], "{version}");
            let repaired = repaired(&orders).await;
            assert!(repaired.iter().all(|repaired| repaired.unrepaired.is_none()));
            assert_eq!(assert_current(db, &orders).await, 4, "{version}");
        }
    })
    .await;
}

/// A repair does not lower a version, and does not change what is correct.
#[tokio::test]
async fn a_repair_writes_only_what_is_damaged() {
    testkit::run(async |db| {
        let orders = sound(db).await;
        let before = contents(db).await;
        assert_eq!(repaired(&orders).await, []);
        assert_eq!(contents(db).await, before);
        CopyChanged.apply(db).await;
        repaired(&orders).await;
        let mut after = contents(db).await;
        assert_eq!(
            number(&after[1][0], "v"),
            3,
            "a version of its own, for the copies of this one"
        );
        assert_eq!(after[0][3], before[0][3], "the order of another customer");
        after[1][0].insert("v", 2_i64);
        assert_eq!(after[1], before[1]);
    })
    .await;
}

#[tokio::test]
async fn a_missing_source_is_repaired_by_the_rule_that_is_passed() {
    testkit::run(async |db| {
        for rule in [OnReferences::KeepCopy, OnReferences::Clear] {
            let orders = sound(db).await;
            SourceDeleted.apply(db).await;
            let repaired: Vec<Repaired> = orders.repair().on_missing(rule).stream().try_collect().await.unwrap();
            assert_eq!(repaired.len(), 3, "{repaired:?}");
            assert!(repaired.iter().all(|repaired| repaired.unrepaired.is_none()));
            assert_eq!(findings(&orders).await, [], "{rule:?}");
            let stored = all(&stored(db)).await;
            for order in &stored[..3] {
                match rule {
                    OnReferences::KeepCopy => {
                        let copy = order.get_document("customer").unwrap();
                        assert!(copy.get_bool("deleted").unwrap() && copy.get_str("name").ok() == Some("Cas"));
                    }
                    _ => assert!(!order.contains_key("customer")),
                }
            }
            assert_eq!(stored[3].get_document("customer").unwrap().len(), 4);
        }
    })
    .await;
}

/// A customer that was deleted and is inserted again starts with version 0, behind the copies that were kept.
#[tokio::test]
async fn a_customer_that_is_inserted_again_continues_after_a_repair() {
    testkit::run(async |db| {
        let orders = sound(db).await;
        orders
            .delete_source(1)
            .on_references(OnReferences::KeepCopy)
            .await
            .unwrap();
        assert_eq!(findings(&orders).await, []);
        customers(db).insert_one(customer(1, "Eve")).await.unwrap();
        assert_eq!(findings(&orders).await.len(), 3);
        let repaired = repaired(&orders).await;
        assert!(
            repaired.iter().all(|repaired| repaired.unrepaired.is_none()),
            "{repaired:?}"
        );
        assert_eq!(assert_current(db, &orders).await, 4);
        let copy = copy_in(db, 1).await;
        assert_eq!(
            (copy.get_str("name").ok(), copy.contains_key("deleted")),
            (Some("Eve"), false)
        );
    })
    .await;
}

/// The `with_any` filter of the scan: documents without a reference are no findings.
#[tokio::test]
async fn orders_without_a_customer_are_no_findings() {
    testkit::run(async |db| {
        let orders = sound(db).await;
        stored(db)
            .insert_many([doc! { "_id": 20 }, doc! { "_id": 21, "customer": null }])
            .await
            .unwrap();
        assert_eq!(findings(&orders).await, []);
        let db_ref = doc! { "$ref": "customers", "$id": 1, "name": "Ann" };
        for (id, value, problem) in [
            (22, Bson::from("Ann"), Problem::NotAReference),
            (23, doc! {}.into(), Problem::WithoutId),
            (24, doc! { "id": 1, "name": "Ann" }.into(), Problem::WithoutId),
            (25, vec![doc! { "_id": 1 }].into(), Problem::NotAReference),
            (26, doc! { "_id": null, "$id": 1 }.into(), Problem::NotAReference),
            (27, db_ref.into(), Problem::DbRef),
        ] {
            stored(db)
                .insert_one(doc! { "_id": id, "customer": value.clone() })
                .await
                .unwrap();
            assert_eq!(problems(&orders).await, [problem], "{value}");
            let destroys = ["remove", "insert"].map(|advice| problem.to_string().contains(advice));
            let is_of_other_form = problem != Problem::NotAReference;
            assert!(!is_of_other_form || destroys == [false, false], "{problem}");
            stored(db).delete_one(doc! { "_id": id }).await.unwrap();
        }
    })
    .await;
}

/// More documents than one batch, with damage in several.
#[tokio::test]
async fn damage_is_found_in_every_batch() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        let copy = |version: i64| doc! { "_id": 1, "name": "Ann", "address": { "city": "Dublin" }, "v": version };
        let stale = [0, 499, 500, 1200, 1201];
        customers(db)
            .update_one(doc! { "_id": 1 }, doc! { "$set": { "v": 1_i64 } })
            .await
            .unwrap();
        let all = (0..1202).map(|id| {
            let version = i64::from(!stale.contains(&id));
            doc! { "_id": id, "customer": copy(version) }
        });
        stored(db).insert_many(all).await.unwrap();
        let mut seen = 0;
        let progress = |progress: mongo_patterns::Progress| seen = progress.done;
        let found: Vec<_> = orders
            .verify()
            .on_progress(progress)
            .stream()
            .try_collect()
            .await
            .unwrap();
        let mut ids: Vec<i32> = found
            .iter()
            .map(|finding| finding.document_id.as_i32().unwrap())
            .collect();
        ids.sort_unstable();
        assert_eq!(ids, stale);
        assert_eq!(seen, 1202);
        let repaired = repaired(&orders).await;
        assert!(!repaired.is_empty());
        assert_eq!(assert_current(db, &orders).await, 1202);
    })
    .await;
}

#[tokio::test]
async fn a_repair_and_a_sweep_with_other_settings_are_refused() {
    testkit::run(async |db| {
        let orders = sound(db).await;
        Renamed.apply(db).await;
        let before = contents(db).await;
        let others = [
            builder(db.database()).copied_field("town", "address.city"),
            builder(db.database()).snapshot(),
            builder(db.database()).version_field("visits"),
        ];
        for other in others {
            let other = other.build().unwrap();
            let repaired: Result<Vec<_>, _> = other.repair().stream().try_collect().await;
            let error = repaired.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::SettingsMismatch, "{error}");
            assert!(error.is_setup_error());
            for error in [
                other.sweep().await.unwrap_err(),
                other.sweep().source(1).await.unwrap_err(),
            ] {
                assert_eq!(error.kind(), ErrorKind::SettingsMismatch, "{error}");
            }
        }
        assert_eq!(contents(db).await, before);
        repaired(&orders).await;
        assert_eq!(assert_current(db, &orders).await, 4);
    })
    .await;
}
