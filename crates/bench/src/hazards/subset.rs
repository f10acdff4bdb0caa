//! Reviews of products, which embed their ten newest. Seven in ten operations insert a review, and three edit the newest
//! one.

mod check;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use anyhow::Result;
use futures::TryStreamExt;
use mongo_patterns_core::{ErrorKind, Repository};
use mongo_patterns_subset::{Subset, SubsetRepository};
use mongodb::bson::{DateTime, Document, doc};
use mongodb::{Collection, Database, IndexModel};

use super::load::{Answer, Failure, Ledger, Write, write};
use super::recipe::{Hazards, Source};
use super::stored::all;
use crate::bucket::scatter;
use check::{SIZE, TOTAL, embedded, is_insert};

const PRODUCTS: i64 = 40;
/// The id of the first review that exists before the load. Those of the load are the numbers of their operations.
const EXISTING: i64 = 1_000_000;
const PARENTS: &str = "product";
const CHILDREN: &str = "review";

type Products = SubsetRepository<Document, Document>;

fn products(database: &Database) -> Result<Products> {
    let (products, reviews) = (
        database.collection::<Document>(PARENTS),
        database.collection::<Document>(CHILDREN),
    );
    let builder = Products::builder(products, reviews)
        .parent_field("product_id")
        .child_id_field("review_id")
        .subset(Subset::new("reviews").sort(doc! { "published_date": -1 }).size(SIZE))
        .total_field(TOTAL);
    Ok(builder.build()?)
}

fn newest_first() -> Document {
    doc! { "published_date": -1, "review_id": -1 }
}

fn review(product: i64, id: i64, date: DateTime) -> Document {
    doc! {
        "review_id": id,
        "product_id": product,
        "review_author": "Kristina",
        "review_text": "This is indeed an amazing widget.",
        "published_date": date,
    }
}

fn existing(product: i64) -> Vec<Document> {
    let newest_first = (0..i64::from(SIZE)).rev();
    let first = DateTime::from_millis(1_548_979_200_000).timestamp_millis();
    newest_first
        .map(|n| {
            review(
                product,
                EXISTING + product * i64::from(SIZE) + n,
                DateTime::from_millis(first + n),
            )
        })
        .collect()
}

pub(super) async fn prepare(source: Source, database: &Database) -> Result<()> {
    database.create_collection(PARENTS).await?;
    database.create_collection(CHILDREN).await?;
    let reviews = database.collection::<Document>(CHILDREN);
    let parents = database.collection::<Document>(PARENTS);
    match source {
        Source::Ours => drop(products(database)?.ensure_indexes().await?),
        _ => {
            let keys = doc! { "product_id": 1, "published_date": -1, "review_id": -1 };
            reviews.create_index(IndexModel::builder().keys(keys).build()).await?;
        }
    }
    for id in 0..PRODUCTS {
        let existing = existing(id);
        let subset: Vec<Document> = existing.iter().map(embedded).collect();
        let mut product = doc! { "_id": id, "name": "Super Widget", "reviews": subset };
        if source == Source::AgentSkills {
            product.insert(TOTAL, existing.len() as i32);
        }
        parents.insert_one(product).await?;
        reviews.insert_many(existing).await?;
    }
    if source == Source::Ours {
        products(database)?.refresh_all().await?;
    }
    Ok(())
}

/// Returns the product of an operation.
fn product(number: u64) -> i64 {
    (scatter(number) % PRODUCTS as u64) as i64
}

