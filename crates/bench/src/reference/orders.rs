//! The collections of the orders and their customers, and their documents.

use anyhow::Result;
use mongo_patterns_core::Repository;
use mongo_patterns_reference::ReferenceRepository;
use mongodb::bson::{Bson, Document, doc};
use mongodb::{Collection, IndexModel};

use crate::bench::Bench;
use crate::measure::settle;

/// How many documents an insert sends.
const BATCH: i64 = 10_000;

/// A collection of orders, and one of their customers.
#[derive(Clone, Debug)]
pub(super) struct Orders {
    pub(super) orders: Collection<Document>,
    pub(super) customers: Collection<Document>,
}

impl Orders {
    /// Returns the collections by a client with a connection for each task.
    pub(super) fn timed(bench: &Bench<'_>, name: &str) -> Self {
        Self {
            orders: bench.wide(&format!("orders_{name}")),
            customers: bench.wide(&format!("customers_{name}")),
        }
    }

    /// Returns the collections by a client whose commands are recorded.
    pub(super) fn recorded(bench: &Bench<'_>, name: &str) -> Self {
        Self {
            orders: bench.recorded(&format!("orders_{name}")),
            customers: bench.recorded(&format!("customers_{name}")),
        }
    }

    pub(super) fn repository(&self) -> Result<ReferenceRepository<Document, Document>> {
        let builder = ReferenceRepository::builder(self.orders.clone(), self.customers.clone())
            .reference_field("customer")
            .copied_fields(["name", "address"]);
        Ok(builder.build()?)
    }

    /// Drops both collections, and creates them with this number of customers, and of orders of them in turn. The index is
    /// that of the repository, or the one that the recipe needs.
    pub(super) async fn filled(&self, is_ours: bool, customers: i64, orders: i64) -> Result<()> {
        self.orders.drop().await?;
        self.customers.drop().await?;
        let database = self.orders.client().database(&self.orders.namespace().db);
        database.create_collection(self.orders.name()).await?;
        database.create_collection(self.customers.name()).await?;
        if is_ours {
            self.repository()?.ensure_indexes().replace_settings().await?;
        } else {
            let index = IndexModel::builder().keys(doc! { "customer._id": 1 }).build();
            self.orders.create_index(index).await?;
        }
        self.customers.insert_many((0..customers).map(customer)).await?;
        for first in (0..orders).step_by(BATCH as usize) {
            let batch = first..orders.min(first + BATCH);
            let batch = batch.map(|id| order(id, copy(&customer(id % customers))));
            self.orders.insert_many(batch).await?;
        }
        settle(self.orders.client()).await
    }
}

/// Returns a customer, of which an order shows a third.
pub(super) fn customer(id: i64) -> Document {
    doc! {
        "_id": id,
        "name": name(id as u64),
        "address": { "street": "1 Main Street", "city": "Dublin", "zip": "D01 F5P2" },
        "email": "michelle@example.com",
        "notes": "She prefers deliveries in the evening. ".repeat(8),
        "v": 0_i64,
    }
}

/// Returns the copy that a program without the repository stores.
pub(super) fn copy(customer: &Document) -> Document {
    let fields = customer.iter();
    let copied = fields.filter(|(name, _)| ["_id", "name", "address", "v"].contains(&name.as_str()));
    copied.map(|(name, value)| (name.clone(), value.clone())).collect()
}

pub(super) fn order(id: impl Into<Bson>, customer: Document) -> Document {
    let line = |product: &str| doc! { "product": product, "quantity": 2, "price": 1995 };
    doc! { "_id": id, "customer": customer, "total": 7980, "lines": [line("pen"), line("ink")] }
}

/// Returns a name that is as long as every other one.
pub(super) fn name(number: u64) -> String {
    format!("customer{number:08}")
}

/// Returns the update of every variant, which does not make the document longer.
pub(super) fn rename(number: u64) -> Document {
    doc! { "$set": { "name": name(number) } }
}
