//! Tests of the migrations that a service runs at its start.

use mongo_patterns_schema::Migrations;
use mongo_patterns_testkit::{self as testkit, TestDatabase};

use crate::support::*;

#[tokio::test]
async fn the_status_lists_applied_steps_and_a_running_instance() {
    testkit::run(async |db: &TestDatabase| {
        let status = |list: &str| ran(on(db).args(["schema", "status", "--json", "--list", list]));
        assert_eq!(status("default").summary()["applied"], 0);

        let billing = Migrations::new(db.database())
            .list("billing")
            .step("a", async |_| Ok(()));
        billing.run().await.unwrap();
        let listed = status("billing");
        assert_eq!(listed.json()[0]["name"], "a");
        assert!(listed.json()[0]["applied"].as_str().unwrap().contains('T'));
        assert_eq!(listed.summary()["applied"], 1);
        assert!(listed.summary()["running_since"].is_null());
        assert_eq!(status("default").summary()["applied"], 0);

        let (name, uri) = (db.database().name().to_owned(), db.server().uri().to_owned());
        let running = Migrations::new(db.database()).step("b", async move |_| {
            let status = ["--db", &name, "schema", "status", "--json"];
            let shown = ran(program().env("MONGODB_URI", uri).args(status));
            assert!(shown.summary()["running_since"].is_string());
            Ok(())
        });
        running.run().await.unwrap();
        let text = ran(on(db).args(["schema", "status"]));
        assert!(text.out.contains("b: applied at 20"), "{text:?}");
    })
    .await;
}
