//! Broken connections.

use mongo_patterns::ErrorKind;
use mongo_patterns_testkit::{self as testkit, FailPoint};
use mongodb::bson::Bson;

use support::embedded::*;

/// The driver retries a write, and the server recognizes that it has executed it.
#[tokio::test]
async fn a_broken_connection_duplicates_nothing() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        plant(db, &patron("joe", [address(1), address(2)])).await;
        for times in [1, 2] {
            let fault = FailPoint::on(&["update"])
                .times(times)
                .close_connection()
                .enable(db)
                .await;
            let added = patrons.add_child("joe", &address(3)).await;
            fault.disable().await;
            if times == 1 {
                added.unwrap();
                assert!(patrons.remove_child("joe", 3).await.unwrap().found);
            } else {
                let error = added.unwrap_err();
                assert!(error.is_outcome_unknown(), "{error}");
                patrons.add_child("joe", &address(3)).await.unwrap();
            }
        }
        assert_eq!(ids(db, "joe").await, [1, 2, 3].map(Bson::from));

        // The write is stored, and reported as unconfirmed. The next call returns `AlreadyExists`.
        let fault = FailPoint::on(&["update"]).write_concern_error(64).enable(db).await;
        let error = patrons.add_child("joe", &address(4)).await.unwrap_err();
        assert!(error.is_outcome_unknown(), "{error}");
        fault.disable().await;
        assert_eq!(
            patrons.add_child("joe", &address(4)).await.unwrap_err().kind(),
            ErrorKind::AlreadyExists
        );
        assert_eq!(ids(db, "joe").await, [1, 2, 3, 4].map(Bson::from));
    })
    .await;
}
