//! Several patterns in one service: an order refers to its customer (reference), has a history of its states (history), and
//! is an item of the customer's page (bucket). It is placed in idempotent steps, and in one transaction.
//!
//! `cargo run --example shop_orders`

mod support;

use anyhow::{Result, ensure};
use mongo_patterns::bucket::BucketRepository;
use mongo_patterns::history::HistoryRepository;
use mongo_patterns::reference::ReferenceRepository;
use mongo_patterns::{Error, ErrorKind, Repository};
use mongodb::bson::{DateTime, Document, doc};
use mongodb::{Client, Database};

/// The repositories of the service. Build them once, and clone them.
#[derive(Clone)]
struct Shop {
    client: Client,
    orders: ReferenceRepository<Document, Document>,
    states: HistoryRepository<Document>,
    pages: BucketRepository<i32, Document>,
}

impl Shop {
    async fn open(database: &Database) -> Result<Self> {
        let of = |name: &str| database.collection::<Document>(name);
        let shop = Self {
            client: database.client().clone(),
            orders: ReferenceRepository::builder(of("orders"), of("customers"))
                .reference_field("customer")
                .copied_fields(["name"])
                .build()?,
            states: HistoryRepository::builder(of("states"), of("state_revisions"))
                .id_field("order")
                .build()?,
            pages: BucketRepository::builder(of("customer_orders"))
                .key_field("customer")
                .items_field("orders")
                .item_id_field("order")
                .build()?,
        };
        shop.orders.ensure_indexes().await?;
        shop.states.ensure_indexes().await?;
        shop.pages.ensure_indexes().await?;
        Ok(shop)
    }

    // ANCHOR: steps
    /// Places an order in three steps. The caller repeats the call, with the same id, until it succeeds.
    async fn place(&self, order: &str, customer: i32, total: i32) -> Result<(), Error> {
        let document = doc! { "_id": order, "customer": { "_id": customer }, "total": total };
        or_exists(self.orders.insert(&document).await.map(drop))?;
        let state = doc! { "order": order, "state": "placed" };
        or_exists(self.states.insert(&state).await.map(drop))?;
        let item = doc! { "order": order, "total": total, "date": DateTime::now() };
        self.pages.append(&customer, &item).await?; // stored once, because the item has an id
        Ok(())
    }
    // ANCHOR_END: steps

    // ANCHOR: transaction
    /// Places an order in one transaction. Nothing of it is visible before the commit.
    async fn place_at_once(&self, order: &str, customer: i32, total: i32) -> Result<(), Error> {
        let document = doc! { "_id": order, "customer": { "_id": customer }, "total": total };
        let state = doc! { "order": order, "state": "placed" };
        let item = doc! { "order": order, "total": total, "date": DateTime::now() };
        let mut session = self.client.start_session().await?;
        session
            .start_transaction()
            .and_run2(async |session| {
                self.orders.insert(&document).session(&mut *session).await?;
                self.states.insert(&state).session(&mut *session).await?;
                self.pages.append(&customer, &item).session(session).await?;
                Ok(())
            })
            .await?;
        Ok(())
    }
    // ANCHOR_END: transaction
}

// ANCHOR: exists
/// What exists already was stored by an earlier attempt.
fn or_exists(inserted: Result<(), Error>) -> Result<(), Error> {
    match inserted {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        inserted => inserted,
    }
}
// ANCHOR_END: exists

#[tokio::main]
async fn main() -> Result<()> {
    let database = support::open("shop_orders").await?;
    let shop = Shop::open(&database).await?;
    let customers = database.collection::<Document>("customers");
    customers.insert_one(doc! { "_id": 1, "name": "Ann" }).await?;

    // The process of the first attempt died after its first step.
    let document = doc! { "_id": "first", "customer": { "_id": 1 }, "total": 5 };
    shop.orders.insert(&document).await?;
    shop.place("first", 1, 5).await?;
    shop.place("first", 1, 5).await?;
    println!(
        "The first order is placed, by three attempts: {}",
        shop.summary("first").await?
    );

    shop.place_at_once("second", 1, 7).await?;
    let again = shop.place_at_once("second", 1, 7).await;
    let kind = again.err().map(|error| error.kind());
    ensure!(kind == Some(ErrorKind::AlreadyExists));
    println!(
        "The second one is placed, in a transaction: {}",
        shop.summary("second").await?
    );

    shop.orders.update_source(1, doc! { "$set": { "name": "Eve" } }).await?;
    shop.states
        .update("second", doc! { "$set": { "state": "sent" } })
        .await?;
    println!(
        "Its customer is renamed, and it is sent: {}",
        shop.summary("second").await?
    );
    Ok(())
}

impl Shop {
    /// Reads what the three patterns have of an order.
    async fn summary(&self, order: &str) -> Result<String> {
        let document = self.orders.get(order).await?.unwrap_or_default();
        let customer = document.get_document("customer")?;
        let states = self.states.revisions(order).page().await?.items;
        let states: Vec<String> = states
            .iter()
            .filter_map(|revision| revision.document.as_ref()?.get_str("state").ok().map(str::to_owned))
            .collect();
        let newest = self.pages.buckets(&customer.get_i32("_id")?).newest_first().limit(1);
        let listed = newest
            .page()
            .await?
            .items
            .iter()
            .flat_map(|page| &page.items)
            .filter(|item| item.get_str("order").is_ok_and(|listed| listed == order))
            .count();
        Ok(format!(
            "customer {}, {}, listed {listed} time",
            customer.get_str("name")?,
            states.join(" then "),
        ))
    }
}
