//! Documents with a history, a list, a count of views, and a reference to a supplier: what another repository owns is not changed
//! by an update, and is no difference to a revision. They are kept by a trash.

use futures::TryStreamExt;
use futures::future::join_all;
use mongo_patterns::ErrorKind::{AlreadyExists, InvalidArgument, NotFound, SettingsMismatch};
use mongo_patterns::archive::Trash;
use mongo_patterns::counters::Counters;
use mongo_patterns::history::HistoryRepository;
use mongo_patterns::intervals::IntervalRepository;
use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns::reference::ReferenceRepository;
use mongo_patterns::schema::SchemaRepository;
use mongo_patterns::{Error, Repository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};
use serde::{Deserialize, Serialize};

use super::repositories::{intervals, list, of};
use super::suppliers::{count, suppliers};
use support::common::{integer, patient};

/// An order without the fields of the patterns.
#[derive(Serialize, Deserialize)]
struct Order {
    #[serde(rename = "_id")]
    id: i32,
}

struct Orders {
    history: HistoryRepository<Document>,
    lines: OutlierRepository<Document, i32>,
    views: Counters,
    suppliers: ReferenceRepository<Document, Document>,
    versions: SchemaRepository<Document>,
}

impl Orders {
    async fn new(db: &TestDatabase) -> Self {
        let orders = || of(db, "orders");
        let history = HistoryRepository::builder(orders(), of(db, "revisions")).id_field("_id");
        let history = history.time_field("at").retry(patient());
        let suppliers = ReferenceRepository::builder(orders(), of(db, "suppliers")).reference_field("supplier");
        let versions = SchemaRepository::builder(orders())
            .version_field("schemaVersion")
            .newest(1);
        let all = Self {
            history: history.build().unwrap(),
            lines: list(db, "lines", "has_extras"),
            views: Counters::builder(orders()).field("views").build().unwrap(),
            suppliers: suppliers.copied_fields(["name"]).build().unwrap(),
            versions: versions.build().unwrap(),
        };
        let repositories: [&dyn Repository; 5] = [&all.lines, &all.views, &all.suppliers, &all.versions, &all.history];
        for repository in repositories {
            repository.ensure_indexes().await.unwrap();
        }
        all
    }

    async fn fill(&self, db: &TestDatabase) {
        suppliers(db)
            .insert_one(doc! { "_id": 1, "name": "Ann" })
            .await
            .unwrap();
        self.history
            .insert(&doc! { "_id": 7, "supplier": { "_id": 1, "name": "Ann", "v": 1 } })
            .await
            .unwrap();
    }
}

const OWNED: [&str; 6] = [
    "lines",
    "lines.0",
    "has_extras",
    "views",
    "views_batches",
    "supplier.name",
];

#[tokio::test]
async fn an_update_by_operators_changes_no_field_of_another_repository() {
    testkit::run(async |db| {
        let orders = Orders::new(db).await;
        orders.fill(db).await;
        let before = of(db, "orders").find_one(doc! {}).await.unwrap();
        let is_refused = |refused: Result<(), Error>, context: &str| {
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), InvalidArgument, "{context}: {refused}");
            assert!(
                refused.to_string().contains("another repository"),
                "{context}: {refused}"
            );
        };
        for field in OWNED {
            for operator in ["$set", "$unset", "$inc"] {
                let update = doc! { operator: { field: 1 } };
                is_refused(orders.history.update(7, update.clone()).await.map(drop), field);
                is_refused(
                    orders.history.update_many(doc! {}, update.clone()).await.map(drop),
                    field,
                );
                is_refused(orders.versions.update(7, update).await.map(drop), field);
            }
            let pipeline = vec![doc! { "$set": { field: 1 } }];
            is_refused(orders.history.update(7, pipeline).await.map(drop), field);
        }
        // The history's own fields, for the schema.
        let of_history = doc! { "$set": { "revision": 9 } };
        is_refused(orders.versions.update(7, of_history).await.map(drop), "revision");
        assert_eq!(of(db, "orders").find_one(doc! {}).await.unwrap(), before);
    })
    .await;
}

#[tokio::test]
async fn an_update_of_a_source_or_an_interval_changes_no_field_of_another_repository() {
    testkit::run(async |db| {
        let prices: IntervalRepository<Document> = intervals(db, "suppliers");
        let orders = ReferenceRepository::<Document, Document>::builder(of(db, "orders"), of(db, "suppliers"));
        let orders = orders
            .reference_field("supplier")
            .copied_fields(["name"])
            .source_key("name")
            .build()
            .unwrap();
        let views = Counters::builder(of(db, "suppliers")).field("views").build().unwrap();
        let repositories: [&dyn Repository; 3] = [&views, &prices, &orders];
        for repository in repositories {
            repository.ensure_indexes().await.unwrap();
        }
        let update = || doc! { "$inc": { "views": 1 } };
        for refused in [
            orders.update_source("Ann", update()).await.map(drop),
            prices.update(1, update()).await.map(drop),
        ] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), InvalidArgument, "{refused}");
        }
    })
    .await;
}

