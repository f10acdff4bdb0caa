//! Sources of references whose version is the revision of a history, which other programs write too.

use futures::TryStreamExt;
use futures::future::join_all;
use mongo_patterns::ErrorKind::SettingsMismatch;
use mongo_patterns::Repository;
use mongo_patterns::history::HistoryRepository;
use mongo_patterns::reference::{OnReferences, ReferenceRepository, Unrepaired};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};
use tokio::sync::oneshot;

use super::repositories::of;
use support::common::{all, integer, patient};

/// Customers with a history, and their orders. A value is a process.
#[derive(Clone)]
struct Shop {
    customers: HistoryRepository<Document>,
    orders: ReferenceRepository<Document, Document>,
}

impl Shop {
    fn new(db: &TestDatabase) -> Self {
        let customers = HistoryRepository::builder(of(db, "customers"), of(db, "revisions")).id_field("_id");
        let orders = ReferenceRepository::builder(of(db, "orders"), of(db, "customers")).reference_field("customer");
        let orders = orders.copied_fields(["name"]).version_field("revision");
        Self {
            customers: customers.time_field("at").retry(patient()).build().unwrap(),
            orders: orders.retry(patient()).build().unwrap(),
        }
    }

    async fn set_up(db: &TestDatabase) -> Self {
        let shop = Self::new(db);
        shop.customers.ensure_indexes().await.unwrap();
        shop.orders.ensure_indexes().await.unwrap();
        shop
    }

    /// Runs the follower of the history until it is current, and then that of the references.
    async fn follow(&self) {
        let customers = self.customers.follow("customers").enable_pre_images();
        customers.run_until_current().await.unwrap();
        self.orders.follow("orders").run_until_current().await.unwrap();
    }
}

fn rename(name: &str) -> Document {
    doc! { "$set": { "name": name } }
}

/// Checks by the driver alone that the numbers of the revisions have no gap, each customer is its newest revision, and each copy
/// equals its customer. Returns the number of revisions.
async fn judge(db: &TestDatabase) -> usize {
    let customers = all(&db.plain_collection::<Document>("customers")).await;
    let revisions = all(&db.plain_collection::<Document>("revisions")).await;
    for customer in &customers {
        let id = customer.get("_id").unwrap();
        let mut own: Vec<&Document> = revisions
            .iter()
            .filter(|one| one.get("documentId") == Some(id))
            .collect();
        own.sort_by_key(|revision| number(revision));
        let numbers: Vec<i64> = own.iter().map(|revision| number(revision)).collect();
        assert_eq!(numbers, (1..=own.len() as i64).collect::<Vec<_>>(), "{id}");
        let last = own.last().unwrap();
        for field in ["revision", "name", "at"] {
            assert_eq!(last.get(field), customer.get(field), "{id} {field}");
        }
    }
    for revision in &revisions {
        let mut fields = revision.keys();
        assert!(!fields.any(|field| field.starts_with("mongo_patterns")), "{revision}");
    }
    for order in all(&db.plain_collection::<Document>("orders")).await {
        let copy = order.get_document("customer").unwrap();
        let customer = customers.iter().find(|one| one.get("_id") == copy.get("_id")).unwrap();
        assert_eq!(copy.get("name"), customer.get("name"), "{order}");
        assert_eq!(number(copy), number(customer), "{order}");
        assert!(!copy.contains_key("deleted"), "{order}");
    }
    revisions.len()
}

fn number(document: &Document) -> i64 {
    integer(document.get("revision").unwrap())
}

/// The problems that both repositories find.
async fn findings(shop: &Shop) -> (Vec<String>, Vec<String>) {
    let of_customers: Vec<_> = shop.customers.verify().stream().try_collect().await.unwrap();
    let of_orders: Vec<_> = shop.orders.verify().stream().try_collect().await.unwrap();
    (
        of_customers
            .iter()
            .map(|finding| format!("{:?}", finding.problem))
            .collect(),
        of_orders
            .iter()
            .map(|finding| format!("{:?}", finding.problem))
            .collect(),
    )
}

/// Sixteen tasks of four kinds, and both followers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_programs_and_both_followers_leave_no_gap_and_no_old_copy() {
    const CUSTOMERS: i32 = 3;
    testkit::run(async |db| {
        let shop = Shop::set_up(db).await;
        for id in 0..CUSTOMERS {
            shop.customers.insert(&doc! { "_id": id, "name": "Ann" }).await.unwrap();
            shop.orders
                .insert(&doc! { "_id": format!("first {id}"), "customer": { "_id": id } })
                .await
                .unwrap();
        }
        shop.follow().await;
        let (stop_customers, stopped) = oneshot::channel::<()>();
        let following = shop.clone();
        let of_customers = tokio::spawn(async move {
            let follower = following.customers.follow("customers");
            follower.until(async { drop(stopped.await) }).await
        });
        let (stop_orders, stopped) = oneshot::channel::<()>();
        let following = shop.clone();
        let of_orders = tokio::spawn(async move {
            let follower = following.orders.follow("orders");
            follower.until(async { drop(stopped.await) }).await
        });
        let processes = [Shop::new(db), Shop::new(db)];
        let tasks = (0..16).map(|task: i32| {
            let shop = processes[task as usize % 2].clone();
            let plain = db.plain_collection::<Document>("customers");
            tokio::spawn(async move {
                for n in 0..16 {
                    let id = (task + n) % CUSTOMERS;
                    let name = format!("{task}-{n}");
                    match task % 4 {
                        0 => drop(plain.update_one(doc! { "_id": id }, rename(&name)).await.unwrap()),
                        1 => drop(shop.customers.update(id, rename(&name)).await.unwrap()),
                        2 => {
                            let order = doc! { "_id": name, "customer": { "_id": id } };
                            shop.orders.insert(&order).await.unwrap();
                        }
                        // It locks the customers, which is no change.
                        _ => {
                            let order = |n: i32| doc! { "_id": format!("{name}-{n}"), "customer": { "_id": id } };
                            shop.orders.insert_many(&[order(1), order(2)]).await.unwrap();
                        }
                    }
                }
            })
        });
        for ended in join_all(tasks.collect::<Vec<_>>()).await {
            ended.unwrap();
        }
        drop((stop_customers, stop_orders));
        of_customers.await.unwrap().unwrap();
        of_orders.await.unwrap().unwrap();
        shop.follow().await;
        let revisions = judge(db).await;
        // Each write of the history is a revision, and at most each of the others.
        assert!((3 + 64..=3 + 128).contains(&revisions), "{revisions}");
        assert_eq!(findings(&shop).await, (vec![], vec![]));
        shop.follow().await;
        assert_eq!(judge(db).await, revisions);
    })
    .await;
}

