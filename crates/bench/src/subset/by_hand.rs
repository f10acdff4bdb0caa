//! The pattern as one writes it with the driver alone.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use futures::TryStreamExt;
use futures::lock::Mutex;
use mongodb::bson::{Bson, Document, doc, serialize_to_document};
use mongodb::options::{Hint, ReadConcern, ReadPreference, SelectionCriteria};

use super::place::{Place, Product, Review, SIZE, newest_first};

/// The repository's index, by the name that it gives it.
const ORDER_INDEX: &str = "product_id_1_published_date_-1_review_id_-1";

/// What of a review is embedded.
fn embedded() -> Document {
    doc! { "product_id": 0, "_id": 0 }
}

/// A review, and a push to its product: two commands.
pub(super) async fn insert_and_push(place: &Place, review: &Review) -> Result<()> {
    let new = serialize_to_document(review)?;
    place.reviews.insert_one(&new).await?;
    push(place, review.product_id, new).await
}

/// Adds a review to those that a product shows.
pub(super) async fn push(place: &Place, product: i32, mut review: Document) -> Result<()> {
    review.remove("product_id");
    let push = doc! { "$each": [review], "$sort": newest_first(), "$slice": SIZE };
    let push = doc! { "$push": { "reviews": push } };
    place.products.update_one(doc! { "_id": product }, push).await?;
    Ok(())
}

/// The versions of products, as they were left.
#[derive(Clone, Debug, Default)]
pub(super) struct Versions(Arc<Mutex<std::collections::HashMap<i32, i64>>>);

impl Versions {
    pub(super) async fn of(place: &Place) -> Result<Self> {
        let versions = Self::default();
        let mut found = place.products.find(doc! {}).await?;
        while let Some(product) = found.try_next().await? {
            let version = product.get_i64("reviews_version")?;
            versions.0.lock().await.insert(product.get_i32("_id")?, version);
        }
        Ok(versions)
    }
}

/// The repository's insert: the same commands.
pub(super) async fn insert(place: &Place, versions: &Versions, review: &Review) -> Result<()> {
    let id = review.product_id;
    let mut versions = versions.0.lock().await;
    let version = versions.get_mut(&id).context("there is no such product")?;
    place.reviews.clone_with_type::<Review>().insert_many([review]).await?;
    let find = place.reviews.find(doc! { "product_id": { "$eq": id } });
    let find = find.sort(newest_first()).limit(SIZE.into()).batch_size(SIZE);
    let find = find.projection(embedded()).hint(Hint::Name(ORDER_INDEX.to_owned()));
    let find = find.selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary));
    let first: Vec<Document> = find.read_concern(ReadConcern::local()).await?.try_collect().await?;
    let filter = doc! { "_id": { "$eq": id }, "reviews_version": *version };
    let set = doc! { "$set": { "reviews": first, "reviews_version": *version + 1 } };
    let updated = place.products.update_one(filter, set).await?;
    ensure!(updated.matched_count == 1, "somebody else wrote the product");
    *version += 1;
    Ok(())
}

/// The newest reviews of a product, as they are embedded.
pub(super) async fn newest(place: &Place, product: i32, skip: u64) -> Result<Vec<Document>> {
    let find = place.reviews.find(doc! { "product_id": product });
    let find = find.sort(newest_first()).skip(skip).limit(SIZE.into());
    Ok(find.projection(embedded()).await?.try_collect().await?)
}

/// A product without its reviews, and those of a second find.
pub(super) async fn page_by_two_finds(place: &Place, product: i32) -> Result<()> {
    let find = place.products.find_one(doc! { "_id": product });
    let mut found = find
        .projection(doc! { "name": 1 })
        .await?
        .context("there is no such product")?;
    found.insert("reviews", newest(place, product, 0).await?);
    decoded(found)
}

/// A product whose document has all of its reviews.
pub(super) async fn page_of_all_embedded(place: &Place, product: i32, sliced: bool) -> Result<()> {
    let mut find = place.products.find_one(doc! { "_id": product });
    if sliced {
        find = find.projection(doc! { "reviews": { "$slice": SIZE } });
    }
    decoded(find.await?.context("there is no such product")?)
}

fn decoded(product: Document) -> Result<()> {
    let product: Product = mongodb::bson::deserialize_from_document(product)?;
    ensure!(product.reviews.len() >= SIZE as usize, "reviews are missing");
    Ok(())
}

/// All subsets, from the side of the products or from that of the reviews, without a version.
pub(super) async fn rebuild_all(place: &Place, from_reviews: bool) -> Result<()> {
    let (products, reviews) = (place.products.name(), place.reviews.name());
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
        place.reviews.aggregate(stages).allow_disk_use(true).await?;
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
    place.products.aggregate(stages).await?;
    Ok(())
}

/// The ids of the reviews that a product shows.
pub(super) fn shown(product: &Document) -> Vec<i64> {
    let reviews = product.get_array("reviews").into_iter().flatten();
    let reviews = reviews.filter_map(Bson::as_document);
    reviews.filter_map(|review| review.get_i64("review_id").ok()).collect()
}
