//! Releases with different lists: a rolling deployment, and lists that contradict what is applied.

use mongo_patterns::ErrorKind;
use mongo_patterns_testkit as testkit;

use support::schema::steps::*;

/// The older release starts again after the newer one has run its steps, and a later one no longer has the old steps.
#[tokio::test]
async fn releases_with_fewer_steps_run_none_of_the_others() {
    testkit::run(async |db| {
        let older = || list(db.database(), &["a", "b"]);
        older().run().await.unwrap();
        list(db.database(), &["a", "b", "c"]).run().await.unwrap();
        db.recorder().clear();
        let applied = older().run().await.unwrap();
        assert_eq!((applied.steps.len(), applied.unknown), (0, vec!["c".to_owned()]));
        assert_eq!(db.recorder().names(), ["find"]);
        let applied = list(db.database(), &["c", "d"]).run().await.unwrap();
        assert_eq!(applied.steps, ["d"]);
        assert_eq!(applied.unknown, ["a", "b"]);
        assert_eq!(recorded(db).await, ["a", "b", "c", "d"]);
        assert_eq!(traces(db).await, ["a", "b", "c", "d"]);
        // Another service has a list of its own.
        let billing = list(db.database(), &["a", "x"]).list("billing").run().await.unwrap();
        assert_eq!(billing.steps, ["a", "x"]);
        assert!(billing.unknown.is_empty());
        assert_eq!(traces(db).await, ["a", "b", "c", "d", "a", "x"]);
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
            (record(db).await, traces(db).await.join(" ")),
            (before, "a b".to_owned())
        );
    })
    .await;
}

/// Two databases that releases of two branches have changed.
#[tokio::test]
async fn a_list_that_is_allowed_to_applies_what_is_missing_in_its_order() {
    testkit::run(async |db| {
        let names = ["a", "g", "h", "b"];
        for (name, applied, missing) in [("one", &["a", "b"], ["g", "h"]), ("other", &["a", "h"], ["g", "b"])] {
            let of = |names: &[&'static str]| list(db.database(), names).list(name);
            of(applied).run().await.unwrap();
            let error = of(&names).run().await.unwrap_err();
            assert_error(&error, ErrorKind::SettingsMismatch, Some("g"));
            assert!(error.to_string().contains("allow_out_of_order"), "{error}");
            let status = of(&names).allow_out_of_order().status().await.unwrap();
            assert_eq!(status.pending, missing);
            let ran = of(&names).allow_out_of_order().run().await.unwrap();
            assert_eq!(ran.steps, missing);
            // Then all lists agree.
            assert_eq!(of(&names).run().await.unwrap().steps, [""; 0]);
            assert_eq!(of(&["a", "g", "h", "b", "c"]).run().await.unwrap().steps, ["c"]);
            // The steps of another service are not those of this list.
            let error = of(&["x"]).allow_out_of_order().run().await.unwrap_err();
            assert_error(&error, ErrorKind::SettingsMismatch, Some("x"));
        }
    })
    .await;
}
