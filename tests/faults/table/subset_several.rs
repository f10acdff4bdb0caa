//! Several subsets of one parent: the same products and reviews, of which a product also shows the oldest one.

use mongo_patterns::subset::{Direction, Subset, SubsetRepositoryBuilder};
use mongodb::bson::{Bson, Document, doc};

use support::subset::{Product, Products, Review};

pub(super) fn repository(builder: SubsetRepositoryBuilder<Product, Review>) -> Products {
    let oldest = Subset::new("oldest").order_by("published_date", Direction::Ascending);
    let oldest = oldest.size(1).filter(doc! { "review_id": { "$gte": 0 } });
    builder.subset(oldest).build().unwrap()
}

/// Returns whether a product has a second subset.
pub(super) fn has_oldest(product: &Document) -> bool {
    product.contains_key("oldest")
}

/// Returns whether the second subset of a product is that of its reviews.
pub(super) fn is_oldest_correct(product: &Document, reviews: &[Document]) -> bool {
    let id = product.get("_id");
    let of_product = reviews.iter().filter(|review| review.get("product_id") == id);
    let oldest = of_product.min_by_key(|review| {
        let date = *review.get_datetime("published_date").unwrap();
        (date, review.get_i32("review_id").unwrap())
    });
    let oldest = oldest.map(|review| {
        let mut review = review.clone();
        review.remove("_id");
        review.remove("product_id");
        Bson::Document(review)
    });
    let stored = product.get_array("oldest").into_iter().flatten();
    stored.eq(&oldest)
}
