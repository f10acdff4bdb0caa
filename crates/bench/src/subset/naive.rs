//! The forms that one would write first.

use anyhow::Result;
use mongodb::bson::{Bson, Document, doc, serialize_to_document};

use super::by_hand::{newest, push};
use super::place::{Place, Review, SIZE, newest_first};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Naive {
    /// A `$pull`, and a `$push` of the review that comes up.
    PullAndPush,
    /// The newest reviews are read, and written with `$set`.
    ReadAndSet,
    /// An insert is a push, and all else an aggregation with `$merge`, without a version.
    PushAndMerge,
}

impl Naive {
    pub(super) async fn insert(self, place: &Place, review: &Review) -> Result<()> {
        let new = serialize_to_document(review)?;
        place.reviews.insert_one(&new).await?;
        match self {
            Self::ReadAndSet => self.refresh(place, review.product_id, None).await,
            _ => push(place, review.product_id, new).await,
        }
    }

    pub(super) async fn delete(self, place: &Place, product: i32, id: i64) -> Result<()> {
        let filter = doc! { "product_id": product, "review_id": id };
        place.reviews.delete_one(filter).await?;
        self.refresh(place, product, Some(id)).await
    }

    pub(super) async fn update(self, place: &Place, product: i32, id: i64, set: Document) -> Result<()> {
        let filter = doc! { "product_id": product, "review_id": id };
        place.reviews.update_one(filter, doc! { "$set": set }).await?;
        self.refresh(place, product, Some(id)).await
    }

    /// What the product shows, after a review was deleted or changed.
    async fn refresh(self, place: &Place, product: i32, changed: Option<i64>) -> Result<()> {
        match self {
            Self::PullAndPush => {
                let pull = doc! { "$pull": { "reviews": { "review_id": changed } } };
                place.products.update_one(doc! { "_id": product }, pull).await?;
                // the changed one, if it is still among the newest, and the one that came up
                let shown = place
                    .products
                    .find_one(doc! { "_id": product })
                    .await?
                    .unwrap_or_default();
                let shown = super::by_hand::shown(&shown);
                for review in newest(place, product, 0).await? {
                    if !shown.contains(&review.get_i64("review_id")?) {
                        push(place, product, review).await?;
                    }
                }
            }
            Self::ReadAndSet => {
                let newest = newest(place, product, 0).await?.into_iter().map(Bson::Document);
                let set = doc! { "$set": { "reviews": newest.collect::<Vec<_>>() } };
                place.products.update_one(doc! { "_id": product }, set).await?;
            }
            Self::PushAndMerge => {
                let stages = [
                    doc! { "$match": { "product_id": product } },
                    doc! { "$sort": newest_first() },
                    doc! { "$limit": SIZE },
                    doc! { "$project": { "_id": 0, "product_id": 0 } },
                    doc! { "$group": { "_id": product, "reviews": { "$push": "$$ROOT" } } },
                    doc! { "$merge": { "into": place.products.name() } },
                ];
                place.reviews.aggregate(stages).await?;
            }
        }
        Ok(())
    }
}
