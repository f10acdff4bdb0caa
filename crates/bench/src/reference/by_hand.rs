//! The same calls by the driver alone.

use anyhow::Result;
use futures::FutureExt;
use mongodb::ClientSession;
use mongodb::bson::doc;
use mongodb::error::Error;

use super::orders::{Orders, name, rename};

/// Renames a customer, and then their copies.
pub(super) async fn rename_all(orders: &Orders, customer: i64, number: u64) -> Result<()> {
    let mut session = orders.orders.client().start_session().await?;
    Ok(rename_in(orders, customer, number, &mut session).await?)
}

async fn rename_in(orders: &Orders, customer: i64, number: u64, session: &mut ClientSession) -> Result<(), Error> {
    let renamed = orders.customers.update_one(doc! { "_id": customer }, rename(number));
    renamed.session(&mut *session).await?;
    let set = doc! { "$set": { "customer.name": name(number) } };
    let copies = orders.orders.update_many(doc! { "customer._id": customer }, set);
    copies.session(session).await?;
    Ok(())
}

/// Renames a customer and their copies in a transaction, which the driver retries after a conflict.
pub(super) async fn rename_in_a_transaction(orders: &Orders, customer: i64, number: u64) -> Result<()> {
    let mut session = orders.orders.client().start_session().await?;
    let run = session
        .start_transaction()
        .and_run(orders.clone(), move |session, orders| {
            rename_in(orders, customer, number, session).boxed()
        });
    Ok(run.await?)
}
