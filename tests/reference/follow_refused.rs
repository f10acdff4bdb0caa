//! A follower that cannot begin, that ends with an error, or that has lost changes.

use mongo_patterns::ErrorKind;
use mongo_patterns::reference::Reference;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Document, doc};

use support::reference::follow::*;
use support::reference::*;

#[tokio::test]
async fn a_name_belongs_to_collections_and_fields() {
    testkit::run(async |db| {
        let _orders = followed(db, builder(db.database())).await;
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
