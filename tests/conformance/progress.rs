//! The progress of calls that read whole collections.

use futures::TryStreamExt;
use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns::{Progress, Repository};
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Document, doc};

use support::embedded::migration::{addresses, referring};
use support::embedded::stored;
use support::outlier::{again, sales, users};
use support::subset::{Products, builder, product, review_of};

/// The progress counts all documents, including correct ones, and the findings are the same.
#[tokio::test]
async fn calls_that_read_whole_collections_report_their_progress() {
    testkit::run(async |db| {
        let mut reported: Option<Progress> = None;
        let done = |reported: Option<Progress>| reported.map(|at| (at.done, at.total));

        let books = again(db, 5, 10);
        let long = (0..7).map(|id| doc! { "_id": id, "customers_purchased": users(0..if id < 3 { 9 } else { 2 }) });
        sales(db).insert_many(long).await.unwrap();
        let found = books.verify().on_progress(|at| reported = Some(at)).stream();
        let found: Vec<_> = found.try_collect().await.unwrap();
        assert_eq!((found.len(), done(reported)), (3, Some((3, 3))));
        let repaired = books.repair().dry_run().on_progress(|at| reported = Some(at)).stream();
        let repaired: Vec<_> = repaired.try_collect().await.unwrap();
        assert_eq!((repaired.len(), done(reported)), (3, Some((3, 3))));
        let migrated = books.migrate_existing().on_progress(|at| reported = Some(at));
        migrated.await.unwrap();
        assert_eq!(done(reported), Some((3, 3)));

        let products: Products = builder(db.database()).build().unwrap();
        let parents = (1..=2500).map(|id| doc! { "_id": id, "name": "Super Widget" });
        product(db).insert_many(parents).await.unwrap();
        products.ensure_indexes().await.unwrap();
        let children = (0..90).map(|n| review_of(1 + n % 9, n, n.into()));
        db.plain_collection("review").insert_many(children).await.unwrap();
        let without_progress: Vec<_> = products.verify().stream().try_collect().await.unwrap();
        let found = products.verify().on_progress(|at| reported = Some(at)).stream();
        let found: Vec<_> = found.try_collect().await.unwrap();
        assert_eq!((found.len(), done(reported)), (9, Some((2500, 2500))));
        assert_eq!(found, without_progress);
        let repaired = products.repair().on_progress(|at| reported = Some(at)).stream();
        let repaired: Vec<_> = repaired.try_collect().await.unwrap();
        assert_eq!((repaired.len(), done(reported)), (9, Some((2500, 2500))));

        let patrons = EmbeddedRepository::<Document, Document>::builder(db.collection::<Document>("patron"))
            .children_field("addresses")
            .build()
            .unwrap();
        let parents = (0..2500).map(|id| match id % 1000 {
            7 => doc! { "_id": id },
            _ => doc! { "_id": id, "addresses": [{ "_id": 1 }] },
        });
        stored(db).insert_many(parents).await.unwrap();
        let without_progress: Vec<_> = patrons.verify().stream().try_collect().await.unwrap();
        let found = patrons.verify().on_progress(|at| reported = Some(at)).stream();
        let found: Vec<_> = found.try_collect().await.unwrap();
        assert_eq!((found.len(), done(reported)), (3, Some((2500, 2500))));
        assert_eq!(found, without_progress);
        let references = (0..1500).map(|id| referring(id, id + 1005));
        addresses(db).insert_many(references).await.unwrap();
        let source = db.collection::<Document>("address");
        let orphans = patrons
            .orphans(&source, "patron_id")
            .on_progress(|at| reported = Some(at));
        let orphans: Vec<_> = orphans.stream().try_collect().await.unwrap();
        assert_eq!((orphans.len(), done(reported)), (5, Some((1500, 1500))));
    })
    .await;
}
