//! Dropped calls for a held document do not delay calls for other documents.

use std::time::Duration;

use mongo_patterns_testkit as testkit;

use support::lanes::*;

/// The time-out of a request.
const TIME_OUT: Duration = Duration::from_millis(300);
const ROUNDS: i32 = 3;

async fn check(operation: &Operation) {
    testkit::run(async |db| {
        let repositories = prepare(db, operation).await;
        let [free, _] = FREE;
        operation.run(&repositories, free, FIRST + 1).await.unwrap();
        let normal = db.recorder().names();
        let holder = Holder::hold(db, operation, HELD).await;
        for round in FIRST + 2..FIRST + 2 + ROUNDS {
            let call = operation.run(&repositories, HELD, round);
            let dropped = tokio::time::timeout(TIME_OUT, call).await;
            assert!(dropped.is_err(), "round {round}: {dropped:?}");
            assert!(in_flight(db, HELD) <= 1, "round {round}");
            let before = db.recorder().round_trips();
            let next = operation.run(&repositories, free, round);
            ends("the call for a free document", next).await.unwrap();
            assert_eq!(sent_besides(db, HELD, before), normal, "round {round}");
        }
        assert!(on_server_for(db, HELD).await <= 1);
        holder.release().await;
        let next = operation.run(&repositories, HELD, FIRST + 50);
        ends("the call after the holder", next).await.unwrap();
    })
    .await;
}

macro_rules! tests {
    ($($test:ident: $operation:literal;)+) => {
        $(
            #[tokio::test]
            async fn $test() {
                check(operation($operation)).await;
            }
        )+

        #[test]
        fn every_operation_has_a_test() {
            assert_eq!([$($operation),+], OPERATIONS.each_ref().map(|operation| operation.name));
        }
    };
}

tests! {
    of_append: "append";
    of_append_many: "append_many";
    of_remove_item: "remove_item";
    of_push: "push";
    of_insert: "insert";
    of_update_of_a_child: "update of a child";
    of_update: "update";
    of_add_child: "add_child";
    of_update_source: "update_source";
    of_update_of_a_version: "update of a version";
    of_update_of_an_older_version: "update of an older version";
    of_set_reference: "set_reference";
}
