//! The commands of the calls, and what the server examines for them.

use mongo_patterns::reference::OnReferences;
use mongo_patterns_testkit::{self as testkit, TestDatabase, Topology};
use mongodb::bson::{Bson, Document, doc};

use support::explain::explain;
use support::reference::*;

/// Returns the commands since the last call, without what the driver adds and without the token of a deletion.
fn sent(db: &TestDatabase) -> Vec<Document> {
    let commands = db.recorder().commands();
    db.recorder().clear();
    let essence = |command: &mongo_patterns_testkit::RecordedCommand| {
        let Bson::Document(essence) = without_tokens(Bson::Document(command.essence())) else {
            unreachable!("a document stays one");
        };
        essence
    };
    commands.iter().map(essence).collect()
}

fn without_tokens(value: Bson) -> Bson {
    match value {
        Bson::ObjectId(_) => "(token)".into(),
        Bson::Document(document) => {
            let fields = document.into_iter().map(|(name, value)| (name, without_tokens(value)));
            Bson::Document(fields.collect())
        }
        Bson::Array(values) => Bson::Array(values.into_iter().map(without_tokens).collect()),
        other => other,
    }
}

/// Returns the only statement of an update or a delete.
fn statement(command: &Document) -> Document {
    let statements = command.get_array("updates").or_else(|_| command.get_array("deletes"));
    let [Bson::Document(statement)] = &statements.unwrap()[..] else {
        panic!("not one statement: {command}");
    };
    statement.clone()
}

const INDEX: &str = "customer._id_1_customer.v_1";

#[tokio::test]
async fn an_insert_reads_the_customer_before_and_after_it() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        orders.insert(&order(7, 1)).await.unwrap();
        let commands = sent(db);
        let [before, insert, after] = &commands[..] else {
            panic!("{commands:?}");
        };
        for find in [before, after] {
            assert_eq!(find.get_str("find").unwrap(), "customers");
            assert_eq!(find.get_document("filter").unwrap(), &doc! { "_id": { "$eq": 1 } });
            let fields = find.get_document("projection").unwrap();
            let mut names: Vec<&str> = fields.keys().map(String::as_str).collect();
            names.sort_unstable();
            assert_eq!(names, ["address", "mongo_patterns_deleting", "name", "v"]);
        }
        assert_eq!(insert.get_str("insert").unwrap(), "orders");
        assert_eq!(
            insert.get_array("documents").unwrap(),
            &vec![Bson::from(doc! {
                "_id": 7,
                "customer": { "_id": 1, "name": "Ann", "address": { "city": "Dublin" }, "v": 0_i64 },
                "total": 5,
            })]
        );
    })
    .await;
}

#[tokio::test]
async fn an_update_of_a_source_sweeps_older_copies_along_the_index() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        orders.insert(&order(7, 1)).await.unwrap();
        db.recorder().clear();
        let update = doc! { "$set": { "name": "Bea" }, "$unset": { "address": "" } };
        orders.update_source(1, update).await.unwrap();
        let commands = sent(db);
        let [change, sweep] = &commands[..] else {
            panic!("{commands:?}");
        };
        assert_eq!(change.get_str("findAndModify").unwrap(), "customers");
        assert_eq!(change.get_document("query").unwrap(), &doc! { "_id": { "$eq": 1 } });
        assert_eq!(
            change.get_document("update").unwrap(),
            &doc! { "$set": { "name": "Bea" }, "$unset": { "address": "" }, "$inc": { "v": 1_i64 } }
        );
        assert!(change.get_bool("new").unwrap());
        assert_eq!(sweep.get_str("update").unwrap(), "orders");
        assert_eq!(
            statement(sweep),
            doc! {
                "q": { "customer._id": { "$eq": 1 }, "customer.v": { "$not": { "$gte": 1_i64 } } },
                "u": {
                    "$set": { "customer.name": "Bea", "customer.v": 1_i64 },
                    "$unset": { "customer.address": "" },
                },
                "multi": true,
                "hint": INDEX,
            }
        );
    })
    .await;
}

#[tokio::test]
async fn set_reference_does_not_replace_a_newer_copy() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        orders.insert(&order(7, 1)).await.unwrap();
        db.recorder().clear();
        orders.set_reference(7, 2).await.unwrap();
        let newer = doc! { "customer._id": { "$eq": 2 }, "customer.v": { "$gt": 0_i64 } };
        assert_eq!(
            statement(&sent(db)[1]).get_document("q").unwrap(),
            &doc! { "_id": { "$eq": 7 }, "$nor": [newer] }
        );
    })
    .await;
}

