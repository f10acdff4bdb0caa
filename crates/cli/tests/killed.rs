//! Moves of the outlier and subset patterns that are killed, and started again, come out as one that is not disturbed.

use std::process::{Command, Stdio};
use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{Document, doc};

use crate::support::*;

/// How many commands of a run are done when it is killed: while it finds out what there is to do, and ever later after.
const MOMENTS: [u32; 10] = [0, 2, 5, 8, 11, 14, 17, 21, 34, 55];
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

/// A name for the program among the clients of the server, and the connection string that has it.
fn named(db: &TestDatabase) -> (String, String) {
    let name = format!("killed-{}", db.app_name());
    let uri = db.server().uri();
    let separator = if uri.contains('?') { '&' } else { '?' };
    let uri = format!("{uri}{separator}appName={name}");
    (name, uri)
}

/// Kills runs of the program, each when the server has one more of its commands than [`MOMENTS`] says, whatever it is.
/// Ends with a run that is done before.
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

/// What the server does by itself when a client has been silent for 60 seconds. Until then others wait.
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
        return; // it would mean all sessions of all tests
    }
    admin.run_command(doc! { "killSessions": sessions }).await.unwrap();
}

/// Documents without the fields that differ from run to run.
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
async fn buckets_that_are_killed_on_their_way_come_out_the_same() {
    testkit::run(async |db| {
        if !can_move(db).await {
            return;
        }
        fill(db, 100, 6000).await;
        let migrate = |collection| {
            let arguments = ["bucket"]
                .into_iter()
                .chain(BUCKETS)
                .chain(["--collection", collection]);
            arguments
                .chain(["migrate", "--chunk-items", "200"])
                .collect::<Vec<&str>>()
        };
        let undisturbed = ran(on(db).args(migrate("expected")));
        assert_eq!(undisturbed.code, Some(0), "{undisturbed:?}");
        kill(db, &migrate("trades")).await;
        let moved = ran(on(db).args(migrate("trades")).arg("--json"));
        assert_eq!(
            (moved.code, &moved.summary()["items"]),
            (Some(0), &6000.into()),
            "{moved:?}"
        );
        assert!(all(db, "trades").await == all(db, "expected").await);
        assert_eq!(bucket(db, &["verify"]).code, Some(0));
    })
    .await;
}

#[tokio::test]
async fn a_subset_that_is_killed_on_its_way_comes_out_the_same() {
    testkit::run(async |db| {
        let product = |id: i32| {
            let reviews: Vec<Document> = (0..id % 9)
                .map(|n| doc! { "_id": id * 10 + n, "review_id": n, "date": n * 7 % 5 })
                .collect();
            doc! { "_id": id, "reviews": reviews }
        };
        let products: Vec<Document> = (0..900).map(product).collect();
        for collection in ["product", "expected"] {
            let collection = db.plain_collection::<Document>(collection);
            collection.insert_many(&products).await.unwrap();
        }
        let migrate = ["migrate", "--from", "embedded", "--chunk-children", "300"];
        let arguments: Vec<&str> = ["subset"].into_iter().chain(REVIEWS).chain(migrate).collect();
        let expected = ["--collection", "expected", "--children-collection", "expected_review"];
        let undisturbed = ran(on(db).args(&arguments).args(expected));
        assert_eq!(undisturbed.code, Some(0), "{undisturbed:?}");
        kill(db, &arguments).await;
        let moved = ran(on(db).args(&arguments));
        assert_eq!(moved.code, Some(0), "{moved:?}");
        let by_id = || doc! { "_id": 1 };
        let version = ["reviews_version"];
        let (parents, children) = ("product", "review");
        assert!(contents(db, parents, by_id(), &version).await == contents(db, "expected", by_id(), &version).await);
        assert!(contents(db, children, by_id(), &[]).await == contents(db, "expected_review", by_id(), &[]).await);
        assert_eq!(ran(on(db).arg("subset").args(REVIEWS).arg("verify")).code, Some(0));
    })
    .await;
}

#[tokio::test]
async fn outliers_that_are_killed_on_their_way_come_out_the_same() {
    testkit::run(async |db| {
        let book = |id: i32| doc! { "_id": id, "customers": (0..id % 30).collect::<Vec<i32>>() };
        let books: Vec<Document> = (0..90).map(book).collect();
        for collection in ["sales", "expected"] {
            let collection = db.plain_collection::<Document>(collection);
            collection.insert_many(&books).await.unwrap();
        }
        let arguments = |collection| {
            let settings = ["--array", "customers", "--threshold", "5", "--cap", "10"];
            ["outlier", "--collection", collection].into_iter().chain(settings)
        };
        let undisturbed = ran(on(db).args(arguments("expected")).arg("migrate"));
        assert_eq!(undisturbed.code, Some(0), "{undisturbed:?}");
        let migrate: Vec<&str> = arguments("sales").chain(["migrate"]).collect();
        kill(db, &migrate).await;
        let moved = ran(on(db).args(&migrate));
        assert_eq!(moved.code, Some(0), "{moved:?}");
        let by_id = || doc! { "_id": 1 };
        assert!(contents(db, "sales", by_id(), &[]).await == contents(db, "expected", by_id(), &[]).await);
        let by_place = || doc! { "parent_id": 1, "seq": 1 };
        let (extras, expected) = ("sales_extras", "expected_extras");
        assert!(contents(db, extras, by_place(), &["_id"]).await == contents(db, expected, by_place(), &["_id"]).await);
        assert_eq!(ran(on(db).args(arguments("sales")).arg("verify")).code, Some(0));
    })
    .await;
}

/// Documents are under way when it stops. The driver aborts their transactions, unless their first command was still on
/// its way then: those the server ends by itself, as where the program is killed.
#[cfg(unix)]
#[tokio::test]
async fn what_is_stopped_by_ctrl_c_goes_on_when_it_is_started_again() {
    use std::io::{BufRead, BufReader};

    testkit::run(async |db| {
        let book = |id: i32| doc! { "_id": id, "customers": (0..20).map(|n| n + id).collect::<Vec<i32>>() };
        let sales = db.plain_collection::<Document>("sales");
        sales.insert_many((0..1000).map(book)).await.unwrap();
        let settings = ["--collection", "sales", "--array", "customers", "--threshold", "5"];
        let (name, uri) = named(db);
        let mut program: Command = on(db);
        program
            .env("MONGODB_URI", &uri)
            .arg("outlier")
            .args(settings)
            .arg("migrate");
        let mut child = program.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        assert!(first.contains("of 1,000 long lists"), "{first}");
        let stop = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(stop.unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(130));
        let last = lines.last().unwrap().unwrap();
        assert!(last.contains("goes on from there"), "{last}");
        end_transactions(db, &name).await;
        let flagged = sales.count_documents(doc! { "has_extras": true }).await.unwrap();
        assert!(flagged < 1000, "it was stopped, and all are done");
        let rest = ran(on(db).arg("outlier").args(settings).args(["migrate", "--json"]));
        assert_eq!(
            (rest.code, rest.summary()["documents"].as_u64()),
            (Some(0), Some(1000 - flagged)),
            "{rest:?}"
        );
    })
    .await;
}