/// Also while a follower records what other programs write.
#[tokio::test]
async fn what_another_repository_writes_is_no_difference_to_a_revision() {
    testkit::run(async |db| {
        let orders = Orders::new(db).await;
        orders.fill(db).await;
        orders
            .history
            .follow("orders")
            .enable_pre_images()
            .run_until_current()
            .await
            .unwrap();
        for n in 0..12 {
            orders.lines.push(7, &n).await.unwrap();
            orders.views.add(7, 1).unwrap();
        }
        orders.views.flush().await.unwrap();
        orders
            .suppliers
            .update_source(1, doc! { "$set": { "name": "Bea" } })
            .await
            .unwrap();
        let findings = async || orders.history.verify().stream().try_collect::<Vec<_>>().await.unwrap();
        assert_eq!(findings().await, []);
        // A type without the fields of the others.
        let versions = SchemaRepository::<Order>::builder(of(db, "orders")).version_field("schemaVersion");
        let versions = versions.newest(1).build().unwrap();
        let found: Vec<_> = versions.verify().stream().try_collect().await.unwrap();
        assert_eq!(found, []);
        orders.history.follow("orders").run_until_current().await.unwrap();
        assert_eq!(count(db, "revisions", doc! {}).await, 1);
        // The content is compared and recorded.
        let other = of(db, "orders")
            .update_one(doc! {}, doc! { "$set": { "total": 3 } })
            .await;
        assert_eq!(other.unwrap().modified_count, 1);
        assert_eq!(findings().await.len(), 1);
        orders.history.follow("orders").run_until_current().await.unwrap();
        assert_eq!((findings().await, count(db, "revisions", doc! {}).await), (vec![], 2));
    })
    .await;
}

fn trash(db: &TestDatabase) -> Trash<Document> {
    let trash = Trash::builder(of(db, "orders"), of(db, "deleted_orders"));
    trash.retry(patient()).build().unwrap()
}

#[tokio::test]
async fn a_document_with_a_history_is_kept_by_a_trash() {
    testkit::run(async |db| {
        let orders = Orders::new(db).await;
        let trash = trash(db);
        trash.ensure_indexes().await.unwrap();
        orders.fill(db).await;
        orders.lines.push(7, &1).await.unwrap();
        let before = of(db, "orders").find_one(doc! {}).await.unwrap().unwrap();
        for refused in [
            trash.delete(7).await.map(drop),
            orders.history.delete(7).await.map(drop),
            orders.history.delete(7).through(&trash).await.map(drop),
            // The list deletes its part before the history records the rest.
            orders
                .history
                .delete(7)
                .through(&orders.lines)
                .through(&trash)
                .await
                .map(drop),
            orders.lines.delete(7).through(&trash).await.map(drop),
        ] {
            assert_eq!(refused.unwrap_err().kind(), SettingsMismatch);
        }
        let both = orders.history.delete(7).through(&orders.history).await.unwrap_err();
        assert_eq!(both.kind(), InvalidArgument);
        assert_eq!(of(db, "orders").find_one(doc! {}).await.unwrap(), Some(before));

        let deleted = orders
            .lines
            .delete(7)
            .through(&trash)
            .through(&orders.history)
            .await
            .unwrap();
        assert!(deleted.found);
        let kept = of(db, "deleted_orders").find_one(doc! {}).await.unwrap().unwrap();
        let kept = kept.get_document("document").unwrap();
        assert_eq!(
            (
                integer(kept.get("revision").unwrap()),
                kept.get_array("lines").unwrap().len()
            ),
            (1, 0)
        );
        assert!(orders.history.get(7).await.unwrap().is_none());
        let last = orders.history.at(7, 2).await.unwrap().unwrap();
        assert!(last.document.is_none());
        trash.restore(7).await.unwrap();
        let recorded = orders.history.update(7, doc! { "$set": { "total": 1 } }).await.unwrap();
        assert_eq!(recorded.revision, 4); // 3 is the restored document
        let findings: Vec<_> = orders.history.verify().stream().try_collect().await.unwrap();
        assert_eq!(findings, []);
    })
    .await;
}

#[tokio::test]
async fn a_deletion_through_a_trash_has_four_round_trips_more() {
    testkit::run(async |db| {
        let orders = HistoryRepository::<Document>::builder(of(db, "orders"), of(db, "revisions")).id_field("_id");
        let orders = orders.time_field("at").build().unwrap();
        let trash = trash(db);
        orders.ensure_indexes().await.unwrap();
        trash.ensure_indexes().await.unwrap();
        let mut sent = Vec::new();
        for id in 1..=4 {
            orders.insert(&doc! { "_id": id }).await.unwrap();
            db.recorder().clear();
            let deletion = orders.delete(id);
            let deleted = match id {
                // The first of each checks the deployment.
                1 | 3 => deletion.await,
                _ => deletion.through(&trash).await,
            };
            assert!(deleted.unwrap().found);
            sent.push(db.recorder().round_trips());
        }
        assert_eq!(sent[2..], [4, 8]);
    })
    .await;
}

