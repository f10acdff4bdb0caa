//! Where a sharded cluster would send each command of each public operation, if the collections are sharded as documented.
//!
//! Pure: the commands are recorded on a server of one node, and held against the rules by which a router targets them. The
//! table of the operations is that of the faults, which [`complete`](super::complete) keeps complete.

use std::collections::BTreeSet;

use mongo_patterns_testkit::RecordedCommand;
use mongodb::bson::{Bson, Document, doc};

use super::documented_keys::{SHARD_KEYS, UNSHARDED};
use super::routing_rules::{BROADCAST, Broadcast, Route};

impl Broadcast {
    /// Returns whether it has a command of an operation: name of the command, collection and route.
    fn allows(&self, pattern: &str, operation: &str, command: (&str, &str, Route)) -> bool {
        let of_call = operation.split_once("::").is_some_and(|(_, function)| {
            let end = function.find([',', ' ']).unwrap_or(function.len());
            function[..end] == *self.call
        });
        self.pattern == pattern && of_call && self.commands.contains(&command)
    }
}

/// Commands that read or change no documents, or continue another command.
#[rustfmt::skip] // several in a line
const WITHOUT_DOCUMENTS: [&str; 13] = [
    "abortTransaction", "collMod", "commitTransaction", "create", "createIndexes", "drop", "dropIndexes",
    "endSessions", "getMore", "hello", "killCursors", "listCollections", "listIndexes",
];

/// Returns the collection of a command and the route to it. `None` for a command without documents.
fn route(command: &RecordedCommand) -> Option<(String, Route)> {
    if WITHOUT_DOCUMENTS.contains(&command.name.as_str()) {
        return None;
    }
    // An aggregation of the server's operations has no collection.
    let collection = command.command.get_str(&command.name).ok()?.to_owned();
    let Some((_, key)) = SHARD_KEYS.iter().find(|(name, _)| *name == collection) else {
        return Some((collection, Route::All));
    };
    let statements = |field: &str| -> Vec<Document> {
        let statements = command.command.get_array(field).unwrap();
        statements
            .iter()
            .map(|one| one.as_document().unwrap().clone())
            .collect()
    };
    let command = &command.command;
    let worst = |routes: Vec<Route>| routes.into_iter().max().expect("a command has a statement");
    let route = match command.keys().next().unwrap().as_str() {
        "find" => of_filter(command.get_document("filter").unwrap_or(&Document::new()), key),
        // `estimatedDocumentCount`.
        "count" => Route::All,
        "aggregate" => of_pipeline(&statements("pipeline"), key),
        "insert" => {
            assert!(
                statements("documents").iter().all(|document| has(document, key)),
                "a document without its shard key: {command}"
            );
            Route::One
        }
        "findAndModify" => of_write(command.get_document("query").unwrap(), key, true, true),
        "update" => worst(
            statements("updates")
                .iter()
                .map(|one| {
                    let is_upsert = one.get_bool("upsert").unwrap_or(false);
                    let is_one = !one.get_bool("multi").unwrap_or(false);
                    of_write(one.get_document("q").unwrap(), key, is_one, is_upsert)
                })
                .collect(),
        ),
        "delete" => worst(
            statements("deletes")
                .iter()
                .map(|one| {
                    let is_one = one.get("limit").and_then(Bson::as_i32) == Some(1);
                    of_write(one.get_document("q").unwrap(), key, is_one, false)
                })
                .collect(),
        ),
        other => panic!("no rule for the command {other}"),
    };
    Some((collection, route))
}

fn has(document: &Document, key: &str) -> bool {
    match key.split_once('.') {
        None => document.contains_key(key),
        Some((field, rest)) => document.get_document(field).is_ok_and(|inner| has(inner, rest)),
    }
}

/// The first stages, as far as they filter.
fn of_pipeline(stages: &[Document], key: &str) -> Route {
    let filters = stages.iter().map_while(|stage| stage.get_document("$match").ok());
    filters.map(|filter| of_filter(filter, key)).min().unwrap_or(Route::All)
}

/// A write of one document needs its shard, for which an update or a delete may have the `_id` instead. An upsert and a
/// `findAndModify` may not.
fn of_write(filter: &Document, key: &str, is_one: bool, needs_key: bool) -> Route {
    match of_filter(filter, key) {
        Route::One => Route::One,
        _ if is_one && (needs_key || of_filter(filter, "_id") != Route::One) => Route::Refused,
        other => other,
    }
}

