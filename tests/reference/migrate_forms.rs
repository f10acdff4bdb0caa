//! Documents that refer by other forms, which are named: DBRefs, and documents with the id in another field than `_id`.

use mongo_patterns::{ErrorKind, Remedy};
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, doc};

use support::common::all;
use support::reference::migrate::{number_of, unmigrated};
use support::reference::{Builder, add_customers, builder, copy_in, customers, findings, stored};

#[tokio::test]
async fn ids_that_are_documents_are_ids() {
    testkit::run(async |db| {
        let ids = [doc! { "shop": 1 }, doc! { "id": 1 }];
        let old = [
            doc! { "_id": 1, "customer": &ids[0] },
            doc! { "_id": 2, "customer": &ids[1] },
        ];
        unmigrated(db, old).await;
        let with_ids = ids.iter().map(|id| doc! { "_id": id });
        customers(db).insert_many(with_ids).await.unwrap();
        let orders = builder(db.database()).build().unwrap();
        assert_eq!(number_of(&orders.migrate_from_references().await.unwrap()), 2);
        for (order, id) in [(1, &ids[0]), (2, &ids[1])] {
            assert_eq!(copy_in(db, order).await.get("_id"), Some(&Bson::from(id)));
        }
    })
    .await;
}

#[tokio::test]
async fn errors_and_findings_name_the_form() {
    testkit::run(async |db| {
        let old = [
            doc! { "_id": 1, "customer": { "$ref": "customers", "$id": 1 } },
            doc! { "_id": 2, "customer": { "id": 2, "name": "?" } },
        ];
        unmigrated(db, old).await;
        add_customers(db, 1..=2).await;
        let orders = builder(db.database()).build().unwrap();
        let refused = orders.migrate_from_references().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidItemId);
        assert_eq!(refused.remedy(), Some(Remedy::SkipInvalid));
        let texts = findings(&orders).await;
        let texts = texts.iter().map(|finding| finding.problem.to_string());
        let texts: Vec<String> = texts.chain([refused.to_string()]).collect();
        for (text, form) in texts.iter().zip(["DBRef", "without an `_id`", "DBRef"]) {
            assert!(text.contains(form) && !text.contains("exist"), "{text}");
        }
        assert_eq!(texts.len(), 3);
        // No finding advises what destroys the reference.
        let advises = |text: &String| text.contains("remove") || text.contains("insert");
        assert!(!texts[..2].iter().any(advises), "{texts:?}");
    })
    .await;
}

/// The number of a customer can be the `_id` of another one.
#[tokio::test]
async fn references_by_another_field_are_refused_without_its_name() {
    testkit::run(async |db| {
        let old = (0..6).map(|id| doc! { "_id": id, "customerNo": 101 + id % 3, "total": id });
        unmigrated(db, old).await;
        let numbers = [(1, 101), (2, 102), (101, 104), (5, 103)];
        let numbered = numbers.map(|(id, number)| doc! { "_id": id, "no": number, "name": "Ann" });
        customers(db).insert_many(numbered).await.unwrap();
        let migrate = async |builder: Builder| {
            let orders = builder.build().unwrap();
            let migration = orders.migrate_from_references();
            migration.from_field("customer", "customerNo").await
        };
        let refused = migrate(builder(db.database())).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotFound);
        assert!(refused.to_string().contains("source_key(..)"), "{refused}");
        let migrated = migrate(builder(db.database()).source_key("no")).await.unwrap();
        assert_eq!(number_of(&migrated), 6);
        for (id, order) in (0..).zip(all(&stored(db)).await) {
            let customer = [1, 2, 5][id as usize % 3];
            let copy = doc! { "_id": customer, "no": 101 + id % 3, "name": "Ann", "v": 0_i64 };
            assert_eq!(order, doc! { "_id": id, "total": id, "customer": copy });
        }
    })
    .await;
}