/// A restoration of a revision, while a trash takes the document with its revisions.
#[tokio::test]
async fn a_document_is_restored_or_in_the_trash() {
    const ORDERS: i32 = 60;
    testkit::run(async |db| {
        let history = HistoryRepository::<Document>::builder(of(db, "orders"), of(db, "revisions")).id_field("_id");
        let history = history.time_field("at").retry(patient()).build().unwrap();
        let trash = Trash::<Document>::builder(of(db, "orders"), of(db, "deleted_orders"));
        let trash = trash
            .related(of(db, "revisions"), "documentId")
            .retry(patient())
            .build()
            .unwrap();
        history.ensure_indexes().await.unwrap();
        trash.ensure_indexes().await.unwrap();
        let races = (0..ORDERS).map(async |id| {
            history.insert(&doc! { "_id": id }).await.unwrap();
            history.update(id, doc! { "$set": { "total": 1 } }).await.unwrap();
            let (restored, deleted) =
                futures::join!(history.restore(id, 1).into_future(), trash.delete(id).into_future());
            assert!(deleted.unwrap().found);
            if let Err(error) = &restored {
                assert!([NotFound, AlreadyExists].contains(&error.kind()), "{error:?}");
            }
            restored.is_ok()
        });
        let restored = join_all(races).await.into_iter().filter(|restored| *restored).count();
        println!("{restored} of {ORDERS} were restored first");
        let in_trash = |id: i32| doc! { "document._id": id };
        for id in 0..ORDERS {
            assert_eq!(count(db, "deleted_orders", in_trash(id)).await, 1, "{id}");
            for left in [doc! { "_id": id }, doc! { "documentId": id }] {
                assert_eq!(
                    count(db, "orders", left.clone()).await + count(db, "revisions", left).await,
                    0,
                    "{id}"
                );
            }
            trash.restore(id).await.unwrap();
        }
        let findings: Vec<_> = history.verify().stream().try_collect().await.unwrap();
        assert_eq!(findings, []);
    })
    .await;
}

/// The application requires content, and allows no fields but these.
#[tokio::test]
async fn a_validator_of_the_application_lets_documents_be_deleted() {
    testkit::run(async |db| {
        let history = HistoryRepository::<Document>::builder(of(db, "orders"), of(db, "revisions")).id_field("_id");
        let history = history
            .time_field("at")
            .change_fields(["by", "reason"]).build().unwrap();
        let views = Counters::builder(of(db, "orders")).field("views").build().unwrap();
        let trash = trash(db);
        for repository in [&history as &dyn Repository, &views, &trash] {
            repository.ensure_indexes().await.unwrap();
        }
        let fields = ["_id", "name", "revision", "at", "deleted", "by", "reason", "views", "views_batches"];
        let properties: Document = fields.map(|field| (field.to_owned(), doc! {}.into())).into_iter().collect();
        let schema = doc! { "required": ["name"], "additionalProperties": false, "properties": properties };
        let validator = doc! { "collMod": "orders", "validator": { "$jsonSchema": schema } };
        db.database().run_command(validator).await.unwrap();
        for id in 1..=3 {
            let described = doc! { "by": "Ann", "reason": "new" };
            history.insert(&doc! { "_id": id, "name": "first" }).with(described).await.unwrap();
            views.add(id, 5).unwrap();
            views.flush().await.unwrap();
            let by = || doc! { "by": "Bob" };
            let deleted = match id {
                1 => history.delete(id).with(by()).await,
                2 => history.delete(id).with(by()).through(&trash).await,
                _ => {
                    let mut session = db.client().start_session().await.unwrap();
                    session.start_transaction().await.unwrap();
                    let deleted = history.delete(id).with(by()).session(&mut session).await;
                    session.commit_transaction().await.unwrap();
                    deleted
                }
            };
            assert_eq!(deleted.unwrap().revision, Some(2));
            assert_eq!(count(db, "orders", doc! { "_id": id }).await, 0);
            let revisions = of(db, "revisions");
            let revision = revisions.find_one(doc! { "documentId": id, "revision": 2 });
            let mut revision = revision.await.unwrap().unwrap();
            for field in ["_id", "at", "views_batches"] {
                assert!(revision.remove(field).is_some());
            }
            let expected = doc! {
                "documentId": id, "revision": 2, "views": 5_i64, "by": "Bob", "deleted": true, "mongo_patterns_kept": ["views", "views_batches"],
            };
            assert_eq!(sorted(revision), sorted(expected));
            history.restore(id, 1).await.unwrap();
        }
        assert_eq!(count(db, "deleted_orders", doc! { "document.name": "first" }).await, 1);
    })
    .await;
}

fn sorted(document: Document) -> Vec<(String, Bson)> {
    let mut fields: Vec<_> = document.into_iter().collect();
    fields.sort_by(|(one, _), (other, _)| one.cmp(other));
    fields
}
