//! The session of the chapter "A database that you inherit": all patterns, and one problem of each kind.

use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns_archive::{Archive, Trash};
use mongo_patterns_core::Repository;
use mongo_patterns_counters::Counters;
use mongo_patterns_embedded::EmbeddedRepository;
use mongo_patterns_history::HistoryRepository;
use mongo_patterns_intervals::IntervalRepository;
use mongo_patterns_schema::{Migrations, SchemaRepository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::IndexModel;
use mongodb::bson::{DateTime, Document, doc};
use mongodb::options::IndexOptions;

use crate::status::{follow, needs, status};
use crate::support::*;

const CHAPTER: &str = include_str!("../../../book/src/operations/inherit.md");
const README: &str = include_str!("../../../README.md");
const DAY: i64 = 24 * 60 * 60 * 1000;

fn days_ago(days: i64) -> DateTime {
    DateTime::from_millis(DateTime::now().timestamp_millis() - days * DAY)
}

fn run(db: &TestDatabase, line: &str) -> Ran {
    ran(on(db).args(line.split(' ')))
}

/// Changes a document of the catalog.
async fn in_catalog(db: &TestDatabase, kind: &str, change: Document) {
    update(db, "mongo_patterns", doc! { "_id.kind": kind }, change).await;
}

/// Creates the index of a trash by which the server deletes entries, or one that deletes nothing.
async fn index_of_trash(db: &TestDatabase, deletes: bool) {
    let deleted = db.plain_collection::<Document>("deleted_users");
    deleted.drop_index("expiresAt_1").await.unwrap();
    let options = IndexOptions::builder()
        .expire_after(deletes.then_some(Duration::ZERO))
        .build();
    let index = IndexModel::builder().keys(doc! { "expiresAt": 1 }).options(options);
    deleted.create_index(index.build()).await.unwrap();
}

/// Stores what each pattern manages, as its service or the program sets it up.
async fn fill_shop(db: &TestDatabase) {
    let stored = |name: &str| db.plain_collection::<Document>(name);
    let purchases =
        (0..40).map(|n| doc! { "_id": n, "customerId": n % 4, "date": DateTime::from_millis(SECOND * 1000) });
    insert(db, "purchases", purchases).await;
    index(db, "purchases", doc! { "customerId": 1 }).await;
    let fields = "--key customerId --items history --time date";
    for name in ["trades", "visits"] {
        run(
            db,
            &format!("bucket --collection {name} --flat purchases {fields} migrate"),
        )
        .ok();
    }
    run(
        db,
        &format!("bucket --collection events {fields} --key-type int indexes --create"),
    )
    .ok();
    let book = |id: i32, customers: i32| doc! { "_id": id, "customers": (0..customers).collect::<Vec<_>>() };
    insert(db, "sales", (0..9).map(|id| book(id, 3)).chain([book(9, 70)])).await;
    run(
        db,
        "outlier --collection sales --extras-collection extra_sales --array customers migrate",
    )
    .ok();
    insert(db, "product", [doc! { "_id": 1 }]).await;
    insert(
        db,
        "review",
        (1..6).map(|n| doc! { "product_id": 1, "review_id": n, "date": n }),
    )
    .await;
    let reviews = ["migrate", "--from", "collection"];
    ran(on(db).arg("subset").args(REVIEWS).args(reviews)).ok();
    let patrons = EmbeddedRepository::<Document, Document>::builder(stored("patron")).children_field("addresses");
    patrons.build().unwrap().ensure_indexes().await.unwrap();
    insert(db, "patron", [doc! { "_id": "joe", "addresses": [{ "_id": 1 }] }]).await;
    insert(db, "address", [doc! { "_id": 1, "patron_id": "joe" }]).await;
    let policies = HistoryRepository::<Document>::builder(stored("currentPolicies"), stored("policyRevisions"));
    let policies = policies.id_field("policyId").build().unwrap();
    policies.ensure_indexes().await.unwrap();
    policies.insert(&doc! { "policyId": 1 }).await.unwrap();
    let prices = IntervalRepository::<Document>::builder(stored("prices"))
        .id_field("item")
        .build()
        .unwrap();
    prices.ensure_indexes().await.unwrap();
    prices.insert(&doc! { "item": "pants", "price": 5 }).await.unwrap();
    crate::reference::filled(db).await;
    let contacts = SchemaRepository::<Document>::builder(stored("contacts"))
        .build()
        .unwrap();
    contacts.ensure_indexes().await.unwrap();
    insert(
        db,
        "contacts",
        [doc! {}, doc! { "schemaVersion": 1 }, doc! { "schemaVersion": 2 }],
    )
    .await;
    let invoices = Archive::<Document>::builder(stored("invoices"), stored("archived_invoices"));
    let invoices = invoices
        .age_field("date")
        .older_than(Duration::from_secs(1))
        .build()
        .unwrap();
    invoices.ensure_indexes().await.unwrap();
    insert(db, "invoices", [doc! { "_id": 1, "date": days_ago(400) }]).await;
    let users = Trash::<Document>::builder(stored("users"), stored("deleted_users"));
    let users = users
        .expires_after(Duration::from_secs(30 * 24 * 60 * 60))
        .build()
        .unwrap();
    users.ensure_indexes().await.unwrap();
    insert(db, "users", [doc! { "_id": 1 }]).await;
    let views = Counters::builder(stored("articles")).field("views").build().unwrap();
    views.ensure_indexes().await.unwrap();
    insert(db, "articles", [doc! { "_id": 1, "views": 5_i64 }]).await;
    let steps = Migrations::new(db.database()).step("2026-11-02 email index", async |_| Ok(()));
    steps.run().await.unwrap();
}

/// Makes one problem of each kind.
async fn break_shop(db: &TestDatabase) {
    let stored = |name: &str| db.plain_collection::<Document>(name);
    stored("trades").drop_index("customerId_1_count_lt_10").await.unwrap();
    let of_visits = doc! { "_id": { "kind": "migration", "collection": "visits" } };
    let stopped = doc! { "$unset": { "finished": 1 }, "$set": { "active": days_ago(1) } };
    update(db, "mongo_patterns", of_visits, stopped).await;
    stored("events").drop().await.unwrap();
    let grown = doc! { "$push": { "customers": { "$each": (0..60).collect::<Vec<i32>>() } } };
    update(db, "sales", doc! { "_id": 0 }, grown).await;
    update(db, "product", doc! { "_id": 1 }, doc! { "$set": { "reviews": [] } }).await;
    assert_eq!(run(db, "subset --collection product verify").code, Some(1));
    run(db, "history --collection currentPolicies verify").ok();
    in_catalog(db, "embedded", doc! { "$unset": { "indexes": 1 } }).await;
    update(db, "invoices", doc! {}, doc! { "$rename": { "date": "issued" } }).await;
    index_of_trash(db, false).await;
    let entry = |id: i32| doc! { "document": { "_id": id }, "deletedAt": days_ago(32), "expiresAt": days_ago(2) };
    insert(db, "deleted_users", [entry(7), entry(8)]).await;
    in_catalog(db, "steps", doc! { "$set": { "failed": "2026-11-20 totals" } }).await;
    let follower = doc! {
        "_id": { "kind": "follower", "name": "reviews" }, "settings": { "pattern": "subset" },
        "watched": ["review"], "updated": days_ago(1),
    };
    let other = doc! {
        "_id": { "kind": "outlier", "collection": "articles", "field": "views" },
        "settings": { "array": "views", "threshold": 50 }, "indexes": [],
        "owns": [{ "collection": "articles", "field": "views" }],
    };
    let lease = doc! {
        "_id": { "kind": "lease", "name": "nightly" }, "holder": mongodb::bson::oid::ObjectId::new(),
        "since": DateTime::now(), "until": days_ago(-1),
    };
    insert(db, "mongo_patterns", [follower, other, lease]).await;
}

/// Does by the driver what the advice says.
async fn take_advice(db: &TestDatabase) {
    let catalog = db.plain_collection::<Document>("mongo_patterns");
    let unused =
        doc! { "_id.kind": { "$in": ["bucket", "outlier"] }, "_id.collection": { "$in": ["events", "articles"] } };
    catalog.delete_many(unused).await.unwrap();
    update(db, "invoices", doc! {}, doc! { "$rename": { "issued": "date" } }).await;
    index_of_trash(db, true).await;
    db.plain_collection::<Document>("deleted_users")
        .delete_many(doc! {})
        .await
        .unwrap();
    in_catalog(db, "steps", doc! { "$unset": { "failed": 1 } }).await;
    in_catalog(db, "follower", doc! { "$set": { "updated": DateTime::now() } }).await;
}

/// Returns the words of an output. Times, ids and versions are masked.
fn masked(output: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in output.split_whitespace() {
        let (plain, end) = word.split_at(word.trim_end_matches([',', ';', ':']).len());
        let is_hex = plain.len() == 24 && plain.chars().all(|c| c.is_ascii_hexdigit());
        let is_version = words.last().is_some_and(|last| last == "server");
        let is_time = plain.ends_with('Z') && plain.starts_with("20");
        if plain == "ago" {
            words.truncate(words.len() - 2);
        }
        words.push(match is_hex || is_version || is_time {
            true => format!("..{end}"),
            false => word.to_owned(),
        });
    }
    words
}

/// Returns what the chapter prints after a command.
fn in_chapter(command: &str) -> &'static str {
    let (_, after) = CHAPTER.split_once(&format!("$ {command}\n")).unwrap();
    after.split("```").next().unwrap()
}