#[tokio::test]
async fn a_deletion_marks_the_source_and_deletes_it_with_this_mark() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        orders.delete_source(1).await.unwrap();
        let commands = sent(db);
        let [mark, find, delete] = &commands[..] else {
            panic!("{commands:?}");
        };
        let marked = doc! { "_id": { "$eq": 1 }, "mongo_patterns_deleting": "(token)" };
        assert_eq!(
            statement(mark),
            doc! { "q": { "_id": { "$eq": 1 } }, "u": { "$set": { "mongo_patterns_deleting": "(token)" } } }
        );
        assert_eq!(
            find.get_document("filter").unwrap(),
            &doc! { "customer._id": { "$eq": 1 } }
        );
        assert_eq!(
            (find.get_str("hint").unwrap(), find.get_i64("limit").unwrap()),
            (INDEX, 1)
        );
        assert_eq!(statement(delete), doc! { "q": marked.clone(), "limit": 1 });

        orders.insert(&order(7, 2)).await.unwrap();
        db.recorder().clear();
        orders.delete_source(2).await.unwrap_err();
        let release = statement(&sent(db)[2]);
        assert_eq!(
            release,
            doc! {
                "q": { "_id": { "$eq": 2 }, "mongo_patterns_deleting": "(token)" },
                "u": { "$unset": { "mongo_patterns_deleting": "" } },
            }
        );
    })
    .await;
}

#[tokio::test]
async fn the_other_rules_of_a_deletion_update_the_copies_along_the_index() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        for (source, rule, condition, update) in [
            (
                1,
                OnReferences::KeepCopy,
                Some(doc! { "$ne": true }),
                doc! { "$set": { "customer.deleted": true } },
            ),
            (2, OnReferences::Clear, None, doc! { "$unset": { "customer": "" } }),
        ] {
            orders.insert(&order(source, source)).await.unwrap();
            db.recorder().clear();
            orders.delete_source(source).on_references(rule).await.unwrap();
            let mut filter = doc! { "customer._id": { "$eq": source } };
            filter.extend(condition.map(|condition| ("customer.deleted".to_owned(), Bson::from(condition))));
            let statement = statement(&sent(db)[1]);
            assert_eq!(
                statement,
                doc! { "q": filter, "u": update, "multi": true, "hint": INDEX }
            );
        }
    })
    .await;
}

/// A sweep and the check of a deletion examine what they need, and not the other copies of the source.
#[tokio::test]
async fn the_server_examines_only_outdated_copies() {
    testkit::run(async |db| {
        // On a cluster, each shard examines its own.
        if db.server().topology() == Topology::Sharded {
            return;
        }
        let orders = with_customers(db).await;
        let stored_order = |id: i32, version: i64| {
            let copy = doc! { "_id": 1, "name": "Ann", "address": { "city": "Dublin" }, "v": version };
            doc! { "_id": id, "customer": copy }
        };
        let current = (0..2000).map(|id| stored_order(id, 5));
        let outdated = (2000..2003).map(|id| stored_order(id, 3));
        let of_others = (3000..4000).map(|id| order(id, 2));
        stored(db)
            .insert_many(current.chain(outdated).chain(of_others))
            .await
            .unwrap();
        let at_5 = doc! { "$set": { "v": 5_i64 } };
        customers(db).update_one(doc! { "_id": 1 }, at_5).await.unwrap();

        let sweep = orders.sweep().source(1).await.unwrap();
        assert_eq!(sweep.copies, 3);
        // The catalog, the source, and the update of the copies.
        assert_eq!(db.recorder().names(), ["find", "find", "update"]);
        let examined = explain(db, &db.recorder().commands()[2]).await;
        assert_eq!((examined.documents, examined.index.as_str()), (0, INDEX));
        assert!(examined.keys <= 2, "{examined:?}");

        db.recorder().clear();
        orders.delete_source(1).await.unwrap_err();
        let examined = explain(db, &db.recorder().commands()[1]).await;
        assert!(examined.documents <= 1 && examined.keys <= 1, "{examined:?}");
        assert_eq!(examined.index, INDEX);
    })
    .await;
}
