//! Requirements of a follower, and lost changes.

use mongo_patterns::ErrorKind;
use mongo_patterns::subset::{Direction, Subset, SubsetRepository};
use mongo_patterns_testkit::{self as testkit, FailPoint, Mongod, MongodOptions, TestDatabase};
use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::options::{CollectionOptions, ReadConcern, WriteConcern};

use crate::subset::follower_support::*;
use crate::subset::support::*;

async fn set_pre_images(db: &TestDatabase, enabled: bool) {
    let images = doc! { "collMod": "review", "changeStreamPreAndPostImages": { "enabled": enabled } };
    let database = db.plain_client().database(db.database().name());
    database.run_command(images).await.unwrap();
}

#[tokio::test]
async fn a_standalone_is_refused() {
    let standalone = Mongod::start(MongodOptions::new().standalone()).await.unwrap();
    let database = Client::with_uri_str(standalone.uri()).await.unwrap().database("test");
    let products: Products = builder(&database).build().unwrap();
    let error = products.follow(NAME).enable_pre_images().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    assert!(error.to_string().contains("replica set"), "{error}");
    assert!(database.list_collection_names().await.unwrap().is_empty());
}

#[tokio::test]
async fn missing_indexes_or_pre_images_are_refused() {
    testkit::run(async |db| {
        let products = followed(db, 1).await;
        write_plainly(&reviews(db), 1, 0, 5).await;
        let error = products.follow(NAME).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PreImagesDisabled, "{error:?}");
        assert!(error.is_setup_error());
        assert_eq!((count_wrong(db).await, records(db).await.len()), (1, 0));

        let by_stars = newest().order_by("stars", Direction::Ascending);
        let other: Products = builder_of(db.database(), by_stars).build().unwrap();
        catalog(db).drop().await.unwrap();
        let error = other.follow(NAME).enable_pre_images().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IndexMissing, "{error:?}");

        products
            .follow(NAME)
            .enable_pre_images()
            .run_until_current()
            .await
            .unwrap();
        // They stay enabled, and are not set again.
        db.recorder().clear();
        products
            .follow(NAME)
            .enable_pre_images()
            .run_until_current()
            .await
            .unwrap();
        assert!(!db.recorder().names().contains(&"collMod".to_owned()));
        products.follow(NAME).run_until_current().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_name_belongs_to_one_pair_of_collections_and_fields() {
    testkit::run(async |db| {
        let products = behind(db, 1, 3).await;
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

        products.ensure_indexes().replace_settings().await.unwrap();
        catalog(db)
            .update_one(doc! { "_id.name": NAME }, doc! { "$set": { "token": "none" } })
            .await
            .unwrap();
        let error = products.follow(NAME).run_until_current().await.unwrap_err();
        assert_eq!((error.kind(), error.field()), (ErrorKind::Corrupt, Some("token")));
    })
    .await;
}

#[tokio::test]
async fn a_dropped_collection_ends_it_and_the_next_one_starts_from_the_beginning() {
    testkit::run(async |db| {
        let products = behind(db, 3, 10).await;
        for rename in [false, true] {
            if rename {
                let admin = db.plain_client().database("admin");
                let (from, to) = (
                    format!("{}.review", db.database().name()),
                    format!("{}.old", db.database().name()),
                );
                admin
                    .run_command(doc! { "renameCollection": from, "to": to })
                    .await
                    .unwrap();
            } else {
                reviews(db).drop().await.unwrap();
            }
            products.ensure_indexes().await.unwrap();
            write_plainly(&reviews(db), 3, 1, 10).await;
            let follow = || products.follow(NAME).enable_pre_images().run_until_current();
            let error = follow().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CollectionDropped, "{error:?}");
            assert_eq!(records(db).await.len(), 0);
            let followed = follow().await.unwrap();
            assert_eq!((followed.repaired, followed.changes), (1, 0));
            assert_right(db, &products, "").await;
            write_plainly(&reviews(db), 3, 2, 10).await;
            assert_eq!(follow().await.unwrap().changes, 10);
            assert_right(db, &products, "").await;
        }
    })
    .await;
}