#[tokio::test]
async fn each_problem_is_shown_and_its_remedy_works() {
    testkit::run(async |db: &TestDatabase| {
        fill_shop(db).await;
        break_shop(db).await;
        let database = db.plain_client().database(db.database().name());
        database.run_command(doc! { "profile": 2 }).await.unwrap();
        let shown = status(db, &[]);
        database.run_command(doc! { "profile": 0 }).await.unwrap();
        shown.fits_80_columns();
        assert_eq!(shown.code, Some(1), "{shown:?}");
        let out = shown.out.replace(db.database().name(), "shop");
        assert_eq!(masked(&out), masked(in_chapter("mongo-patterns status")), "{out}");

        let by_collection = doc! { "$group": { "_id": "$ns", "commands": { "$sum": 1 } } };
        let of_program =
            doc! { "$match": { "appName": "mongo-patterns", "ns": { "$not": { "$regex": "mongo_patterns|cmd" } } } };
        let profile = db.plain_collection::<Document>("system.profile");
        let sent = profile.aggregate([of_program, by_collection]).await.unwrap();
        let sent: Vec<Document> = sent.try_collect().await.unwrap();
        assert_eq!(sent.len(), 18, "{sent:?}");
        assert!(
            sent.iter().all(|of| (1..=4).contains(&of.get_i32("commands").unwrap())),
            "{sent:?}"
        );

        let readme = README.split_once("$ mongo-patterns --db shop status\n").unwrap().1;
        let all = masked(CHAPTER).join(" ");
        for line in readme
            .split("```")
            .next()
            .unwrap()
            .lines()
            .filter(|line| *line != "...")
        {
            assert!(
                all.contains(&masked(&line.replace(" --db shop", "")).join(" ")),
                "{line}"
            );
        }

        let found = needs(db, 1);
        for need in &found {
            follow(db, need);
        }
        take_advice(db).await;
        assert_eq!(needs(db, 0), Vec::<serde_json::Value>::new());
        let verified = status(db, &["--verify", "--json"]).ok().lines("managed").into_iter();
        let verified = verified.filter(|row| row["verified"]["findings"] == 0);
        assert_eq!(verified.count(), 9);
    })
    .await;
}
