//! The pattern written with the driver only.

use anyhow::{Context, Result, ensure};
use futures::TryStreamExt;
use mongodb::bson::{Document, doc, serialize_to_document};
use mongodb::options::{Hint, ReadConcern, ReadPreference, SelectionCriteria, TransactionOptions};

use super::collections::{Collections, Product, Review, SIZE, newest_first};

/// The repository's index, by its name.
const ORDER_INDEX: &str = "product_id_1_published_date_-1_review_id_-1";

/// Returns the projection of the embedded fields of a review.
fn embedded() -> Document {
    doc! { "product_id": 0, "_id": 0 }
}

/// Inserts a review, and pushes it to its product: two commands.
pub(super) async fn insert_and_push(collections: &Collections, review: &Review) -> Result<()> {
    let new = serialize_to_document(review)?;
    collections.reviews.insert_one(&new).await?;
    push(collections, review.product_id, new).await
}

/// Adds a review to the subset of a product.
pub(super) async fn push(collections: &Collections, product: i32, mut review: Document) -> Result<()> {
    review.remove("product_id");
    let push = doc! { "$each": [review], "$sort": newest_first(), "$slice": SIZE };
    let push = doc! { "$push": { "reviews": push } };
    collections.products.update_one(doc! { "_id": product }, push).await?;
    Ok(())
}

/// Inserts with the commands of the repository.
pub(super) async fn insert(collections: &Collections, review: &Review) -> Result<()> {
    let id = review.product_id;
    let mut session = collections.products.client().start_session().await?;
    let snapshot = TransactionOptions::builder()
        .read_concern(ReadConcern::snapshot())
        .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
        .build();
    session.start_transaction().with_options(snapshot).await?;
    let reviews = collections.reviews.clone_with_type::<Review>();
    reviews.insert_many([review]).session(&mut session).await?;
    let find = collections.reviews.find(doc! { "product_id": { "$eq": id } });
    let find = find.sort(newest_first()).limit(SIZE.into()).batch_size(SIZE);
    let find = find.projection(embedded()).hint(Hint::Name(ORDER_INDEX.to_owned()));
    let mut first = find.session(&mut session).await?;
    let first: Vec<Document> = first.stream(&mut session).try_collect().await?;
    let is_version = doc! { "$type": ["int", "long"], "$lt": i64::MAX };
    let filter = doc! { "_id": { "$eq": id }, "reviews_version": is_version };
    let set = doc! { "$set": { "reviews": first }, "$inc": { "reviews_version": 1_i64 } };
    let updated = collections
        .products
        .update_one(filter, set)
        .session(&mut session)
        .await?;
    ensure!(updated.matched_count == 1, "the product does not exist");
    session.commit_transaction().await?;
    Ok(())
}

/// Returns the newest reviews of a product, as they are embedded.
pub(super) async fn newest(collections: &Collections, product: i32, skip: u64) -> Result<Vec<Document>> {
    let find = collections.reviews.find(doc! { "product_id": product });
    let find = find.sort(newest_first()).skip(skip).limit(SIZE.into());
    Ok(find.projection(embedded()).await?.try_collect().await?)
}

/// Reads a product without its reviews, and these by a second find.
pub(super) async fn page_by_two_finds(collections: &Collections, product: i32) -> Result<()> {
    let find = collections.products.find_one(doc! { "_id": product });
    let mut found = find
        .projection(doc! { "name": 1 })
        .await?
        .context("the product does not exist")?;
    found.insert("reviews", newest(collections, product, 0).await?);
    decoded(found)
}

/// Reads a product whose document has all of its reviews.
pub(super) async fn page_of_all_embedded(collections: &Collections, product: i32, sliced: bool) -> Result<()> {
    let mut find = collections.products.find_one(doc! { "_id": product });
    if sliced {
        find = find.projection(doc! { "reviews": { "$slice": SIZE } });
    }
    decoded(find.await?.context("the product does not exist")?)
}

fn decoded(product: Document) -> Result<()> {
    let product: Product = mongodb::bson::deserialize_from_document(product)?;
    ensure!(product.reviews.len() >= SIZE as usize, "reviews are missing");
    Ok(())
}

/// Rebuilds all subsets, from the products or from the reviews, without a version.
pub(super) async fn rebuild_all(collections: &Collections, from_reviews: bool) -> Result<()> {
    let (products, reviews) = (collections.products.name(), collections.reviews.name());
    let merge = doc! { "$merge": { "into": products, "on": "_id", "whenNotMatched": "discard" } };
    if from_reviews {
        let stages = [
            doc! { "$group": { "_id": "$product_id", "reviews": { "$topN": {
                "n": SIZE,
                "sortBy": newest_first(),
                "output": "$$ROOT",
            } } } },
            doc! { "$unset": ["reviews._id", "reviews.product_id"] },
            merge,
        ];
        collections.reviews.aggregate(stages).allow_disk_use(true).await?;
        return Ok(());
    }
    let first = [
        doc! { "$match": { "$expr": { "$eq": ["$product_id", "$$id"] } } },
        doc! { "$sort": newest_first() },
        doc! { "$limit": SIZE },
        doc! { "$project": embedded() },
    ];
    let lookup = doc! { "from": reviews, "let": { "id": "$_id" }, "pipeline": first.to_vec(), "as": "reviews" };
    let stages = [doc! { "$project": { "_id": 1 } }, doc! { "$lookup": lookup }, merge];
    collections.products.aggregate(stages).await?;
    Ok(())
}
