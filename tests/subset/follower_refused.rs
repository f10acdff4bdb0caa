//! Requirements of a follower, and lost changes.

use mongo_patterns::ErrorKind;
use mongo_patterns::subset::{Direction, Subset, SubsetRepository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use support::subset::follower::*;
use support::subset::*;

async fn set_pre_images(db: &TestDatabase, enabled: bool) {
    let images = doc! { "collMod": "review", "changeStreamPreAndPostImages": { "enabled": enabled } };
    let database = db.plain_client().database(db.database().name());
    database.run_command(images).await.unwrap();
}

#[tokio::test]
async fn a_name_belongs_to_one_pair_of_collections_and_fields() {
    testkit::run(async |db| {
        behind(db, 1, 3).await;
        let other = SubsetRepository::<Document, Document>::builder(
            db.collection::<Document>("product"),
            db.collection::<Document>("review"),
        );
        let other = other
            .parent_field("product_id")
            .child_id_field("review_id")
            .subset(Subset::new("newest").order_by("published_date", Direction::Descending))
            .build()
            .unwrap();
        let record = records(db).await;
        let error = other.follow(NAME).run_until_current().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error:?}");
        assert!(
            !error.to_string().contains(NAME) || error.to_string().contains("test_"),
            "{error}"
        );
        assert_eq!(records(db).await, record);
        other.follow("newest").run_until_current().await.unwrap();
        // A follower with another size, order or other embedded fields is the same one.
        let larger: Products = builder_of(db.database(), newest().size(20)).build().unwrap();
        larger.ensure_indexes().replace_settings().await.unwrap();
        assert_eq!(larger.follow(NAME).run_until_current().await.unwrap().changes, 3);
    })
    .await;
}

/// Deletes whose pre-images the server does not have, during the run of a follower.
#[tokio::test]
async fn changes_that_are_lost_while_it_follows_rebuild_all_subsets() {
    testkit::run(async |db| {
        let products = behind(db, 5, 50).await;
        let (more, mut last) = tokio::sync::watch::channel(None);
        let follow = products.follow(NAME).enable_pre_images().on_progress(|at| {
            more.send_replace(Some(at));
        });
        let writes = async {
            last.wait_for(Option::is_some).await.unwrap();
            set_pre_images(db, false).await;
            let some = doc! { "review_id": { "$gte": 10 } };
            assert!(reviews(db).delete_many(some).await.unwrap().deleted_count > 0);
            last.wait_for(|at| at.is_some_and(|at| at.repaired == 1)).await.unwrap();
        };
        tokio::select! {
            ended = async { follow.await } => panic!("{ended:?}"),
            () = writes => {}
        }
        products.follow(NAME).run_until_current().await.unwrap();
        assert_right(db, &products, "while it follows").await;
    })
    .await;
}

#[tokio::test]
async fn a_follower_without_rebuilds_starts_with_later_changes() {
    testkit::run(async |db| {
        let products = followed(db, 2).await;
        write_plainly(&reviews(db), 1, 0, 5).await;
        let follow = || {
            products
                .follow(NAME)
                .enable_pre_images()
                .disable_repair()
                .run_until_current()
        };
        let followed = follow().await.unwrap();
        assert_eq!((followed.repaired, followed.written), (0, 0));
        assert_eq!(count_wrong(db).await, 1);
        let new = to_document(&review_of(2, 9, 9));
        reviews(db).insert_one(new).await.unwrap();
        assert_eq!(follow().await.unwrap().written, 1);
        assert_eq!(
            wrong(&product(db), &reviews(db), 10).await,
            [mongodb::bson::Bson::Int32(1)]
        );
    })
    .await;
}
