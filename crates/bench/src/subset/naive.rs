//! Naive forms of the pattern.

use anyhow::Result;
use mongodb::bson::{Bson, Document, doc, serialize_to_document};

use super::by_hand::{newest, push};
use super::collections::{Collections, Review, SIZE, newest_first};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Naive {
    /// A `$pull`, and a `$push` of the next review.
    PullAndPush,
    /// A read of the newest reviews, and a `$set`.
    ReadAndSet,
    /// A push for an insert, and an aggregation with `$merge` for other changes, without a version.
    PushAndMerge,
}

impl Naive {
    pub(super) async fn insert(self, collections: &Collections, review: &Review) -> Result<()> {
        let new = serialize_to_document(review)?;
        collections.reviews.insert_one(&new).await?;
        match self {
            Self::ReadAndSet => self.refresh(collections, review.product_id, None).await,
            _ => push(collections, review.product_id, new).await,
        }
    }

    pub(super) async fn delete(self, collections: &Collections, product: i32, id: i64) -> Result<()> {
        let filter = doc! { "product_id": product, "review_id": id };
        collections.reviews.delete_one(filter).await?;
        self.refresh(collections, product, Some(id)).await
    }

    pub(super) async fn update(self, collections: &Collections, product: i32, id: i64, set: Document) -> Result<()> {
        let filter = doc! { "product_id": product, "review_id": id };
        collections.reviews.update_one(filter, doc! { "$set": set }).await?;
        self.refresh(collections, product, Some(id)).await
    }

    /// Refreshes the subset of a product, after a review was deleted or changed.
    async fn refresh(self, collections: &Collections, product: i32, changed: Option<i64>) -> Result<()> {
        match self {
            Self::PullAndPush => {
                let pull = doc! { "$pull": { "reviews": { "review_id": changed } } };
                collections.products.update_one(doc! { "_id": product }, pull).await?;
                // The changed review if it is still among the newest, and the next one.
                let shown = collections
                    .products
                    .find_one(doc! { "_id": product })
                    .await?
                    .unwrap_or_default();
                let shown = super::by_hand::shown(&shown);
                for review in newest(collections, product, 0).await? {
                    if !shown.contains(&review.get_i64("review_id")?) {
                        push(collections, product, review).await?;
                    }
                }
            }
            Self::ReadAndSet => {
                let newest = newest(collections, product, 0).await?.into_iter().map(Bson::Document);
                let set = doc! { "$set": { "reviews": newest.collect::<Vec<_>>() } };
                collections.products.update_one(doc! { "_id": product }, set).await?;
            }
            Self::PushAndMerge => {
                let stages = [
                    doc! { "$match": { "product_id": product } },
                    doc! { "$sort": newest_first() },
                    doc! { "$limit": SIZE },
                    doc! { "$project": { "_id": 0, "product_id": 0 } },
                    doc! { "$group": { "_id": product, "reviews": { "$push": "$$ROOT" } } },
                    doc! { "$merge": { "into": collections.products.name() } },
                ];
                collections.reviews.aggregate(stages).await?;
            }
        }
        Ok(())
    }
}
