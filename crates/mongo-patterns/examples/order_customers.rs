//! The extended reference of MongoDB's manual: an order has the name and the address of its customer. For two seconds,
//! sixteen tasks rename customers and insert orders concurrently. Afterwards every copy equals its customer. Then a customer
//! is deleted, and a repair completes the rename of a process that died.
//!
//! `cargo run --example order_customers`

mod support;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::TryStreamExt;
use mongo_patterns::reference::{OnReferences, ReferenceRepository};
use mongo_patterns::{ErrorKind, Repository};
use mongo_patterns_testkit::CommandRecorder;
use mongodb::Database;
use mongodb::bson::{Bson, Document, doc};
use serde::{Deserialize, Serialize};
use support::shell;

const TASKS: i32 = 16;
const CUSTOMERS: i32 = 10;
const DURATION: Duration = Duration::from_secs(2);

/// A customer. The version `v` belongs to the repository.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Customer {
    #[serde(rename = "_id")]
    id: i32,
    name: String,
    address: Address,
    credit: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Address {
    street: String,
    city: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Order {
    #[serde(rename = "_id")]
    id: String,
    customer: Option<CustomerCopy>,
    total: i32,
}

/// The part of a customer that an order shows. An order to insert only needs the id: the repository sets the rest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct CustomerCopy {
    #[serde(rename = "_id")]
    id: i32,
    #[serde(default)]
    name: String,
    #[serde(default)]
    address: Address,
}

type Orders = ReferenceRepository<Order, Customer>;

#[tokio::main]
async fn main() -> Result<()> {
    let (database, recorder) = support::open_recorded("order_customers").await?;
    let orders = Orders::builder(
        database.collection::<Document>("orders"),
        database.collection::<Document>("customers"),
    )
    .reference_field("customer")
    .copied_fields(["name", "address"])
    .version_field("v")
    .build()?;
    orders.ensure_indexes().await?;
    let customers = (1..=CUSTOMERS).map(customer);
    orders.sources_collection().insert_many(customers).await?;

    println!("# An order is inserted with the id of its customer, and stored with a copy\n");
    recorder.clear();
    orders.insert(&order("first", 1)).await?;
    print_wire(&recorder);
    print_order(&database, "first").await?;

    println!("# A customer is renamed, and all of its orders follow\n");
    orders.insert(&order("second", 1)).await?;
    // Before its first update of a customer, a repository checks that the indexes exist.
    orders.update_source(2, doc! { "$set": { "name": "Bob" } }).await?;
    recorder.clear();
    let updated = orders.update_source(1, doc! { "$set": { "name": "Ann" } }).await?;
    print_wire(&recorder);
    println!("version {}, {} orders updated\n", updated.version, updated.copies);
    print_order(&database, "second").await?;

    println!("# A change of a field that no order shows updates no order\n");
    recorder.clear();
    orders.update_source(1, doc! { "$inc": { "credit": 50 } }).await?;
    print_wire(&recorder);

    println!("# {TASKS} tasks rename {CUSTOMERS} customers and insert their orders for two seconds\n");
    let end = Instant::now() + DURATION;
    let tasks = (0..TASKS).map(|task| {
        let orders = orders.clone();
        tokio::spawn(async move {
            let (mut renamed, mut inserted) = (0, 0);
            for n in 0.. {
                if Instant::now() >= end {
                    break;
                }
                let customer = 1 + (task + n) % CUSTOMERS;
                if n % 3 == 0 {
                    let set = doc! { "name": format!("Name {task}-{n}"), "address.street": format!("{n} Road") };
                    orders.update_source(customer, doc! { "$set": set }).await?;
                    renamed += 1;
                } else {
                    orders.insert(&order(&format!("{task}-{n}"), customer)).await?;
                    inserted += 1;
                }
            }
            anyhow::Ok((renamed, inserted))
        })
    });
    let (mut renamed, mut inserted) = (0, 0);
    for task in tasks.collect::<Vec<_>>() {
        let (renames, inserts) = task.await??;
        (renamed, inserted) = (renamed + renames, inserted + inserts);
    }
    ensure!(renamed > 0 && inserted > 0, "{renamed} renames and {inserted} inserts");
    let stored = check_copies(&database).await?;
    ensure!(
        stored == 2 + inserted,
        "{stored} orders are stored, {inserted} were inserted"
    );
    println!("every order has the name and the address of its customer");
    let versions: i64 = versions(&database).await?.iter().sum();
    // Two renames came before.
    ensure!(
        versions == 2 + i64::from(renamed),
        "{renamed} renames led to {versions} versions"
    );
    println!("every rename is a version of its customer\n");

    println!("# A customer with orders is not deleted, unless the call says what happens to them\n");
    let refused = orders.delete_source(1).await.err();
    let error = refused.context("a customer with orders was deleted")?;
    ensure!(error.kind() == ErrorKind::Referenced);
    println!("{:?}: {error}\n", error.kind());
    let former = CUSTOMERS + 1;
    orders.sources_collection().insert_one(customer(former)).await?;
    orders.insert(&order("last", former)).await?;
    orders
        .update_source(former, doc! { "$set": { "name": "Cleo" } })
        .await?;
    orders
        .delete_source(former)
        .on_references(OnReferences::KeepCopy)
        .await?;
    let kept = orders.get("last").await?.context("the order does not exist")?;
    let kept = kept.customer.context("the order has no customer")?;
    println!(
        "the order of the deleted customer still shows {}, {}\n",
        kept.name, kept.address.city
    );
    orders.collection().delete_one(doc! { "_id": "last" }).await?;

    println!("# A process dies after it has renamed a customer\n");
    let customers = database.collection::<Document>("customers");
    let rename = doc! { "$set": { "name": "Dora" }, "$inc": { "v": 1 } };
    customers.update_one(doc! { "_id": 4 }, rename).await?;
    let findings: Vec<_> = orders.verify().stream().try_collect().await?;
    ensure!(findings.len() == orders_of(&database, 4).await?, "{}", findings.len());
    println!("verify finds the orders with the previous name");
    let repaired: Vec<_> = orders.repair().stream().try_collect().await?;
    // The repair of one copy brings the others of its source up to date too.
    ensure!(!repaired.is_empty());
    let findings: Vec<_> = orders.verify().stream().try_collect().await?;
    ensure!(findings.is_empty());
    println!("after a repair it finds {}", findings.len());

    check_copies(&database).await?;
    Ok(())
}

