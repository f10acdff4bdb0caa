//! Follow the changes of the database in the arguments, as the other programs of the tests: connection string, database, and
//! name. They print a line after each batch.

use anyhow::Result;
use mongo_patterns::history::HistoryRepository;
use mongo_patterns::reference::{OnReferences, Reference, ReferenceRepository};
use mongo_patterns::subset::{Subset, SubsetRepository};
use mongodb::bson::{Document, doc};
use mongodb::{Client, Database};

use super::arguments::argument;

/// Returns the database and the name of the follower.
async fn arguments() -> Result<(Database, String)> {
    let (uri, database) = (argument()?, argument()?);
    let database = Client::with_uri_str(uri).await?.database(&database);
    Ok((database, argument()?))
}

/// Returns a function that prints a line when there are more changes.
fn print() -> impl FnMut(u64) {
    let mut last = 0;
    move |changes| {
        if changes > last {
            last = changes;
            println!("{changes} changes");
        }
    }
}

/// The policies of a history.
#[tokio::main(flavor = "current_thread")]
pub(super) async fn policies() -> Result<()> {
    let (database, name) = arguments().await?;
    let [current, revisions] = ["currentPolicies", "policyRevisions"].map(|name| database.collection::<Document>(name));
    let policies = HistoryRepository::<Document>::builder(current, revisions)
        .id_field("policyId")
        .revision_field("revision")
        .time_field("dateSet")
        .build()?;
    let mut print = print();
    policies.follow(name).on_progress(move |at| print(at.changes)).await?;
    Ok(())
}

/// The reviews of a subset.
#[tokio::main(flavor = "current_thread")]
pub(super) async fn reviews() -> Result<()> {
    let (database, name) = arguments().await?;
    let [products, reviews] = ["product", "review"].map(|name| database.collection::<Document>(name));
    let products = SubsetRepository::<Document, Document>::builder(products, reviews)
        .parent_field("product_id")
        .child_id_field("review_id")
        .subset(Subset::new("reviews").sort(doc! { "published_date": -1 }))
        .build()?;
    let mut print = print();
    products.follow(name).on_progress(move |at| print(at.changes)).await?;
    Ok(())
}

/// The orders and customers of references.
#[tokio::main(flavor = "current_thread")]
pub(super) async fn orders() -> Result<()> {
    let (database, name) = arguments().await?;
    let [orders, customers, invoices] =
        ["orders", "customers", "invoices"].map(|name| database.collection::<Document>(name));
    let orders = ReferenceRepository::<Document, Document>::builder(orders, customers)
        .reference_field("customer")
        .copied_fields(["name", "address"])
        .copied_field("contact.mail", "mail")
        .add_reference(Reference::new("products").copied_fields(["name"]).array())
        .add_reference(Reference::new("soldAs").copied_fields(["name"]).snapshot())
        .add_referring(invoices, Reference::new("customer").copied_fields(["name"]))
        .build()?;
    let mut print = print();
    let follow = orders.follow(name).on_missing(OnReferences::KeepCopy);
    follow.on_progress(move |at| print(at.changes)).await?;
    Ok(())
}
