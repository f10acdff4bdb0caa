//! A follower that cannot begin, that ends with an error, or that has lost changes.

use mongo_patterns::ErrorKind;
use mongo_patterns::reference::Reference;
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{Document, doc};
use mongodb::options::{CollectionOptions, ReadConcern, WriteConcern};

use crate::reference::follow_support::*;
use crate::reference::support::*;

async fn rename_collection(db: &TestDatabase, from: &str, to: &str) {
    let full = |name: &str| format!("{}.{name}", db.database().name());
    let rename = doc! { "renameCollection": full(from), "to": full(to), "dropTarget": true };
    db.plain_client().database("admin").run_command(rename).await.unwrap();
}

#[tokio::test]
async fn a_name_belongs_to_collections_and_fields() {
    testkit::run(async |db| {
        let orders = followed(db, builder(db.database())).await;
        let record = records(db).await;
        let payer = || Reference::new("payer").copied_fields(["name"]);
        for other in [
            builder(db.database()).version_field("version"),
            builder(db.database()).add_reference(payer()),
            builder(db.database()).add_referring(db.database().collection::<Document>("invoices"), payer()),
        ] {
            let other = ready(db, other).await;
            let error = other.follow(NAME).run_until_current().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error:?}");
            assert!(error.to_string().contains("another name"), "{error}");
            assert_eq!(records(db).await, record);
        }
        // A follower with other copied fields is the same one, but the catalog has its settings.
        let more = builder(db.database()).copied_fields(["mail"]).build().unwrap();
        let error = more.follow(NAME).run_until_current().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SettingsMismatch, "{error:?}");
        more.ensure_indexes().replace_settings().await.unwrap();
        assert_eq!(follow(&more).await.repaired, 0);
        orders.ensure_indexes().replace_settings().await.unwrap();
        catalog(db)
            .update_one(doc! { "_id.name": NAME }, doc! { "$set": { "token": "none" } })
            .await
            .unwrap();
        let error = orders.follow(NAME).run_until_current().await.unwrap_err();
        assert_eq!((error.kind(), error.field()), (ErrorKind::Corrupt, Some("token")));
    })
    .await;
}

#[tokio::test]
async fn a_missing_index_is_reported_and_nothing_is_written() {
    testkit::run(async |db| {
        followed(db, builder(db.database())).await;
        stored(db).insert_one(order(1, 1)).await.unwrap();
        stored(db).drop_index("customer._id_1_customer.v_1").await.unwrap();
        let before = (contents(db).await, records(db).await);
        let orders = builder(db.database()).build().unwrap();
        let error = orders.follow(NAME).run_until_current().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.operation()),
            (ErrorKind::IndexMissing, Some("follow"))
        );
        assert_eq!((contents(db).await, records(db).await), before);
        orders.ensure_indexes().await.unwrap();
        assert_eq!(corrected(db, &orders, "").await, 1);
    })
    .await;
}

/// Each of its collections ends it, and no other one.
#[tokio::test]
async fn only_its_own_collections_end_it_when_they_are_dropped() {
    testkit::run(async |db| {
        followed(db, of_all_kinds(db)).await;
        for collection in COLLECTIONS {
            for by in 0..4 {
                let orders = followed(db, of_all_kinds(db)).await;
                let other = db.plain_collection::<Document>("others");
                other.drop().await.unwrap();
                other.insert_one(order(1, 1)).await.unwrap();
                match by {
                    0 => {
                        // Those of the other collection.
                        rename_collection(db, "others", "moved").await;
                        db.plain_collection::<Document>("moved").drop().await.unwrap();
                        assert_eq!(follow(&orders).await.changes, 0);
                        continue;
                    }
                    1 => db.plain_collection::<Document>(collection).drop().await.unwrap(),
                    2 => rename_collection(db, collection, "others").await,
                    _ => rename_collection(db, "others", collection).await,
                }
                orders.ensure_indexes().await.unwrap();
                let error = orders.follow(NAME).run_until_current().await.unwrap_err();
                let context = format!("{collection} {by}: {error:?}");
                assert_eq!(error.kind(), ErrorKind::CollectionDropped, "{context}");
                assert_eq!(records(db).await.len(), 0, "{context}");
                assert_eq!(follow(&orders).await.repaired, 1, "{context}");
            }
        }
        let orders = followed(db, of_all_kinds(db)).await;
        db.plain_client().database(db.database().name()).drop().await.unwrap();
        let error = orders.follow(NAME).disable_repair().await.map(drop);
        // Its position was dropped too, so it begins again.
        assert_eq!(error.unwrap_err().kind(), ErrorKind::IndexMissing);
    })
    .await;
}

