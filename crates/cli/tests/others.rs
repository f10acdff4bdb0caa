//! Tests of the outlier and embedded commands.

use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::IndexModel;
use mongodb::bson::{Bson, Document, doc};

use crate::support::*;

fn outlier(db: &TestDatabase, arguments: &[&str]) -> Ran {
    let settings = [
        "--collection",
        "sales",
        "--array",
        "customers",
        "--threshold",
        "5",
        "--cap",
        "10",
    ];
    ran(on(db).arg("outlier").args(settings).args(arguments))
}

#[tokio::test]
async fn long_arrays_are_migrated_to_overflow_documents() {
    testkit::run(async |db| {
        let book = |id: i32, customers: i32| doc! { "_id": id, "customers": (0..customers).collect::<Vec<_>>() };
        let books: Vec<Document> = (0..9).map(|id| book(id, 3)).chain([book(9, 40)]).collect();
        db.plain_collection::<Document>("sales")
            .insert_many(books)
            .await
            .unwrap();
        assert_eq!(outlier(db, &["verify"]).code, Some(1));
        let dry = outlier(db, &["migrate", "--dry-run", "--json"]);
        assert_eq!(
            (&dry.summary()["documents"], &dry.summary()["overflow_documents"]),
            (&1.into(), &4.into()),
            "{dry:?}"
        );
        let planned = outlier(db, &["plan"]);
        assert_eq!(planned.code, Some(0), "{planned:?}");
        for text in [
            "// writes: write the main document",
            "// writes: write documents",
            "db.getSiblingDB(\"admin\").runCommand({ commitTransaction: 1",
            "// writes: create indexes",
        ] {
            assert!(planned.out.contains(text), "{text}: {}", planned.out);
        }
        assert!(all(db, "sales_extras").await.is_empty());
        let planned = outlier(db, &["plan", "--json"]);
        let extras = planned
            .json()
            .into_iter()
            .find(|line| line["purpose"] == "write documents");
        let documents = extras.unwrap()["command"]["documents"].clone();
        assert_eq!(documents.as_array().unwrap().len(), 4);

        let migrated = outlier(db, &["migrate", "--json"]);
        assert_eq!(
            (migrated.code, &migrated.summary()["documents"]),
            (Some(0), &1.into()),
            "{migrated:?}"
        );
        let counts: Vec<i32> = all(db, "sales_extras")
            .await
            .iter()
            .map(|extras| extras.get_i32("count").unwrap())
            .collect();
        assert_eq!(counts, [10, 10, 10, 5]);
        assert_eq!(outlier(db, &["verify"]).code, Some(0));
        assert_eq!(outlier(db, &["indexes"]).code, Some(0));

        let sales = db.plain_collection::<Document>("sales");
        sales
            .update_one(doc! { "_id": 9 }, doc! { "$unset": { "has_extras": 1 } })
            .await
            .unwrap();
        let found = outlier(db, &["verify", "--json"]);
        assert_eq!(
            (found.code, &found.json()[0]["problem"]),
            (Some(1), &"OverflowWithoutFlag".into()),
            "{found:?}"
        );
        assert_eq!(outlier(db, &["repair", "--dry-run"]).code, Some(1));
        assert_eq!(outlier(db, &["repair"]).code, Some(0));
        assert_eq!(outlier(db, &["verify"]).code, Some(0));
    })
    .await;
}

fn embedded(db: &TestDatabase, arguments: &[&str]) -> Ran {
    ran(on(db).args(PATRONS).args(arguments))
}

#[tokio::test]
async fn references_are_migrated_to_embedded_children() {
    testkit::run(async |db| {
        db.plain_collection::<Document>("patron")
            .insert_many([doc! { "_id": "joe" }, doc! { "_id": "ann" }])
            .await
            .unwrap();
        let address = db.plain_collection::<Document>("address");
        let refers = |id: i32, patron: &str| doc! { "_id": id, "patron_id": patron, "zip": "12345" };
        address
            .insert_many([refers(1, "joe"), refers(2, "joe"), refers(3, "nobody")])
            .await
            .unwrap();
        let without_index = embedded(db, &["migrate"]);
        assert_eq!(without_index.code, Some(1), "{without_index:?}");
        assert!(without_index.err.contains("patron_id: 1"), "{}", without_index.err);
        address
            .create_index(IndexModel::builder().keys(doc! { "patron_id": 1 }).build())
            .await
            .unwrap();

        let planned = embedded(db, &["plan"]);
        assert!(
            planned.code == Some(0) && planned.out.contains("// writes: embed the children"),
            "{planned:?}"
        );
        let dry = embedded(db, &["migrate", "--dry-run", "--json"]);
        assert_eq!(
            (&dry.summary()["children"], &dry.summary()["orphans"]),
            (&2.into(), &1.into()),
            "{dry:?}"
        );
        assert!(!all(db, "patron").await[0].contains_key("addresses"));

        let migrated = embedded(db, &["migrate", "--json"]);
        assert_eq!(
            (migrated.code, &migrated.summary()["children"]),
            (Some(1), &2.into()),
            "{migrated:?}"
        );
        assert!(migrated.err.contains("2 of 2 parents"), "{}", migrated.err);
        let joe = all(db, "patron").await.remove(1);
        let addresses = [1, 2].map(|id| Bson::Document(doc! { "_id": id, "zip": "12345" }));
        assert_eq!(joe.get_array("addresses").unwrap(), &addresses);
        let found = embedded(db, &["verify", "--json"]);
        assert_eq!(
            (found.code, &found.json()[0]["problem"]),
            (Some(1), &"Orphan".into()),
            "{found:?}"
        );
        assert!(
            found.err.contains("2 of 2 parents") && found.err.contains("3 of 3 references"),
            "{}",
            found.err
        );
        let back = |arguments: &[&str]| {
            let arguments: Vec<&str> = ["--source", "back"].iter().chain(arguments).copied().collect();
            embedded(db, &arguments)
        };
        let planned = back(&["plan", "--back"]);
        assert!(
            planned.out.contains("write the children of a chunk as documents"),
            "{planned:?}"
        );
        let dry = back(&["migrate", "--back", "--dry-run", "--json"]);
        assert_eq!((dry.code, &dry.summary()["children"]), (Some(0), &2.into()), "{dry:?}");
        assert!(all(db, "back").await.is_empty());
        let migrated = back(&["migrate", "--back", "--json"]);
        assert_eq!(
            (migrated.code, &migrated.summary()["children"]),
            (Some(0), &2.into()),
            "{migrated:?}"
        );
        let two: Vec<Document> = [1, 2].map(|id| refers(id, "joe")).to_vec();
        assert_eq!(all(db, "back").await, two);
        address.delete_one(doc! { "_id": 3 }).await.unwrap();
        assert_eq!(embedded(db, &["verify"]).code, Some(0));
    })
    .await;
}
