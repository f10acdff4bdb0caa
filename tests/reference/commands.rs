//! The commands of the calls, and what the server examines for them.

use futures::TryStreamExt;
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

const INDEX: &str = "customer._id_1";

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
async fn a_deletion_deletes_the_source_with_its_mark_or_updates_the_copies_along_the_index() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        orders.delete_source(1).await.unwrap();
        let commands = sent(db);
        let [mark, find, delete] = &commands[..] else {
            panic!("{commands:?}");
        };
        let marked = |id: i32| doc! { "_id": { "$eq": id }, "mongo_patterns_deleting": "(token)" };
        assert_eq!(
            statement(mark),
            doc! { "q": { "_id": { "$eq": 1 } }, "u": { "$set": { "mongo_patterns_deleting": "(token)" } } }
        );
        let of_source = doc! { "customer._id": { "$eq": 1 } };
        assert_eq!(find.get_document("filter").unwrap(), &of_source);
        assert_eq!(
            (find.get_str("hint").unwrap(), find.get_i64("limit").unwrap()),
            (INDEX, 1)
        );
        assert_eq!(statement(delete), doc! { "q": marked(1), "limit": 1 });
        orders.insert(&order(7, 2)).await.unwrap();
        db.recorder().clear();
        orders.delete_source(2).await.unwrap_err();
        let release = doc! { "$unset": { "mongo_patterns_deleting": "" } };
        assert_eq!(statement(&sent(db)[2]), doc! { "q": marked(2), "u": release });
        add_customers(db, 3..=4).await;
        let keep = doc! { "$set": { "customer.deleted": true } };
        let not_kept = doc! { "customer._id": { "$eq": 3 }, "customer.deleted": { "$ne": true } };
        let clear = doc! { "$unset": { "customer": "" } };
        // An array has references to others too.
        let cleared = doc! { "customer._id": { "$eq": 4 }, "customer": { "$not": { "$type": "array" } } };
        for (source, rule, filter, update) in [
            (3, OnReferences::KeepCopy, not_kept, keep),
            (4, OnReferences::Clear, cleared, clear),
        ] {
            orders.insert(&order(source, source)).await.unwrap();
            db.recorder().clear();
            orders.delete_source(source).on_references(rule).await.unwrap();
            let expected = doc! { "q": filter, "u": update, "multi": true, "hint": INDEX };
            assert_eq!(statement(&sent(db)[1]), expected);
        }
    })
    .await;
}

/// An update of a source examines its copies, changes those that are older, and moves no key of the index. The check of a
/// deletion examines one copy.
#[tokio::test]
async fn the_server_examines_the_copies_of_the_source_alone() {
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
        // Another update of the source has been there.
        let newer = (0..40).map(|id| stored_order(id, 9));
        let outdated = (200..203).map(|id| stored_order(id, 3));
        let of_others = (300..400).map(|id| order(id, 2));
        stored(db)
            .insert_many(newer.chain(outdated).chain(of_others))
            .await
            .unwrap();
        let at_5 = doc! { "$set": { "v": 5_i64 } };
        customers(db).update_one(doc! { "_id": 1 }, at_5).await.unwrap();

        let updated = orders.update_source(1, rename("Bea")).await.unwrap();
        assert_eq!(updated.copies, 3);
        assert_eq!(db.recorder().names(), ["findAndModify", "update"]);
        let examined = explain(db, &db.recorder().commands()[1]).await;
        assert_eq!((examined.documents, examined.index.as_str()), (43, INDEX));
        assert!((43..=44).contains(&examined.keys), "{examined:?}");
        let indexes = stored(db).list_indexes().await.unwrap();
        let indexes: Vec<_> = indexes.try_collect().await.unwrap();
        assert!(
            indexes.iter().all(|index| !index.keys.contains_key("customer.v")),
            "{indexes:?}"
        );

        db.recorder().clear();
        orders.delete_source(1).await.unwrap_err();
        let examined = explain(db, &db.recorder().commands()[1]).await;
        assert!(examined.documents <= 1 && examined.keys <= 1, "{examined:?}");
        assert_eq!(examined.index, INDEX);
    })
    .await;
}
