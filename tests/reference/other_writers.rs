//! Sources that something else changes: another pattern, the driver, or another program.

use futures::future::join_all;
use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns::history::HistoryRepository;
use mongo_patterns::reference::ReferenceRepository;
use mongo_patterns::{ErrorKind, Repository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use support::history;
use support::reference::*;

/// Renames customer 1 as a program does that does not know the pattern.
async fn rename_only(db: &TestDatabase, name: &str) {
    customers(db).update_one(doc! { "_id": 1 }, rename(name)).await.unwrap();
}

fn name(order: Option<Document>) -> String {
    let order = order.unwrap();
    let customer = order.get_document("customer").unwrap();
    customer.get_str("name").unwrap().to_owned()
}

#[tokio::test]
async fn all_copies_follow_any_change_of_their_source() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        for (id, customer) in [(7, 1), (8, 1), (9, 2)] {
            orders.insert(&order(id, customer)).await.unwrap();
        }
        rename_only(db, "Bea").await;
        // A read of current data does not depend on the version. To a read that allows old versions, it is that of the copy.
        assert_eq!(name(orders.get(7).max_staleness(0).await.unwrap()), "Bea");
        assert_eq!(name(orders.get(7).max_staleness(1).await.unwrap()), "Ann");
        db.recorder().clear();
        let refreshed = orders.refresh_copies(1).await.unwrap();
        assert_eq!(names(db), "findAndModify aggregate update update"); // the last one looks for marks
        assert_eq!((refreshed.version, refreshed.copies), (1, 2));
        assert_eq!(assert_current(db, &orders).await, 3);
        assert_eq!(name(orders.get(7).await.unwrap()), "Bea");
        orders.update_source(1, rename("Cas")).await.unwrap();
        // A replacement without the version.
        customers(db)
            .replace_one(doc! { "_id": 1 }, customer(1, "Dee"))
            .await
            .unwrap();
        let refreshed = orders.refresh_copies(1).await.unwrap();
        assert_eq!((refreshed.version, refreshed.copies), (3, 2));
        assert_eq!(assert_current(db, &orders).await, 3);
        let unknown = orders.refresh_copies(77).await.unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::NotFound);
    })
    .await;
}

/// Customers with embedded addresses, which orders copy.
async fn with_addresses(db: &TestDatabase) -> (EmbeddedRepository<Document, Document>, Orders) {
    let copied = bare(db.database())
        .reference_field("customer")
        .copied_fields(["name", "addresses"]);
    let orders = ready(db, copied).await;
    let customers = EmbeddedRepository::builder(db.collection::<Document>("customers"))
        .children_field("addresses")
        .build()
        .unwrap();
    let ann = doc! { "_id": 1, "name": "Ann", "addresses": [{ "_id": "home", "city": "Cork" }] };
    customers.insert(&ann).await.unwrap();
    orders.insert(&order(7, 1)).await.unwrap();
    (customers, orders)
}

fn city(order: Option<Document>) -> String {
    let order = order.unwrap();
    let addresses = order.get_document("customer").unwrap().get_array("addresses").unwrap();
    let home = addresses[0].as_document().unwrap();
    home.get_str("city").unwrap().to_owned()
}

