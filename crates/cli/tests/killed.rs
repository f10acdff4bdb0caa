//! Migrations of all patterns that are killed and resumed have the same result as one that is not.

use std::process::{Command, Stdio};
use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{Document, doc};

use crate::reference::ORDERS;
use crate::support::*;

/// The number of commands after which a run is killed: during its checks, and later in each further run.
const MOMENTS: [u32; 8] = [0, 2, 5, 8, 11, 17, 34, 55];
const COMMANDS: [&str; 13] = [
    "abortTransaction",
    "aggregate",
    "commitTransaction",
    "count",
    "create",
    "createIndexes",
    "delete",
    "find",
    "findAndModify",
    "getMore",
    "insert",
    "listIndexes",
    "update",
];

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
        let mut program: Command = on(db);
        program.env("MONGODB_URI", &uri).args(arguments);
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

/// Returns the documents without the fields that differ from run to run.
async fn contents(db: &TestDatabase, collection: &str, sort: Document, without: &[&str]) -> Vec<Document> {
    let collection = db.plain_collection::<Document>(collection);
    let documents = collection.find(doc! {}).sort(sort).await.unwrap();
    let mut documents: Vec<Document> = documents.try_collect().await.unwrap();
    for document in &mut documents {
        for field in without {
            document.remove(field);
        }
    }
    documents
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

#[tokio::test]
async fn a_killed_subset_migration_resumes_with_the_same_result() {
    testkit::run(async |db| {
        let product = |id: i32| {
            let reviews: Vec<Document> = (0..id % 9)
                .map(|n| doc! { "_id": id * 10 + n, "review_id": n, "date": n * 7 % 5 })
                .collect();
            doc! { "_id": id, "reviews": reviews }
        };
        for collection in ["product", "expected"] {
            insert(db, collection, (0..450).map(product)).await;
        }
        let migrate = ["migrate", "--from", "embedded", "--chunk", "150"];
        let arguments: Vec<&str> = ["subset"].into_iter().chain(REVIEWS).chain(migrate).collect();
        let expected = ["--collection", "expected", "--children-collection", "expected_review"];
        ran(on(db).args(&arguments).args(expected)).ok();
        kill(db, &arguments).await;
        ran(on(db).args(&arguments)).ok();
        let by_id = || doc! { "_id": 1 };
        let version = ["reviews_version"];
        let (parents, children) = ("product", "review");
        assert!(contents(db, parents, by_id(), &version).await == contents(db, "expected", by_id(), &version).await);
        assert!(contents(db, children, by_id(), &[]).await == contents(db, "expected_review", by_id(), &[]).await);
        ran(on(db).arg("subset").args(REVIEWS).arg("verify")).ok();
    })
    .await;
}

#[tokio::test]
async fn a_killed_outlier_migration_resumes_with_the_same_result() {
    testkit::run(async |db| {
        let book = |id: i32| doc! { "_id": id, "customers": (0..id % 30).collect::<Vec<i32>>() };
        for collection in ["sales", "expected"] {
            insert(db, collection, (0..90).map(book)).await;
        }
        let arguments = |collection| {
            let settings = ["--array", "customers", "--threshold", "5", "--cap", "10"];
            ["outlier", "--collection", collection].into_iter().chain(settings)
        };
        ran(on(db).args(arguments("expected")).arg("migrate")).ok();
        let migrate: Vec<&str> = arguments("sales").chain(["migrate"]).collect();
        kill(db, &migrate).await;
        ran(on(db).args(&migrate)).ok();
        let by_id = || doc! { "_id": 1 };
        assert!(contents(db, "sales", by_id(), &[]).await == contents(db, "expected", by_id(), &[]).await);
        let by_position = || doc! { "parent_id": 1, "seq": 1 };
        let (extras, expected) = ("sales_extras", "expected_extras");
        assert!(
            contents(db, extras, by_position(), &["_id"]).await
                == contents(db, expected, by_position(), &["_id"]).await
        );
        ran(on(db).args(arguments("sales")).arg("verify")).ok();
    })
    .await;
}

#[tokio::test]
async fn a_killed_reference_migration_resumes_with_the_same_result() {
    testkit::run(async |db| {
        let customers = (0..40).map(|id| doc! { "_id": id, "name": format!("customer {id}") });
        insert(db, "customers", customers).await;
        for collection in ["orders", "expected"] {
            insert(
                db,
                collection,
                (0..450).map(|id| doc! { "_id": id, "customerId": id % 40 }),
            )
            .await;
        }
        let migrate = ["migrate", "--from-field", "customer=customerId", "--chunk", "25"];
        let arguments: Vec<&str> = ["reference"].into_iter().chain(ORDERS).chain(migrate).collect();
        ran(on(db).args(&arguments).args(["--collection", "expected"])).ok();
        kill(db, &arguments).await;
        ran(on(db).args(&arguments)).ok();
        assert!(all(db, "orders").await == all(db, "expected").await);
        ran(on(db).arg("reference").args(ORDERS).arg("verify")).ok();
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
        let mut program: Command = on(db);
        program.env("MONGODB_URI", &uri).arg("outlier").args(settings);
        program.arg("migrate");
        let mut child = program.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        assert!(first.contains("of 300 long lists"), "{first}");
        assert_eq!(interrupt(&mut child), Some(130));
        let last = lines.last().unwrap().unwrap();
        assert!(last.contains("again to resume"), "{last}");
        end_transactions(db, &name).await;
        let sales = db.plain_collection::<Document>("sales");
        let flagged = sales.count_documents(doc! { "has_extras": true }).await.unwrap();
        assert!(flagged < 300, "the migration was stopped, but all documents are done");
        ran(on(db).arg("outlier").args(settings).args(["migrate", "--json"]))
            .ends(0, json!({ "documents": 300 - flagged }));
    })
    .await;
}
