//! Runs whose cursor the server closes between two chunks.

use std::collections::BTreeSet;

use mongo_patterns::Repository;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::Database;
use mongodb::bson::{Bson, Document, doc, oid::ObjectId};

use support::archive::sales::{archived, builder, current, old, plant};
use support::common::{all, elsewhere};

/// Closes the idle cursors of a collection.
async fn close_cursors(database: Database, collection: &str) {
    let admin = database.client().database("admin");
    let idle = doc! { "type": "idleCursor", "ns": format!("{}.{collection}", database.name()) };
    let stages = [
        doc! { "$currentOp": { "allUsers": true, "idleCursors": true } },
        doc! { "$match": idle },
    ];
    let mut found = admin.aggregate(stages).await.unwrap();
    while found.advance().await.unwrap() {
        let found = found.deserialize_current().unwrap();
        let cursor = found.get_document("cursor").unwrap().get_i64("cursorId").unwrap();
        let kill = doc! { "killCursors": collection, "cursors": [cursor] };
        database.run_command(kill).await.unwrap();
    }
}

fn closing<T>(db: &TestDatabase, collection: &'static str) -> impl Fn(T) + Send + 'static {
    let (uri, database) = (db.server().uri().to_owned(), db.database().name().to_owned());
    move |_| {
        elsewhere(&uri, &database, async move |database| {
            close_cursors(database, collection).await;
        });
    }
}

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
        let resumed = || {
            let commands = db.recorder().commands();
            commands
                .iter()
                .filter(|command| command.name == "find" && command.command.contains_key("min"))
                .count()
        };
        let numbers = |documents: Vec<Document>| {
            documents
                .iter()
                .map(|sale| sale.get_i64("n").unwrap())
                .collect::<BTreeSet<_>>()
        };
        let everything: BTreeSet<i64> = (0..2500).collect();

        let moved = archive
            .run()
            .chunk(500)
            .on_progress(closing(db, "sales"))
            .await
            .unwrap();
        assert_eq!((moved.documents, moved.conflicts, moved.busy), (2500, 0, 0));
        assert!(resumed() >= 2, "{}", resumed());
        assert_eq!(numbers(all(&archived(db)).await), everything);
        assert_eq!(all(&current(db)).await, []);

        // In the order of the `_id`s.
        db.recorder().clear();
        let moved = archive
            .restore_many(doc! {})
            .chunk(500)
            .on_progress(closing(db, "archived_sales"))
            .await
            .unwrap();
        assert_eq!(moved.documents, 2500);
        assert!(resumed() >= 2, "{}", resumed());
        assert_eq!(numbers(all(&current(db)).await), everything);
    })
    .await;
}
