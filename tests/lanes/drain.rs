//! `drain` waits for the commands of dropped calls. It is tested in a process of its own, because it waits for all tasks of
//! a process.

use mongo_patterns_testkit as testkit;

use crate::lanes::process::Process;
use support::lanes::*;

async fn check(operation: &'static Operation) {
    testkit::run(async |db| {
        prepare(db, operation).await;
        let holder = Holder::hold(db, operation, HELD).await;
        let mut service = Process::start(db, operation, "shut down");
        assert_eq!(service.line_besides(&["free"]).await, "drained at once");
        assert_eq!(service.line_besides(&["free", "dropped"]).await, "waits");
        assert_eq!(active_for(db, HELD).await.len(), 1, "the command is in flight");
        holder.release().await;
        assert_eq!(service.line().await, "drained");
        assert_eq!(active_for(db, HELD).await, []);
    })
    .await;
}

each! {
    check;
    of_append: "append";
    of_update_source: "update_source";
}
