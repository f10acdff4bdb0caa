//! Runs whose cursor the server closes between two chunks.

use std::collections::BTreeSet;

use mongo_patterns::Repository;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, doc, oid::ObjectId};

use support::archive::sales::{archived, builder, current, old, plant};
use support::common::all;
use support::cursors::{closing, resumed};

/// Ids of several types, of which many have one age.
fn ids() -> Vec<Bson> {
    let number = |n: i32| match n % 4 {
        0 => Bson::from(n),
        1 => Bson::from(n.to_string()),
        2 => Bson::from(doc! { "n": n }),
        _ => ObjectId::new().into(),
    };
    (0..2500).map(number).collect()
}

#[tokio::test]
async fn a_run_resumes_where_the_server_has_closed_its_cursor() {
    testkit::run(async |db| {
        let archive = builder(db).build().unwrap();
        archive.ensure_indexes().await.unwrap();
        let ids = ids();
        let sale = |(n, id): (usize, &Bson)| doc! { "_id": id, "date": old(n as i64 / 700), "n": n as i64 };
        plant(db, ids.iter().enumerate().map(sale)).await;
        db.recorder().clear();
        let numbers = |documents: Vec<Document>| {
            documents
                .iter()
                .map(|sale| sale.get_i64("n").unwrap())
                .collect::<BTreeSet<_>>()
        };
        let everything: BTreeSet<i64> = (0..2500).collect();

        let moved = archive.run().chunk(500).on_progress(closing(db)).await.unwrap();
        assert_eq!((moved.documents, moved.conflicts, moved.busy), (2500, 0, 0));
        assert!(resumed(db) >= 2, "{}", resumed(db));
        assert_eq!(numbers(all(&archived(db)).await), everything);
        assert_eq!(all(&current(db)).await, []);

        // In the order of the `_id`s.
        db.recorder().clear();
        let moved = archive
            .restore_many(doc! {})
            .chunk(500)
            .on_progress(closing(db))
            .await
            .unwrap();
        assert_eq!(moved.documents, 2500);
        assert!(resumed(db) >= 2, "{}", resumed(db));
        assert_eq!(numbers(all(&current(db)).await), everything);
    })
    .await;
}
