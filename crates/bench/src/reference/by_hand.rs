//! The same calls by the driver alone.

use std::collections::HashMap;

use anyhow::{Context, Result};
use futures::{FutureExt, TryStreamExt};
use mongodb::bson::{Document, doc};
use mongodb::error::Error;
use mongodb::{ClientSession, Collection};

use super::orders::{Orders, copy, name, order, rename};

/// Reads orders, and then their customers.
pub(super) async fn two_finds(orders: &Orders, filter: Document, limit: i64) -> Result<Vec<Document>> {
    let mut found = find(&orders.orders, filter, limit).await?;
    let ids: Vec<i64> = found.iter().map(id_of).collect::<Result<_>>()?;
    let customers = orders.customers.find(doc! { "_id": { "$in": &ids } });
    let fields = doc! { "name": 1, "address": 1 };
    let customers: Vec<Document> = customers.projection(fields).await?.try_collect().await?;
    let by_id: HashMap<i64, Document> = customers
        .into_iter()
        .map(|customer| Ok((customer.get_i64("_id")?, customer)))
        .collect::<Result<_>>()?;
    for (order, id) in found.iter_mut().zip(ids) {
        let customer = by_id.get(&id).context("the customer does not exist")?;
        order.insert("customer", customer.clone());
    }
    Ok(found)
}

fn id_of(order: &Document) -> Result<i64> {
    Ok(order.get_document("customer")?.get_i64("_id")?)
}

/// Reads orders with their customers.
pub(super) async fn lookup(orders: &Orders, filter: Document, limit: i64) -> Result<Vec<Document>> {
    let customers = doc! {
        "from": orders.customers.name(),
        "localField": "customer._id",
        "foreignField": "_id",
        "pipeline": [{ "$project": { "name": 1, "address": 1 } }],
        "as": "customer",
    };
    let found = orders.orders.aggregate([
        doc! { "$match": filter },
        doc! { "$limit": limit },
        doc! { "$lookup": customers },
    ]);
    Ok(found.await?.try_collect().await?)
}

/// Reads orders with the copies of their customers.
pub(super) async fn find(orders: &Collection<Document>, filter: Document, limit: i64) -> Result<Vec<Document>> {
    Ok(orders.find(filter).limit(limit).await?.try_collect().await?)
}

/// Inserts an order with a copy of its customer.
pub(super) async fn insert(orders: &Orders, id: &str, customer: i64) -> Result<()> {
    let mut session = orders.orders.client().start_session().await?;
    Ok(insert_in(orders, id, customer, &mut session).await?)
}

async fn insert_in(orders: &Orders, id: &str, customer: i64, session: &mut ClientSession) -> Result<(), Error> {
    let found = orders.customers.find_one(doc! { "_id": customer });
    let found = found.session(&mut *session).await?;
    let found = found.ok_or_else(|| Error::custom("the customer is missing"))?;
    let order = order(id, copy(&found));
    orders.orders.insert_one(order).session(session).await?;
    Ok(())
}

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

/// Inserts an order in a transaction, which the driver retries after a conflict.
pub(super) async fn insert_in_a_transaction(orders: &Orders, id: &str, customer: i64) -> Result<()> {
    let mut session = orders.orders.client().start_session().await?;
    let context = (orders.clone(), id.to_owned());
    let run = session
        .start_transaction()
        .and_run(context, move |session, (orders, id)| {
            async move { insert_in(orders, id, customer, session).await }.boxed()
        });
    Ok(run.await?)
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
