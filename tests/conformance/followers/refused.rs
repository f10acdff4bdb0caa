//! A follower that cannot begin, that ends with an error, or that has lost changes.

use mongo_patterns::ErrorKind;
use mongo_patterns_testkit::FailPoint;
use mongodb::bson::{Document, doc};
use mongodb::options::{DatabaseOptions, ReadConcern, WriteConcern};

use super::for_each;
use super::model::{Case, How, NAME};
use support::common::{contents, dropped_commands, until};

const WITHOUT_REPAIR: How = How {
    is_endless: false,
    is_without_repair: true,
    leaves_pre_images: false,
    max_retry_time: None,
};

impl Case<'_> {
    async fn set_pre_images(&self, enabled: bool) {
        let watched = self.follower.watched[0];
        let images = doc! { "collMod": watched, "changeStreamPreAndPostImages": { "enabled": enabled } };
        self.plain().run_command(images).await.unwrap();
    }

    async fn rename(&self, from: &str, to: &str) {
        let full = |name: &str| format!("{}.{name}", self.db.database().name());
        let rename = doc! { "renameCollection": full(from), "to": full(to), "dropTarget": true };
        let admin = self.db.plain_client().database("admin");
        admin.run_command(rename).await.unwrap();
    }
}

#[tokio::test]
async fn a_missing_index_is_refused_and_nothing_is_written() {
    for_each(async |db, follower| {
        let case = Case { db, follower };
        case.begin().await;
        (follower.write_plainly)(db, 1).await;
        for name in case.plain().list_collection_names().await.unwrap() {
            db.plain_collection::<Document>(&name).drop_indexes().await.unwrap();
        }
        let before = contents(db).await;
        let error = case.follow(How::default()).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.operation()),
            (ErrorKind::IndexMissing, Some("follow"))
        );
        assert_eq!(contents(db).await, before);
        let repository = (follower.repository)(db.database());
        repository.ensure_indexes().await.unwrap();
        assert_eq!(case.until_current().await.repaired, 0);
        (follower.check)(db, "with the indexes").await;
    })
    .await;
}

#[tokio::test]
async fn an_invalid_position_is_refused() {
    for_each(async |db, follower| {
        let case = Case { db, follower };
        case.begin().await;
        let positions = db.plain_collection::<Document>("mongo_patterns");
        let wrong = doc! { "$set": { "token": "none" } };
        positions.update_one(doc! { "_id.name": NAME }, wrong).await.unwrap();
        let error = case.follow(How::default()).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.field()),
            (ErrorKind::Corrupt, Some("token")),
            "{error:?}"
        );
    })
    .await;
}

/// Each of its collections ends it, and no other one.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn only_its_own_collections_end_it_when_they_are_dropped() {
    for_each(async |db, follower| {
        let case = Case { db, follower };
        for watched in follower.watched {
            for by in 0..4 {
                case.begin().await;
                case.plain().create_collection("others").await.unwrap();
                match by {
                    0 => {
                        // Those of the other collection.
                        case.rename("others", "moved").await;
                        db.plain_collection::<Document>("moved").drop().await.unwrap();
                        assert_eq!(case.until_current().await.changes, 0);
                        continue;
                    }
                    1 => db.plain_collection::<Document>(watched).drop().await.unwrap(),
                    2 => case.rename(watched, "others").await,
                    _ => case.rename("others", watched).await,
                }
                let repository = (follower.repository)(db.database());
                repository.ensure_indexes().await.unwrap();
                let error = case.follow(How::default()).await.unwrap_err();
                let context = format!("{} {watched} {by}: {error:?}", follower.name);
                assert_eq!(error.kind(), ErrorKind::CollectionDropped, "{context}");
                assert_eq!(case.records().await, Vec::<Document>::new(), "{context}");
                assert_eq!(case.until_current().await.repaired, 1, "{context}");
                (follower.check)(db, &context).await;
            }
        }
    })
    .await;
}

