//! The latency of a push.

use anyhow::Result;
use futures::FutureExt;
use mongodb::bson::doc;

use super::by_hand;
use super::collections::{Collections, book, operation, user};
use crate::bench::Bench;
use crate::latency::{Form, compare_latencies};
use crate::measure::Operation;
use crate::report::Section;

const TEXT: &str = "\
Tasks push customers, one after another each: first to 1,000 books in turn, which stay typical ones, then all to one \
book, which becomes an outlier at its 51st customer. The rows by hand send the same commands to the typical books, and \
`$push` to one unbounded array of the one book. The client has a connection for each task. The percentiles are of all \
rounds.";

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let mut section = Section::new("push-latency", "Latency of a push", TEXT);
    for (title, books) in [("1,000 books", 1000), ("One book", 1)] {
        let forms = [("push", true), ("by hand", false)].map(|(name, ours)| {
            let collections = Collections::wide(bench, if ours { "latency" } else { "latency_by_hand" });
            Form {
                name,
                ours,
                prepare: Box::new(move |_| prepare(collections.clone(), ours, books).boxed()),
            }
        });
        section.add(&compare_latencies(bench, title, "purchase", &forms).await?);
    }
    Ok(section)
}

/// Creates the books, and returns the operation that pushes a customer to one of them.
async fn prepare(collections: Collections, ours: bool, books: u64) -> Result<Operation> {
    let repository = collections.fresh().await?;
    collections
        .insert_unbounded((0..books).map(|id| book(id as i32, 0)))
        .await?;
    Ok(operation(move |n| {
        let (collections, repository) = (collections.clone(), repository.clone());
        async move {
            let (id, user) = ((n % books) as i32, user(n));
            if ours {
                repository.push(id, &user).await?;
            } else if books > 1 {
                by_hand::push(&collections, id, &user).await?;
            } else {
                let push = doc! { "$push": { "customers_purchased": user } };
                collections.sales.update_one(doc! { "_id": id }, push).await?;
            }
            Ok(())
        }
    }))
}