/// A position that is older than the oplog: the server's errors.
#[tokio::test]
async fn a_position_older_than_the_oplog_is_lost() {
    testkit::run(async |db| {
        for (commands, code) in [(["aggregate"], 286), (["aggregate"], 280), (["getMore"], 136)] {
            let orders = followed(db, builder(db.database())).await;
            let behind = async |id: i32| {
                stored(db).insert_one(order(id, 1)).await.unwrap();
                update_plainly(db, 1, rename(&id.to_string())).await;
            };
            behind(1).await;
            let fail = FailPoint::on(&commands).times(1).error_code(code);
            let fault = fail.clone().enable(db).await;
            let error = orders
                .follow(NAME)
                .run_until_current()
                .disable_repair()
                .await
                .unwrap_err();
            fault.disable().await;
            assert_eq!(error.kind(), ErrorKind::HistoryLost, "{error:?}");
            assert!(error.as_driver_error().is_some());
            behind(2).await;
            let fault = fail.enable(db).await;
            assert_eq!(follow(&orders).await.repaired, 1, "{code}");
            fault.disable().await;
            assert_eq!(findings(&orders).await, []);

            // It does not repair in an endless loop.
            let fault = FailPoint::on(&["getMore"]).error_code(code).enable(db).await;
            let error = orders.follow(NAME).await.unwrap_err();
            fault.disable().await;
            assert_eq!(error.kind(), ErrorKind::HistoryLost, "{error:?}");
        }
    })
    .await;
}

/// The error names the source, and the next follower resumes.
#[tokio::test]
async fn a_document_that_would_become_too_large_ends_it() {
    testkit::run(async |db| {
        let orders = followed(db, builder(db.database())).await;
        let mut large = order(1, 1);
        large.insert("text", "x".repeat(16_777_000));
        stored(db).insert_one(large).await.unwrap();
        for name in ["inserted", "renamed"] {
            update_plainly(db, 1, rename(&name.repeat(50))).await;
            let error = orders.follow(NAME).run_until_current().await.unwrap_err();
            assert_eq!(
                (error.kind(), error.document_id()),
                (ErrorKind::TooLarge, Some(&1.into()))
            );
            assert!(!error.to_string().contains(name), "{error}");
        }
        let text = doc! { "$unset": { "text": "" } };
        stored(db).update_one(doc! { "_id": 1 }, text).await.unwrap();
        assert_eq!(corrected(db, &orders, "smaller").await, 1);
    })
    .await;
}

/// Read concerns that a change stream does not accept, and a write concern under which a failover rolls back writes.
#[tokio::test]
async fn the_concerns_of_the_collections_do_not_matter() {
    testkit::run(async |db| {
        followed(db, builder(db.database())).await;
        let options = CollectionOptions::builder()
            .read_concern(ReadConcern::linearizable())
            .write_concern(WriteConcern::nodes(1))
            .build();
        let collection = |name: &str| db.database().collection_with_options::<Document>(name, options.clone());
        let orders = Orders::builder(collection("orders"), collection("customers"))
            .reference_field("customer")
            .copied_fields(["name", "address"])
            .build()
            .unwrap();
        stored(db).insert_one(order(1, 1)).await.unwrap();
        follow(&orders).await;
        db.recorder().clear();
        update_plainly(db, 1, rename("Bea")).await;
        assert_eq!(follow(&orders).await.written, 1);
        assert_current(db, &orders).await;
        let written = db.recorder().commands();
        let written = written
            .iter()
            .filter(|command| ["update", "findAndModify"].contains(&command.name.as_str()));
        let majority = doc! { "w": "majority" };
        assert!(written.clone().count() >= 3);
        for write in written {
            assert_eq!(write.command.get_document("writeConcern").unwrap(), &majority);
        }
    })
    .await;
}
