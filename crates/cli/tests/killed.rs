//! A migration that is killed and resumed has the same result as one that is not. Those of all patterns are killed at their
//! commands by the tests of the library.

use std::process::{Command, Stdio};
use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{Document, doc};

use crate::support::*;

/// The number of commands after which a run is killed: during its checks, and later in each further run.
const MOMENTS: [u32; 8] = [0, 2, 5, 8, 11, 17, 34, 55];
const COMMANDS: [&str; 13] = words(
    "abortTransaction aggregate commitTransaction count create createIndexes delete \
     find findAndModify getMore insert listIndexes update",
);

/// Returns an application name for the program, and a connection string with it.
fn named(db: &TestDatabase) -> (String, String) {
    let name = format!("killed-{}", db.app_name());
    let uri = db.server().uri();
    let separator = if uri.contains('?') { '&' } else { '?' };
    let uri = format!("{uri}{separator}appName={name}");
    (name, uri)
}

/// Kills runs of the program, each after one of the numbers of commands in [`MOMENTS`]. Ends with a run that finishes
/// first.
async fn kill(db: &TestDatabase, arguments: &[&str]) {
    let (name, uri) = named(db);
    let mut kills = 0;
    for commands in MOMENTS {
        let fault = FailPoint::on(&COMMANDS).skip(commands).block(Duration::from_millis(5));
        let fault = fault.with("appName", name.as_str()).enable(db).await;
        let mut program: Command = through(db, &uri);
        program.args(arguments);
        let mut child = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let ended = loop {
            if fault.met(db, Duration::from_millis(200)).await {
                break false;
            }
            if child.try_wait().unwrap().is_some() {
                break true;
            }
        };
        child.kill().unwrap();
        child.wait().unwrap();
        fault.disable().await;
        end_transactions(db, &name).await;
        if ended {
            break;
        }
        kills += 1;
    }
    assert!(kills >= 5, "{kills} kills");
}

/// Aborts the transactions of a killed client at once. The server itself does it after 60 seconds, and other clients
/// wait until then.
async fn end_transactions(db: &TestDatabase, app_name: &str) {
    let of_program = [
        doc! { "$currentOp": { "allUsers": true, "idleSessions": true } },
        doc! { "$match": { "appName": app_name, "transaction": { "$exists": true } } },
        doc! { "$project": { "id": "$lsid.id" } },
    ];
    let admin = db.plain_client().database("admin");
    let found = admin.aggregate(of_program).await.unwrap();
    let sessions: Vec<Document> = found.try_collect().await.unwrap();
    if sessions.is_empty() {
        return; // an empty list would kill the sessions of all tests
    }
    admin.run_command(doc! { "killSessions": sessions }).await.unwrap();
}

#[tokio::test]
async fn a_killed_bucket_migration_resumes_with_the_same_result() {
    testkit::run(async |db| {
        fill(db, 50, 3000).await;
        let migrate = |collection| {
            let arguments = ["bucket"]
                .into_iter()
                .chain(BUCKETS)
                .chain(["--collection", collection]);
            arguments.chain(["migrate", "--chunk", "100"]).collect::<Vec<&str>>()
        };
        ran(on(db).args(migrate("expected"))).ok();
        kill(db, &migrate("trades")).await;
        ran(on(db).args(migrate("trades")).arg("--json")).ends(0, json!({ "items": 3000 }));
        assert!(all(db, "trades").await == all(db, "expected").await);
        bucket(db, &["verify"]).ok();
    })
    .await;
}

/// Documents are in flight when the program stops. The driver aborts their transactions, unless their first command was
/// still in flight. The server ends those after a timeout, as for a killed program.
#[cfg(unix)]
#[tokio::test]
async fn an_outlier_migration_stops_at_ctrl_c_and_resumes() {
    use std::io::{BufRead, BufReader};

    testkit::run(async |db| {
        let book = |id: i32| doc! { "_id": id, "customers": (0..20).map(|n| n + id).collect::<Vec<i32>>() };
        insert(db, "sales", (0..300).map(book)).await;
        let settings = ["--collection", "sales", "--array", "customers", "--threshold", "5"];
        let (name, uri) = named(db);
        let mut program: Command = through(db, &uri);
        program.arg("outlier").args(settings);
        program.arg("migrate");
        let mut child = program.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        assert!(first.contains("of 300 long lists"), "{first}");
        assert_eq!(interrupt(&mut child), Some(130));
        let last = lines.last().unwrap().unwrap();
        assert!(last.contains("run the command again"), "{last}");
        end_transactions(db, &name).await;
        let sales = db.plain_collection::<Document>("sales");
        let flagged = sales.count_documents(doc! { "has_extras": true }).await.unwrap();
        assert!(flagged < 300, "the migration was stopped, but all documents are done");
        ran(on(db).arg("outlier").args(settings).args(["migrate", "--json"]))
            .ends(0, json!({ "documents": 300 - flagged }));
        ran(on(db).arg("outlier").args(settings).arg("verify")).ok();
    })
    .await;
}
