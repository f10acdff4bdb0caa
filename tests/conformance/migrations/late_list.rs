//! The list of the documents that a migration skips.

use std::time::Duration;

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::migration::SkipList;
use mongo_patterns_testkit::{self as testkit, FailPoint};
use mongodb::bson::{Document, RawDocumentBuf, doc};

use support::common::{all, dropped_commands};

/// A call is dropped while its deletion is on its way, which the server executes after the next call.
#[tokio::test]
async fn a_late_deletion_of_a_dropped_call_leaves_the_list_of_the_next_one() {
    testkit::run(async |db| {
        let invalid = (0..3).map(|id| doc! { "_id": id });
        db.plain_collection("source").insert_many(invalid).await.unwrap();
        let of = |name: &str| db.collection::<RawDocumentBuf>(name);
        let (source, target, listed) = (of("source"), of("target"), of("skipped"));
        let list = SkipList {
            source: &source,
            target: &target,
            list: &listed,
        };
        let write = || async { list.write(&mut Conn::new(), Vec::new(), "no_id".into()).await.unwrap() };
        write().await;
        let fault = FailPoint::on(&["delete"])
            .times(1)
            .block(Duration::from_secs(2))
            .enable(db)
            .await;
        tokio::select! {
            () = write() => panic!("the deletion was not blocked"),
            is_met = fault.met(db, Duration::from_secs(10)) => assert!(is_met),
        }
        write().await;
        dropped_commands(db).await;
        fault.disable().await;
        let stored = all(&db.plain_collection::<Document>("skipped")).await;
        assert_eq!(stored.len(), 3, "{stored:?}");
    })
    .await;
}
