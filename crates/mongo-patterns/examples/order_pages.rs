//! Pages of orders by their rank, which several orders share and some do not have, while others insert and delete.
//!
//! `cargo run --example order_pages`

mod support;

use anyhow::{Context, Result};
use mongo_patterns::list::Page;
use mongo_patterns::prelude::*;
use mongodb::bson::{Bson, Document, doc};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Order {
    #[serde(rename = "_id")]
    id: i32,
    #[serde(default)]
    rank: Bson,
}

fn print(title: &str, page: &Page<Order, DocumentToken>) {
    let orders = page.items.iter().map(|order| format!("{} ({})", order.id, order.rank));
    println!("{title}: {}", orders.collect::<Vec<_>>().join(", "));
}

#[tokio::main]
async fn main() -> Result<()> {
    let (database, recorder) = support::open_recorded("order_pages").await?;
    let orders = database.collection::<Document>("orders");
    let of_tenant = Pages::<Order>::over(orders.clone())
        .filter(doc! { "tenant": 7 })
        .sort(doc! { "rank": 1 })
        .build()?;
    println!("{}\n", of_tenant.index());
    of_tenant.ensure_index().await?;

    let ranks = [
        Bson::Int32(2),
        "gold".into(),
        Bson::Int32(1),
        Bson::Null,
        Bson::Int32(2),
        1.5.into(),
        Bson::Int32(2),
    ];
    let stored = (1..)
        .zip(ranks)
        .map(|(id, rank)| doc! { "_id": id, "tenant": 7, "rank": rank });
    orders.insert_many(stored).await?;
    orders.insert_one(doc! { "_id": 8, "tenant": 7 }).await?;
    orders.insert_one(doc! { "_id": 9, "tenant": 8, "rank": 2 }).await?;

    recorder.clear();
    let first = of_tenant.list().limit(3).page().await?;
    print("The first page", &first);
    println!("On the wire: {}\n", recorder.names().join(", "));

    // The link of a web service.
    let link = first.next.context("there are more")?.to_string();
    orders.delete_one(doc! { "_id": 3 }).await?;
    orders.insert_one(doc! { "_id": 10, "tenant": 7, "rank": 0 }).await?;
    println!("Order 3 is deleted, and an order of rank 0 is inserted before the position.");
    let after: DocumentToken = link.parse()?;
    let second = of_tenant.list().limit(3).after(after).page().await?;
    print("The second page", &second);
    let third = of_tenant.list().limit(3).after(second.next).page().await?;
    print("The third page", &third);
    println!("More: {}\n", third.next.is_some());

    let back = of_tenant.list().limit(3).before(second.previous).page().await?;
    print("Back before the second page", &back);

    let of_another = Pages::<Order>::over(orders)
        .filter(doc! { "tenant": 8 })
        .sort(doc! { "rank": 1 })
        .build()?;
    let refused = of_another
        .list()
        .after(third.previous)
        .page()
        .await
        .err()
        .context("it is refused")?;
    println!("The token for another tenant: {}", refused.kind().code());
    Ok(())
}
