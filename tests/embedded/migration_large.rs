//! Migrations of children that exceed the limit of a document together with their copies.

use mongo_patterns_testkit as testkit;
use mongodb::bson::{Document, doc};

use crate::embedded::migration::patrons;
use support::common::all;
use support::embedded::migration::{addresses, index_reference, referring};
use support::embedded::stored;

#[tokio::test]
async fn children_of_more_than_8_mib_are_migrated_there_and_back_and_compared() {
    testkit::run(async |db| {
        // One patron has a single address of 9 MB, and the other several.
        for (patron, children, bytes) in [(0, 1, 9_000_000), (1, 5, 1_900_000)] {
            let new = doc! { "_id": patron, "name": "Joe" };
            stored(db).insert_one(new).await.unwrap();
            for n in 0..children {
                let mut address = referring(patron * 10 + n, patron);
                address.insert("street", "x".repeat(bytes));
                addresses(db).insert_one(address).await.unwrap();
            }
        }
        index_reference(db).await;
        let before: Vec<Document> = all(&addresses(db)).await;
        let source = db.collection::<Document>("address");
        for _ in 0..2 {
            let patrons = patrons(db);
            patrons.migrate_from_references(&source, "patron_id").await.unwrap();
        }
        let embedded = all(&stored(db)).await;
        let number = |patron: &Document| patron.get_array("addresses").unwrap().len();
        assert_eq!(embedded.iter().map(number).collect::<Vec<_>>(), [1, 5]);

        let target = db.collection::<Document>("moved");
        for _ in 0..2 {
            let patrons = patrons(db);
            patrons.migrate_to_references(&target, "patron_id").await.unwrap();
        }
        let moved = all(&db.plain_collection::<Document>("moved")).await;
        assert!(moved == before, "{} of {}", moved.len(), before.len());
    })
    .await;
}