/// Deletes whose pre-images the server does not have.
#[tokio::test]
async fn lost_changes_rebuild_all_subsets() {
    testkit::run(async |db| {
        let products = behind(db, 20, 200).await;
        products.follow(NAME).run_until_current().await.unwrap();
        write_plainly(&reviews(db), 20, 1, 10).await;
        set_pre_images(db, false).await;
        reviews(db)
            .delete_many(doc! { "review_id": { "$gte": 50, "$lt": 150 } })
            .await
            .unwrap();
        let error = products.follow(NAME).run_until_current().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PreImagesDisabled, "{error:?}");
        set_pre_images(db, true).await;
        write_plainly(&reviews(db), 20, 2, 10).await;
        for _ in 0..2 {
            let error = products
                .follow(NAME)
                .disable_repair()
                .run_until_current()
                .await
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::HistoryLost, "{error:?}");
        }
        assert!(count_wrong(db).await > 0);
        let followed = products.follow(NAME).run_until_current().await.unwrap();
        assert_eq!(followed.repaired, 1);
        assert_right(db, &products, "").await;

        // The same during the run of a follower.
        let mut begun = false;
        let (more, mut last) = tokio::sync::watch::channel(None);
        let follow = products.follow(NAME).enable_pre_images().on_progress(|at| {
            more.send_replace(Some(at));
        });
        let writes = async {
            last.wait_for(Option::is_some).await.unwrap();
            set_pre_images(db, false).await;
            reviews(db)
                .delete_many(doc! { "review_id": { "$gte": 2_000_000 } })
                .await
                .unwrap();
            last.wait_for(|at| at.is_some_and(|at| at.repaired == 1)).await.unwrap();
            begun = true;
        };
        tokio::select! {
            ended = async { follow.await } => panic!("{ended:?}"),
            () = writes => {}
        }
        assert!(begun);
        products.follow(NAME).run_until_current().await.unwrap();
        assert_right(db, &products, "while it follows").await;
    })
    .await;
}

/// A position that is older than the oplog: the server's errors.
#[tokio::test]
async fn a_position_older_than_the_oplog_is_lost() {
    testkit::run(async |db| {
        for (commands, code) in [(["aggregate"], 286), (["aggregate"], 280), (["getMore"], 136)] {
            let products = behind(db, 5, 50).await;
            let follow = || products.follow(NAME).run_until_current();
            let fail = FailPoint::on(&commands).times(1).error_code(code);
            let fault = fail.clone().enable(db).await;
            let error = follow().disable_repair().await.unwrap_err();
            fault.disable().await;
            assert_eq!(error.kind(), ErrorKind::HistoryLost, "{error:?}");
            assert!(error.as_driver_error().is_some());
            // Changes before the lost position are processed.
            assert_eq!(count_wrong(db).await == 0, commands == ["getMore"]);
            write_plainly(&reviews(db), 5, 1, 5).await;
            let fault = fail.enable(db).await;
            let followed = follow().await.unwrap();
            fault.disable().await;
            assert_eq!(followed.repaired, 1, "{code}");
            assert_right(db, &products, "").await;

            // It does not rebuild in an endless loop.
            let fault = FailPoint::on(&["getMore"]).error_code(code).enable(db).await;
            db.recorder().clear();
            let error = products.follow(NAME).await.unwrap_err();
            fault.disable().await;
            assert_eq!(error.kind(), ErrorKind::HistoryLost, "{error:?}");
            let names = db.recorder().names();
            assert_eq!(names.iter().filter(|name| *name == "getMore").count(), 2, "{names:?}");
        }
        let products = behind(db, 1, 1).await;
        let fault = FailPoint::on(&["aggregate"]).error_code(280).enable(db).await;
        let error = products.follow(NAME).await.unwrap_err();
        fault.disable().await;
        assert_eq!(error.kind(), ErrorKind::HistoryLost, "{error:?}");
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
        let new = mongodb::bson::serialize_to_document(&review_of(2, 9, 9)).unwrap();
        reviews(db).insert_one(new).await.unwrap();
        assert_eq!(follow().await.unwrap().written, 1);
        assert_eq!(
            wrong(&product(db), &reviews(db), 10).await,
            [mongodb::bson::Bson::Int32(1)]
        );
    })
    .await;
}

/// Read concerns that a change stream does not accept, and a write concern under which a failover rolls back writes.
#[tokio::test]
async fn the_concerns_of_the_collections_do_not_matter() {
    testkit::run(async |db| {
        behind(db, 2, 20).await;
        let options = CollectionOptions::builder()
            .read_concern(ReadConcern::linearizable())
            .write_concern(WriteConcern::nodes(1))
            .build();
        let collection = |name: &str| db.database().collection_with_options::<Document>(name, options.clone());
        let products: Products = SubsetRepository::builder(collection("product"), collection("review"))
            .parent_field("product_id")
            .child_id_field("review_id")
            .subset(Subset::new("reviews").order_by("published_date", Direction::Descending))
            .build()
            .unwrap();
        db.recorder().clear();
        assert_eq!(products.follow(NAME).run_until_current().await.unwrap().changes, 20);
        assert_right(db, &products, "").await;
        let updates: Vec<_> = db.recorder().commands();
        let updates = updates.iter().filter(|command| command.name == "update");
        let majority = doc! { "w": "majority" };
        assert!(updates.clone().count() >= 3);
        for update in updates {
            assert_eq!(update.command.get_document("writeConcern").unwrap(), &majority);
        }
    })
    .await;
}