#[tokio::test]
async fn a_change_of_an_embedded_child_and_its_copies_can_be_one_transaction() {
    testkit::run(async |db| {
        let (customers, orders) = with_addresses(db).await;
        let to = |city: &str| doc! { "$set": { "city": city } };
        customers.update_child(1, "home", to("Dublin")).await.unwrap();
        assert_eq!(city(orders.get(7).await.unwrap()), "Cork");
        assert_eq!(city(orders.get(7).max_staleness(0).await.unwrap()), "Dublin");
        orders.refresh_copies(1).await.unwrap();
        assert_eq!(city(orders.get(7).await.unwrap()), "Dublin");
        for commits in [false, true] {
            let mut session = db.database().client().start_session().await.unwrap();
            session.start_transaction().await.unwrap();
            let change = customers.update_child(1, "home", to("Galway"));
            change.session(&mut session).await.unwrap();
            let refreshed = orders.refresh_copies(1).session(&mut session).await.unwrap();
            assert_eq!(refreshed.copies, 1);
            match commits {
                true => session.commit_transaction().await.unwrap(),
                false => session.abort_transaction().await.unwrap(),
            }
            let expected = if commits { "Galway" } else { "Dublin" };
            assert_eq!(city(orders.get(7).await.unwrap()), expected);
            assert_eq!(assert_current(db, &orders).await, 1);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_other_programs_and_inserts_leave_no_stale_copy() {
    testkit::run(async |db| {
        let processes = processes(db, 4).await;
        add_customers(db, 1..=1).await;
        for round in 0..12 {
            let inserts = (1..4).map(|writer: usize| {
                let orders = processes[writer].clone();
                tokio::spawn(async move { orders.insert(&order(format!("{round}-{writer}"), 1)).await.map(drop) })
            });
            let inserts: Vec<_> = inserts.collect();
            let changes = (0..2).map(|writer: usize| {
                let (orders, customers) = (processes[writer].clone(), customers(db));
                tokio::spawn(async move {
                    let update = rename(&format!("{round}-{writer}"));
                    customers.update_one(doc! { "_id": 1 }, update).await.unwrap();
                    orders.refresh_copies(1).await.map(drop)
                })
            });
            for written in join_all(inserts.into_iter().chain(changes)).await {
                written.unwrap().unwrap();
            }
            assert_eq!(assert_current(db, &processes[0]).await, 3 * (round + 1));
        }
    })
    .await;
}

/// Claims for policies with a history, whose revision is their version as sources.
async fn claims(db: &TestDatabase) -> (HistoryRepository<Document>, ReferenceRepository<Document, Document>) {
    let policies = history::policies(db).await;
    let [claims, current] = ["claims", "currentPolicies"].map(|name| db.collection::<Document>(name));
    let claims = ReferenceRepository::builder(claims, current)
        .reference_field("policy")
        .copied_fields(["customerName"])
        .version_field("revision")
        .build()
        .unwrap();
    claims.ensure_indexes().await.unwrap();
    (policies, claims)
}

async fn id_of(db: &TestDatabase, policy: i32) -> Bson {
    let stored = history::current(db).find_one(doc! { "policyId": policy }).await;
    stored.unwrap().unwrap().get("_id").unwrap().clone()
}

#[tokio::test]
async fn the_revision_of_a_history_is_the_version_of_a_source() {
    testkit::run(async |db| {
        let (policies, claims) = claims(db).await;
        policies.insert(&history::policy(1)).await.unwrap();
        let id = id_of(db, 1).await;
        let claim = doc! { "_id": 7, "policy": { "_id": id.clone() } };
        claims.insert(&claim).await.unwrap();
        let holder = |claim: Option<Document>| {
            let claim = claim.unwrap();
            let policy = claim.get_document("policy").unwrap();
            (
                policy.get_str("customerName").unwrap().to_owned(),
                history::number(policy, "revision"),
            )
        };
        let to_ann = doc! { "$set": { "customerName": "Ann" } };
        let bea = doc! { "policyId": 1, "customerName": "Bea", "itemsInsured": [] };
        for (revision, expected) in [(2, "Ann"), (3, "Bea"), (4, "Michelle")] {
            let written = match revision {
                2 => policies.update(1, to_ann.clone()).await,
                3 => policies.replace(1, &bea).await,
                _ => policies.restore(1, 1).await,
            };
            assert_eq!(written.unwrap().revision, revision);
            let expected = (expected.to_owned(), revision as i64);
            assert_eq!(holder(claims.get(7).max_staleness(0).await.unwrap()), expected);
            assert_ne!(holder(claims.get(7).await.unwrap()), expected);
            assert_eq!(repaired(&claims).await.len(), 1);
            assert_eq!(holder(claims.get(7).await.unwrap()), expected);
        }
        let writes = (0..8).map(|n: i32| {
            let (policies, claims, id) = (policies.clone(), claims.clone(), id.clone());
            tokio::spawn(async move {
                let update = doc! { "$set": { "customerName": n.to_string() } };
                policies.update(1, update).await.unwrap();
                let claim = doc! { "_id": n + 10, "policy": { "_id": id } };
                claims.insert(&claim).await.unwrap();
            })
        });
        join_all(writes).await.into_iter().for_each(Result::unwrap);
        repaired(&claims).await;
        assert_eq!(problems(&claims).await, []);
        assert_eq!(history::findings(&policies).await, []);
    })
    .await;
}
