//! Releases with different lists: a rolling deployment, and lists that contradict what is applied.

use mongo_patterns::ErrorKind;
use mongo_patterns_testkit as testkit;

use crate::schema::support::*;

/// The older release starts again after the newer one has run its steps.
#[tokio::test]
async fn an_older_release_starts_and_runs_nothing() {
    testkit::run(async |db| {
        let older = || list(db.database(), &["a", "b"]);
        older().run().await.unwrap();
        list(db.database(), &["a", "b", "c"]).run().await.unwrap();
        db.recorder().clear();
        let applied = older().run().await.unwrap();
        assert_eq!((applied.steps.len(), applied.unknown), (0, vec!["c".to_owned()]));
        assert_eq!(db.recorder().names(), ["find"]);
        assert_eq!(traces(db).await, ["a", "b", "c"]);
    })
    .await;
}

#[tokio::test]
async fn old_steps_can_be_deleted_from_the_list() {
    testkit::run(async |db| {
        list(db.database(), &["a", "b", "c"]).run().await.unwrap();
        let applied = list(db.database(), &["c", "d"]).run().await.unwrap();
        assert_eq!(
            (applied.steps, applied.unknown),
            (vec!["d".to_owned()], vec!["a".to_owned(), "b".to_owned()])
        );
        assert_eq!(recorded(db).await, ["a", "b", "c", "d"]);
    })
    .await;
}

#[tokio::test]
async fn a_list_that_contradicts_the_applied_steps_runs_nothing() {
    testkit::run(async |db| {
        list(db.database(), &["a", "b"]).run().await.unwrap();
        let before = record(db).await;
        for (names, step) in [
            (&["a", "new", "b"][..], "new"),
            (&["new", "a", "b", "c"], "new"),
            (&["a", "c"], "c"), // an older release with a step of its own
            (&["c"], "c"),      // another service
        ] {
            db.recorder().clear();
            let error = list(db.database(), names).run().await.unwrap_err();
            assert_error(&error, ErrorKind::SettingsMismatch, Some(step));
            assert!(error.is_setup_error());
            assert_eq!(db.recorder().names(), ["find"], "{names:?}");
            let error = list(db.database(), names).status().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::SettingsMismatch, "{error:?}");
        }
        assert_eq!(
            (record(db).await, traces(db).await),
            (before, vec!["a".to_owned(), "b".to_owned()])
        );
    })
    .await;
}

#[tokio::test]
async fn two_services_have_lists_of_their_own() {
    testkit::run(async |db| {
        list(db.database(), &["a"]).run().await.unwrap();
        let billing = list(db.database(), &["a", "x"]).list("billing").run().await.unwrap();
        assert_eq!(
            (billing.steps, billing.unknown.len()),
            (vec!["a".to_owned(), "x".to_owned()], 0)
        );
        assert_eq!(traces(db).await, ["a", "a", "x"]);
    })
    .await;
}