/// The errors of a server whose oplog does not reach back to the position.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_position_older_than_the_oplog_is_lost() {
    for_each(async |db, follower| {
        let case = Case { db, follower };
        for (command, code) in [("aggregate", 286), ("aggregate", 280), ("getMore", 136)] {
            case.begin().await;
            let context = format!("{} {code}", follower.name);
            (follower.write_plainly)(db, 1).await;
            let fail = FailPoint::on(&[command]).times(1).error_code(code);
            let fault = fail.clone().enable(db).await;
            let error = case.follow(WITHOUT_REPAIR).await.unwrap_err();
            fault.disable().await;
            assert_eq!(error.kind(), ErrorKind::HistoryLost, "{context}: {error:?}");
            assert!(error.as_driver_error().is_some(), "{context}");
            (follower.write_plainly)(db, 2).await;
            let fault = fail.enable(db).await;
            assert_eq!(case.until_current().await.repaired, 1, "{context}");
            fault.disable().await;
            (follower.check)(db, &context).await;

            // It does not repair in an endless loop.
            let fault = FailPoint::on(&["getMore"]).error_code(code).enable(db).await;
            db.recorder().clear();
            let endless = How {
                is_endless: true,
                ..How::default()
            };
            let error = case.follow(endless).await.unwrap_err();
            fault.disable().await;
            assert_eq!(error.kind(), ErrorKind::HistoryLost, "{context}: {error:?}");
            let of_stream = db.recorder().names().into_iter().filter(|name| name == "getMore");
            assert!(of_stream.count() >= 2, "{context}");
        }
    })
    .await;
}

#[tokio::test]
async fn changes_without_pre_images_are_lost() {
    for_each(async |db, follower| {
        let case = Case { db, follower };
        if !follower.needs_pre_images {
            return;
        }
        case.begin().await;
        case.set_pre_images(false).await;
        (follower.write_plainly)(db, 1).await;
        let as_they_are = How {
            leaves_pre_images: true,
            ..How::default()
        };
        let before = contents(db).await;
        let error = case.follow(as_they_are).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PreImagesDisabled, "{error:?}");
        assert!(error.is_setup_error(), "{error:?}");
        assert_eq!(contents(db).await, before, "{}", follower.name);
        for _ in 0..2 {
            let error = case.follow(WITHOUT_REPAIR).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::HistoryLost, "{error:?}");
        }
        assert_eq!(case.until_current().await.repaired, 1, "{}", follower.name);
        (follower.check)(db, "after lost images").await;
        // They stay enabled, and are not set again.
        db.recorder().clear();
        case.until_current().await;
        case.follow(as_they_are).await.unwrap();
        let has_sent = |name: &str| db.recorder().names().iter().any(|sent| sent == name);
        assert!(!has_sent("collMod"));

        // Somebody disables them while it runs: it enables them again, and repairs.
        db.recorder().clear();
        let disabled = async {
            until("the stream", async || has_sent("getMore")).await;
            case.set_pre_images(false).await;
            (follower.write_plainly)(db, 2).await;
            until("the images", async || has_sent("collMod")).await;
        };
        let endless = How {
            is_endless: true,
            ..How::default()
        };
        tokio::select! {
            ended = case.follow(endless) => panic!("{ended:?}"),
            () = disabled => {}
        }
        dropped_commands(db).await;
        case.follow(as_they_are).await.unwrap();
        (follower.check)(db, "disabled while it runs").await;
    })
    .await;
}

/// Read concerns that a change stream does not accept, and a write concern under which a failover rolls back writes.
#[tokio::test]
async fn the_concerns_of_the_collections_do_not_matter() {
    for_each(async |db, follower| {
        let case = Case { db, follower };
        case.begin().await;
        let options = DatabaseOptions::builder()
            .read_concern(ReadConcern::linearizable())
            .write_concern(WriteConcern::nodes(1))
            .build();
        let database = db.client().database_with_options(db.database().name(), options);
        (follower.write_plainly)(db, 1).await;
        db.recorder().clear();
        let followed = (follower.follow)(&database, How::default()).await.unwrap();
        assert!(followed.changes > 0, "{followed:?}");
        (follower.check)(db, follower.name).await;
        let commands = db.recorder().commands();
        let is_write = |name: &str| ["insert", "update", "findAndModify", "commitTransaction"].contains(&name);
        let is_alone =
            |command: &Document| !command.contains_key("autocommit") || command.contains_key("commitTransaction");
        let writes = commands
            .iter()
            .filter(|sent| is_write(&sent.name) && is_alone(&sent.command));
        let majority = doc! { "w": "majority" };
        assert!(writes.clone().count() >= 2, "{commands:?}");
        for write in writes {
            assert_eq!(
                write.command.get_document("writeConcern").unwrap(),
                &majority,
                "{write:?}"
            );
        }
    })
    .await;
}