/// Bounds on the shard key: an equality, a list, an `$and` with either, or an `$or` of which all branches have one.
fn of_filter(filter: &Document, key: &str) -> Route {
    let of_branch = |branch: &Bson| branch.as_document().map_or(Route::All, |branch| of_filter(branch, key));
    let of_field = |(field, condition): (&String, &Bson)| match (field.as_str(), condition) {
        (field, condition) if field == key => of_condition(condition),
        ("$and", Bson::Array(branches)) => branches.iter().map(of_branch).min().unwrap_or(Route::All),
        ("$or", Bson::Array(branches)) => {
            let worst = branches.iter().map(of_branch).max().unwrap_or(Route::All);
            worst.max(Route::Listed)
        }
        _ => Route::All,
    };
    filter.iter().map(of_field).min().unwrap_or(Route::All)
}

fn of_condition(condition: &Bson) -> Route {
    match condition {
        Bson::RegularExpression(_) => Route::All,
        Bson::Document(operators) if operators.keys().any(|name| name.starts_with('$')) => {
            match (operators.get("$eq"), operators.get_array("$in")) {
                (Some(_), _) => Route::One,
                (None, Ok(_)) => Route::Listed,
                _ => Route::All,
            }
        }
        _ => Route::One,
    }
}

/// The commands of operations that reach several shards.
#[derive(Default)]
pub(super) struct Routes {
    /// The rules that were used.
    used: BTreeSet<usize>,
    broken: BTreeSet<String>,
}

impl Routes {
    /// Adds the commands of an operation.
    pub(super) fn add(&mut self, pattern: &str, operation: &str, commands: &[RecordedCommand]) {
        for command in commands {
            let Some((collection, route)) = route(command) else {
                continue;
            };
            if route == Route::One || UNSHARDED.iter().any(|(unsharded, _)| collection.starts_with(unsharded)) {
                continue;
            }
            let row = (command.name.as_str(), collection.as_str(), route);
            let rule = |rule: &Broadcast| rule.allows(pattern, operation, row);
            match BROADCAST.iter().position(rule) {
                Some(rule) => drop(self.used.insert(rule)),
                None => drop(
                    self.broken
                        .insert(format!("{pattern} {operation}, {row:?}: {}", command.essence())),
                ),
            }
        }
    }

    /// Checks that every command of all operations reaches one shard or has a reason, and that each reason has a command.
    pub(super) fn check(&self) {
        assert!(
            self.broken.is_empty(),
            "these commands reach several shards without a rule: {:#?}",
            self.broken
        );
        assert!(BROADCAST.iter().all(|rule| !rule.reason.is_empty()));
        let unused: Vec<&Broadcast> = BROADCAST
            .iter()
            .enumerate()
            .filter(|(number, _)| !self.used.contains(number))
            .map(|(_, rule)| rule)
            .collect();
        assert!(unused.is_empty(), "no command needs these rules: {unused:#?}");
    }
}

#[test]
fn a_filter_targets_the_shards_of_its_bounds() {
    use mongodb::bson::{Regex, cstr};
    let regex = Regex {
        pattern: cstr!("^1_").into(),
        options: cstr!("").into(),
    };
    for (filter, expected) in [
        (doc! { "k": 1 }, Route::One),
        (doc! { "k": { "$eq": { "$gt": 1 } } }, Route::One),
        (doc! { "k": { "a": 1 } }, Route::One),
        (doc! { "k": { "$in": [1, 2] } }, Route::Listed),
        (doc! { "k": { "$gt": 1 } }, Route::All),
        (doc! { "k": regex.clone() }, Route::All),
        (doc! { "_id": regex }, Route::All),
        (doc! {}, Route::All),
        (doc! { "$and": [{ "a": 1 }, { "k": 1 }] }, Route::One),
        (doc! { "$or": [{ "k": 1 }, { "k": 2 }] }, Route::Listed),
        (doc! { "$or": [{ "k": 1 }, { "_id": 2 }] }, Route::All),
        (doc! { "$or": [{ "_id": 1 }, { "_id": 2 }], "k": 1 }, Route::One),
    ] {
        assert_eq!(of_filter(&filter, "k"), expected, "{filter}");
    }
    let by_id = doc! { "_id": 1 };
    assert_eq!(of_write(&by_id, "k", true, false), Route::All);
    assert_eq!(of_write(&by_id, "k", true, true), Route::Refused);
    assert_eq!(of_write(&doc! { "a": 1 }, "k", true, false), Route::Refused);
    assert_eq!(of_write(&doc! { "a": 1 }, "k", false, false), Route::All);
    assert_eq!(of_write(&doc! { "k": 1 }, "k", true, true), Route::One);
    assert_eq!(
        of_pipeline(&[doc! { "$match": { "a": 1 } }, doc! { "$match": { "k": 1 } }], "k"),
        Route::One
    );
    assert_eq!(
        of_pipeline(&[doc! { "$project": { "k": 1 } }, doc! { "$match": { "k": 1 } }], "k"),
        Route::All
    );
}