pub(super) fn writes(source: Source, databases: &[Database]) -> Result<Vec<Write>> {
    let newest: Arc<[AtomicI64]> = (0..PRODUCTS)
        .map(|product| AtomicI64::new(EXISTING + (product + 1) * i64::from(SIZE) - 1))
        .collect();
    let of_client = |database: &Database| {
        let collections = Collections {
            products: database.collection(PARENTS),
            reviews: database.collection(CHILDREN),
        };
        let (ours, newest) = (products(database)?, Arc::clone(&newest));
        Ok(write(move |number| {
            let (collections, ours, newest) = (collections.clone(), ours.clone(), Arc::clone(&newest));
            async move {
                let product = product(number);
                let newest = &newest[product as usize];
                if is_insert(number) {
                    let new = review(product, number as i64, DateTime::now());
                    match source {
                        Source::AgentSkills => collections.push_and_insert(product, &new).await?,
                        Source::Ours => match ours.insert(&new).await {
                            // The first attempt has stored it.
                            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                            inserted => drop(inserted?),
                        },
                        _ => {
                            collections.insert_and_push(product, &new).await?;
                        }
                    }
                    newest.store(number as i64, Ordering::Relaxed);
                    return Ok(Answer::Done);
                }
                let (id, text) = (newest.load(Ordering::Relaxed), format!("Edit {number}."));
                match source {
                    Source::AgentSkills => collections.edit_and_refresh(product, id, &text).await?,
                    Source::Ours => drop(
                        ours.update(product, id, doc! { "$set": { "review_text": text } })
                            .await?,
                    ),
                    _ => {
                        collections.edit_both(product, id, &text).await?;
                    }
                }
                Ok(Answer::Done)
            }
        }))
    };
    databases.iter().map(of_client).collect()
}

#[derive(Clone)]
struct Collections {
    products: Collection<Document>,
    reviews: Collection<Document>,
}

impl Collections {
    /// Follows the manual, "Model One-to-Many Relationships with Embedded Documents", its section on the subset pattern:
    /// a review is in both collections, and the product has the newest ten.
    async fn insert_and_push(&self, product: i64, review: &Document) -> Result<(), Failure> {
        self.reviews.insert_one(review).await?;
        let push = doc! { "$push": { "reviews": pushed(review) } };
        self.products.update_one(doc! { "_id": product }, push).await?;
        Ok(())
    }

    /// Follows the manual: an edit takes one write to each collection.
    async fn edit_both(&self, product: i64, id: i64, text: &str) -> Result<(), Failure> {
        let set = doc! { "$set": { "review_text": text } };
        let child = doc! { "product_id": product, "review_id": id };
        self.reviews.update_one(child, set).await?;
        let set = doc! { "$set": { "reviews.$.review_text": text } };
        let parent = doc! { "_id": product, "reviews.review_id": id };
        self.products.update_one(parent, set).await?;
        Ok(())
    }

    /// Follows `mongodb/agent-skills`, `mongodb-schema-design/references/fundamental-document-size.md`, "Maintaining an
    /// embedded subset": a push with `$slice` and a total, and then the insert. There the slice is negative after a
    /// descending sort, which keeps the oldest; here it keeps the newest.
    async fn push_and_insert(&self, product: i64, review: &Document) -> Result<(), Failure> {
        let push = doc! { "$push": { "reviews": pushed(review) }, "$inc": { TOTAL: 1 } };
        self.products.update_one(doc! { "_id": product }, push).await?;
        self.reviews.insert_one(review).await?;
        Ok(())
    }

    /// Follows the same document: the refresh of its background job, after each edit.
    async fn edit_and_refresh(&self, product: i64, id: i64, text: &str) -> Result<(), Failure> {
        let set = doc! { "$set": { "review_text": text } };
        let child = doc! { "product_id": product, "review_id": id };
        self.reviews.update_one(child, set).await?;
        let newest = self.reviews.find(doc! { "product_id": product });
        let newest = newest.sort(newest_first()).limit(i64::from(SIZE));
        let newest = newest.projection(doc! { "_id": 0, "product_id": 0 }).await?;
        let newest: Vec<Document> = newest.try_collect().await?;
        let set = doc! { "$set": { "reviews": newest } };
        self.products.update_one(doc! { "_id": product }, set).await?;
        Ok(())
    }
}

fn pushed(review: &Document) -> Document {
    doc! { "$each": [embedded(review)], "$sort": newest_first(), "$slice": SIZE }
}

pub(super) async fn check(source: Source, database: &Database, ledger: &Ledger) -> Result<Hazards> {
    let (products, reviews) = (all(database, PARENTS).await?, all(database, CHILDREN).await?);
    let has_total = matches!(source, Source::AgentSkills | Source::Ours);
    check::hazards(has_total, &products, &reviews, ledger)
}