/// The follower of the references runs before that of the history, and leaves the version to it.
#[tokio::test]
async fn the_repository_of_references_never_writes_the_revision() {
    testkit::run(async |db| {
        let shop = Shop::set_up(db).await;
        let customers = db.plain_collection::<Document>("customers");
        let orders = db.plain_collection::<Document>("orders");
        shop.customers.insert(&doc! { "_id": 1, "name": "Ann" }).await.unwrap();
        shop.orders
            .insert(&doc! { "_id": 7, "customer": { "_id": 1 } })
            .await
            .unwrap();
        shop.follow().await;
        customers.update_one(doc! { "_id": 1 }, rename("Bea")).await.unwrap();
        let unnumbered = customers.find_one(doc! {}).await.unwrap();

        let refused = shop.orders.update_source(1, rename("Cas")).await.unwrap_err();
        assert_eq!(refused.kind(), SettingsMismatch, "{refused}");
        shop.orders.follow("orders").run_until_current().await.unwrap();
        let refreshed = shop.orders.refresh_copies(1).await.unwrap();
        assert_eq!((refreshed.version, refreshed.copies), (1, 0));
        let repaired: Vec<_> = shop.orders.repair().stream().try_collect().await.unwrap();
        assert_eq!((repaired.len(), repaired[0].unrepaired), (1, None));
        assert_eq!(customers.find_one(doc! {}).await.unwrap(), unnumbered);
        assert_eq!(findings(&shop).await.1, Vec::<String>::new());
        shop.follow().await;
        assert_eq!(judge(db).await, 2);

        // A copy that another program has changed, and one with a revision that does not exist yet.
        let change = |fields: Document| orders.update_one(doc! { "_id": 7 }, doc! { "$set": fields });
        change(doc! { "customer.name": "Dan" }).await.unwrap();
        shop.orders.follow("orders").run_until_current().await.unwrap();
        assert_eq!(judge(db).await, 2);
        change(doc! { "customer.revision": 9 }).await.unwrap();
        let repaired: Vec<_> = shop.orders.repair().stream().try_collect().await.unwrap();
        assert_eq!(repaired[0].unrepaired, Some(Unrepaired::NotRecorded));
        shop.orders.follow("orders").run_until_current().await.unwrap();
        change(doc! { "customer.revision": 1 }).await.unwrap();
        shop.orders.follow("orders").run_until_current().await.unwrap();
        assert_eq!(judge(db).await, 2);
    })
    .await;
}

/// The deletion of a source is a revision, also if a follower sees its mark.
#[tokio::test]
async fn a_customer_is_deleted_through_its_history_and_restored() {
    testkit::run(async |db| {
        let shop = Shop::set_up(db).await;
        shop.customers.insert(&doc! { "_id": 1, "name": "Ann" }).await.unwrap();
        shop.orders
            .insert(&doc! { "_id": 7, "customer": { "_id": 1 } })
            .await
            .unwrap();
        shop.follow().await;
        shop.orders.delete_source(1).through(&shop.customers).await.unwrap_err();
        shop.follow().await;
        assert_eq!(judge(db).await, 1, "the mark of a refused deletion is no revision");
        let deletion = shop.orders.delete_source(1).through(&shop.customers);
        let deleted = deletion.on_references(OnReferences::KeepCopy).await.unwrap();
        assert_eq!((deleted.found, deleted.copies), (true, 1));
        shop.follow().await;
        let restored = shop.customers.restore(1, 1).await.unwrap();
        assert_eq!(restored.revision, 3);
        shop.follow().await;
        assert_eq!(judge(db).await, 3);
        assert_eq!(findings(&shop).await, (vec![], vec![]));
        let copy = db
            .plain_collection::<Document>("orders")
            .find_one(doc! {})
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            copy.get_document("customer").unwrap().get("revision"),
            Some(&Bson::Int64(3))
        );

        let unreferenced = doc! { "_id": 2, "name": "Bea" };
        shop.customers.insert(&unreferenced).await.unwrap();
        assert!(
            shop.orders
                .delete_source(2)
                .through(&shop.customers)
                .await
                .unwrap()
                .found
        );
        shop.follow().await;
        let revisions = db.plain_collection::<Document>("revisions");
        let of_second = all(&revisions)
            .await
            .into_iter()
            .filter(|one| one.get("documentId") == Some(&2.into()));
        assert_eq!(of_second.map(|one| number(&one)).collect::<Vec<_>>(), [1, 2]);
    })
    .await;
}