fn address() -> Address {
    Address {
        street: "1 Road".to_owned(),
        city: "Dublin".to_owned(),
    }
}

fn customer(id: i32) -> Customer {
    Customer {
        id,
        name: format!("Customer {id}"),
        address: address(),
        credit: 0,
    }
}

fn order(id: &str, customer: i32) -> Order {
    Order {
        id: id.to_owned(),
        customer: Some(CustomerCopy {
            id: customer,
            ..CustomerCopy::default()
        }),
        total: 25,
    }
}

/// Checks, without the repository, that each copy equals its customer. Copies of a deleted customer are marked. Returns the
/// number of orders.
async fn check_copies(database: &Database) -> Result<i32> {
    let mut customers = BTreeMap::new();
    let mut found = database.collection::<Document>("customers").find(doc! {}).await?;
    while let Some(customer) = found.try_next().await? {
        customers.insert(customer.get_i32("_id")?, customer);
    }
    let mut orders = 0;
    let mut found = database.collection::<Document>("orders").find(doc! {}).await?;
    while let Some(order) = found.try_next().await? {
        orders += 1;
        let copy = order.get_document("customer")?;
        let customer = customers
            .get(&copy.get_i32("_id")?)
            .context("an order without a customer")?;
        for field in ["_id", "name", "address"] {
            ensure!(
                copy.get(field) == customer.get(field),
                "the {field} of an order is stale"
            );
        }
        let version = customer.get("v").map_or(0, integer);
        ensure!(
            copy.get("v").map(integer) == Some(version),
            "the version of an order is stale"
        );
    }
    Ok(orders)
}

async fn versions(database: &Database) -> Result<Vec<i64>> {
    let customers: Vec<Document> = database
        .collection("customers")
        .find(doc! {})
        .await?
        .try_collect()
        .await?;
    Ok(customers
        .iter()
        .map(|customer| customer.get("v").map_or(0, integer))
        .collect())
}

async fn orders_of(database: &Database, customer: i32) -> Result<usize> {
    let orders = database.collection::<Document>("orders");
    let count = orders.count_documents(doc! { "customer._id": customer }).await?;
    Ok(usize::try_from(count)?)
}

fn integer(value: &Bson) -> i64 {
    value.as_i64().or_else(|| value.as_i32().map(i64::from)).unwrap_or(-1)
}

fn print_wire(recorder: &CommandRecorder) {
    println!("On the wire:");
    for command in recorder.commands() {
        println!("  {}", shell::call(&command));
    }
    println!();
}

async fn print_order(database: &Database, id: &str) -> Result<()> {
    let orders = database.collection::<Document>("orders");
    let order = orders.find_one(doc! { "_id": id }).await?;
    let order = order.context("the order is not stored")?;
    println!("Stored in orders:\n  {}\n", shell::compact(&Bson::Document(order)));
    Ok(())
}
