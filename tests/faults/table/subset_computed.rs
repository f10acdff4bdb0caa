//! Subsets with figures: the same products and reviews, of which a product also stores figures of all.

use mongo_patterns::subset::SubsetRepositoryBuilder;
use mongodb::bson::{Bson, Document, doc};

use support::subset::{Product, Products, Review};

pub(super) fn repository(builder: SubsetRepositoryBuilder<Product, Review>) -> Products {
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
