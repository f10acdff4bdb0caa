//! Products with figures, and with two subsets: their settings, and what they must show.

use mongo_patterns::subset::{Subset, SubsetRepositoryBuilder};
use mongodb::bson::{Bson, Document, doc};

use support::subset::{Product, Products, Review};

/// Returns a repository of the same products and reviews, of which a product also stores figures of all.
pub(super) fn computed(builder: SubsetRepositoryBuilder<Product, Review>) -> Products {
    let builder = builder.sum("review_id", "id_sum").count_by("review_author", "authors");
    builder.max("published_date", "newest").build().unwrap()
}

/// Returns whether a product stores figures.
pub(super) fn has_figures(product: &Document) -> bool {
    product.contains_key("id_sum")
}

/// Returns whether the figures of a product are those of its reviews.
pub(super) fn are_figures_correct(product: &Document, reviews: &[Document]) -> bool {
    let id = product.get("_id");
    let reviews: Vec<&Document> = reviews.iter().filter(|review| review.get("product_id") == id).collect();
    let sum: i32 = reviews.iter().map(|review| review.get_i32("review_id").unwrap()).sum();
    let newest = reviews
        .iter()
        .map(|review| *review.get_datetime("published_date").unwrap())
        .max();
    let authors: Vec<Bson> = match reviews.len() {
        0 => Vec::new(),
        count => vec![doc! { "value": "Kristina", "count": count as i64 }.into()],
    };
    product.get_i32("id_sum").ok() == Some(sum)
        && product.get_array("authors").ok() == Some(&authors)
        && product.get_datetime("newest").ok() == newest.as_ref()
}

/// The same, of which a product also shows the oldest one.
pub(super) fn several(builder: SubsetRepositoryBuilder<Product, Review>) -> Products {
    let oldest = Subset::new("oldest").sort(doc! { "published_date": 1 });
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