/// The settings of calls by which they concern one key or document: the table of the operations has the calls only.
#[tokio::test]
async fn a_call_that_is_restricted_to_one_key_reaches_its_shards() {
    use futures::TryStreamExt;
    use support::common::{builder, plain, ready, spread};
    mongo_patterns_testkit::run(async |db| {
        let routes = || -> Vec<Route> {
            let commands = db.recorder().commands();
            db.recorder().clear();
            let routes = commands.iter().filter_map(route);
            // The catalog is not sharded.
            let routes = routes.filter(|(collection, _)| collection != "mongo_patterns");
            routes.map(|(_, route)| route).collect()
        };
        let books = support::outlier::books(db).await;
        let trades = ready(db, builder(db).item_id_field("n")).await;
        let batch: Vec<_> = (0..1200).map(spread).collect();
        trades.append_many(&123, &batch).await.unwrap();
        assert!(routes().iter().all(|route| *route == Route::One));

        let mut session = db.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let later: Vec<_> = (1200..2400).map(spread).collect();
        trades.append_many(&123, &later).session(&mut session).await.unwrap();
        session.commit_transaction().await.unwrap();
        assert!(routes().iter().all(|route| *route == Route::One));

        for n in [3, 1205] {
            assert!(trades.remove_item(&123, n).await.unwrap().found);
        }
        assert!(routes().iter().all(|route| *route == Route::One));

        trades.items(&123).limit(30).page().await.unwrap();
        trades.newest(&123, 25).await.unwrap();
        assert!(routes().iter().all(|route| *route == Route::One));

        // Every value that the key field of a bucket with its `_id` can have.
        let findings: Vec<_> = trades.verify_key(&123).stream().try_collect().await.unwrap();
        assert!(findings.is_empty());
        assert_eq!(routes(), [Route::Listed]);
        plain(db)
            .update_one(doc! { "_id": { "$gt": "" } }, doc! { "$set": { "count": 12 } })
            .await
            .unwrap();
        let findings: Vec<_> = trades.verify_key(&123).stream().try_collect().await.unwrap();
        assert_eq!(findings.len(), 1);
        assert_eq!(routes(), [Route::Listed; 2]);
        let repaired: Vec<_> = trades.repair_key(&123).stream().try_collect().await.unwrap();
        assert_eq!(repaired.len(), 1);
        let repair = routes();
        // Scan, read, delete, insert, check.
        assert_eq!(repair, [Route::Listed, Route::All, Route::One, Route::One, Route::All]);

        books.insert(&support::outlier::book(2, 60)).await.unwrap();
        db.recorder().clear();
        let found: Vec<_> = books.verify_document(2).stream().try_collect().await.unwrap();
        assert!(found.is_empty());
        let repaired: Vec<_> = books.repair_document(2).stream().try_collect().await.unwrap();
        assert!(repaired.is_empty());
        books.elements(2).skip(55).limit(3).await.unwrap();
        let of_book = routes();
        assert!(
            !of_book.is_empty() && of_book.iter().all(|route| *route == Route::One),
            "{of_book:?}"
        );
        // Without a document, a verify reads the whole collection.
        let found: Vec<_> = books.verify().stream().try_collect().await.unwrap();
        assert!(found.is_empty());
        assert_eq!(routes(), [Route::All]);
    })
    .await;
}
