//! A process that follows the orders and customers of the database in its arguments, for the tests that kill one. It prints
//! a line after each batch.

use mongo_patterns::reference::{OnReferences, Reference, ReferenceRepository};
use mongodb::Client;
use mongodb::bson::Document;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = || arguments.next().ok_or("arguments: connection string, database, name");
    let (uri, database, name) = (argument()?, argument()?, argument()?);
    let database = Client::with_uri_str(uri).await?.database(&database);
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
    let mut changes = 0;
    let follow = orders.follow(name).on_missing(OnReferences::KeepCopy);
    let follow = follow.on_progress(move |at| {
        if at.changes > changes {
            changes = at.changes;
            println!("{changes} changes");
        }
    });
    follow.await?;
    Ok(())
}
