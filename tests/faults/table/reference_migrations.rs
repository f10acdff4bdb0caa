//! References: migrations from ids to references with copies.

use futures::future::LocalBoxFuture;
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};

use super::operation::Promise::{Reads, Steps};
use super::operation::{Call, Model, Of, Operations, UNREAD, calls, documents, retry_policy};
use support::reference::migrate::several;
use support::reference::{Orders, builder, customer};

/// Orders of customers 1 and 2, in one of the two forms.
pub(super) struct Migrations {
    stored: Collection<Document>,
    customers: Collection<Document>,
    skipped: Collection<Document>,
    orders: Orders,
}

/// Returns the facts of an order: it, its references in any form, and their form.
fn facts(order: &Document) -> Vec<String> {
    let id = order.get("_id").unwrap();
    let mut facts = vec![format!("order {id} {:?}", order.get("total"))];
    for (field, bare) in [("customer", "customerId"), ("payer", "payer"), ("products", "products")] {
        let Some(value) = order.get(field).or_else(|| order.get(bare)) else {
            continue;
        };
        let values = match value {
            Bson::Array(values) => values.clone(),
            value => vec![value.clone()],
        };
        for value in values {
            let source = match &value {
                Bson::Document(copy) => copy.get("_id").unwrap(),
                bare => bare,
            };
            facts.push(format!("order {id} {field} {source}"));
            facts.push(format!("{UNREAD}order {id} {field} {value}"));
        }
    }
    facts
}

impl Model for Migrations {
    const PATTERN: &'static str = "reference";
    const COLLECTIONS: &'static [&'static str] = &["orders", "customers", "skipped", "mongo_patterns"];

    fn new(of: Of<'_>) -> Self {
        Self {
            stored: of.collection("orders"),
            customers: of.collection("customers"),
            skipped: of.collection("skipped"),
            orders: several(builder(of.database)).retry(retry_policy()).build().unwrap(),
        }
    }

    async fn fill(&self) {
        // A collection that does not exist has no indexes.
        let _ = self.stored.drop_indexes().await;
        let inserted = self.customers.insert_many([customer(1, "Ann"), customer(2, "Bea")]);
        inserted.await.unwrap();
    }

    async fn facts(&self) -> Vec<String> {
        let [orders] = documents([&self.stored]).await;
        orders.iter().flat_map(facts).collect()
    }

    /// The repository refuses no read, but the type of an order fits one of the two forms.
    async fn read(&self) -> Option<Vec<String>> {
        let mut read = Vec::new();
        for id in 1..=4 {
            let order = self.orders.get(id).await.unwrap();
            let facts = order.iter().flat_map(facts);
            read.extend(facts.filter(|fact| !fact.starts_with(UNREAD)));
        }
        Some(read)
    }
}

const CALL: &str = "ReferenceRepository::migrate_from_references";

impl Operations for Migrations {
    fn operations() -> Vec<Call<Self>> {
        calls! { Migrations;
            Steps, CALL, "in two chunks", |m| {
                let migration = m.orders.migrate_from_references().from_field("customer", "customerId");
                migration.chunk(2).await.map(drop)
            } => prepare(bare);
            Steps, CALL, "with a list of invalid documents and a filter", |m| {
                let migration = m.orders.migrate_from_references().from_field("customer", "customerId");
                let migration = migration.skip_invalid(&m.skipped).filter(doc! { "_id": { "$gt": 0 } });
                migration.await.map(drop)
            } => prepare(with_invalid);
            Reads, "ReferenceRepository::migrate_from_references + MigrateFromReferences::plan", "", |m| {
                let migration = m.orders.migrate_from_references().from_field("customer", "customerId");
                migration.plan().await.map(drop)
            } => prepare(bare);
        }
    }
}

fn bare(m: &Migrations) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        let orders = [
            doc! { "_id": 1, "total": 1, "customerId": 1 },
            doc! { "_id": 2, "total": 2, "products": [1, { "_id": 2, "quantity": 3 }], "customerId": 2 },
            doc! { "_id": 3, "total": 3, "payer": 2 },
            doc! { "_id": 4, "total": 4 },
        ];
        m.stored.insert_many(orders).await.unwrap();
    })
}

fn with_invalid(m: &Migrations) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        bare(m).await;
        let replacement = doc! { "total": 4, "customerId": 9 };
        m.stored.replace_one(doc! { "_id": 4 }, replacement).await.unwrap();
    })
}
