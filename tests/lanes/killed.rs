//! A service whose calls for a held document are dropped, and which is then killed.

use mongo_patterns_testkit as testkit;
use mongodb::bson::Document;

use crate::lanes::process::Process;
use support::lanes::*;

/// How many requests for the held document are dropped, and how many for a free one succeed, before the kill.
const DROPPED: usize = 15;
const SUCCEEDED: usize = 15;

async fn check(operation: &'static Operation) {
    testkit::run(async |db| {
        prepare(db, operation).await;
        let holder = Holder::hold(db, operation, HELD).await;
        let mut service = Process::start(db, operation, "serve");
        let (mut dropped, mut succeeded) = (0, 0);
        while dropped < DROPPED || succeeded < SUCCEEDED {
            match service.line().await.as_str() {
                "dropped" => dropped += 1,
                "free" => succeeded += 1,
                other => panic!("{other}"),
            }
            if (dropped + succeeded) % 10 == 0 {
                let active = active_for(db, HELD).await;
                assert!(active.len() <= 1, "{active:?}");
            }
        }
        service.kill().await;
        let active: Vec<Document> = active_for(db, HELD).await;
        assert!(active.len() <= 1, "{active:?}");
        holder.release().await;
        // One of the held document, whose command was in flight, and one of the free document.
        let open = end_transactions_of_ended(db).await;
        assert!(open <= 2, "{}: {open} open transactions", operation.name);
        let other = Repositories::new(&db.plain_client().database(db.database().name()));
        let call = operation.run(&other, HELD, FIRST + 9000);
        ends("a call after the kill", call).await.unwrap();
    })
    .await;
}

each! {
    check;
    of_append: "append";
    of_insert: "insert";
    of_update: "update";
    of_update_source: "update_source";
}
