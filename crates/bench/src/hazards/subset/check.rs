//! The check of products and their reviews.

use std::collections::{BTreeMap, HashSet};

use anyhow::Result;
use mongodb::bson::{Bson, DateTime, Document};

use super::super::load::Ledger;
use super::super::recipe::Hazards;
use super::super::stored::{Times, elements, integer};
use crate::bucket::scatter;

/// The size of the subset.
pub(super) const SIZE: u32 = 10;
/// The field of the number of reviews, where a recipe has one.
pub(super) const TOTAL: &str = "reviews_total";

/// Returns a review as its product embeds it.
pub(super) fn embedded(review: &Document) -> Document {
    let mut embedded = review.clone();
    embedded.remove("_id");
    embedded.remove("product_id");
    embedded
}

/// Returns whether an operation inserts. The others edit.
pub(super) fn is_insert(number: u64) -> bool {
    (scatter(number) >> 16) % 10 < 7
}

/// A product is stale if its subset is not that of its newest reviews, field by field, or if its total is not their
/// number. It is wrong if its subset is too long, has a review twice, or has one that does not exist. Reviews that are
/// stored twice count as one here.
pub(super) fn hazards(
    has_total: bool,
    products: &[Document],
    reviews: &[Document],
    ledger: &Ledger,
) -> Result<Hazards> {
    let mut times = Times::default();
    let mut of_products: BTreeMap<i64, BTreeMap<(DateTime, i64), &Document>> = BTreeMap::new();
    for review in reviews {
        let id = integer(review, "review_id")?;
        let is_new = !times.contains(id);
        times.add(id);
        let of_product = of_products.entry(integer(review, "product_id")?).or_default();
        if is_new {
            of_product.insert((*review.get_datetime("published_date")?, id), review);
        }
    }
    let (mut stale, mut wrong) = (0, 0);
    for product in products {
        let reviews = of_products.remove(&integer(product, "_id")?).unwrap_or_default();
        let subset: Vec<&Document> = elements(product, "reviews")?
            .iter()
            .filter_map(Bson::as_document)
            .collect();
        let newest = reviews.values().rev().take(SIZE as usize);
        let is_current = newest
            .map(|review| embedded(review))
            .eq(subset.iter().copied().cloned());
        let is_total = !has_total || integer(product, TOTAL)? == reviews.len() as i64;
        stale += u64::from(!is_current || !is_total);
        let mut seen = HashSet::new();
        let mut is_wrong = subset.len() > SIZE as usize;
        for review in subset {
            let id = integer(review, "review_id")?;
            is_wrong |= !seen.insert(id) || !times.contains(id);
        }
        wrong += u64::from(is_wrong);
    }
    // The reviews of products that do not exist.
    wrong += of_products.values().map(|reviews| reviews.len() as u64).sum::<u64>();
    Ok(Hazards {
        lost: times.lost(ledger, is_insert),
        doubled: times.doubled(),
        stale: Some(stale),
        gaps: None,
        wrong,
    })
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::super::super::load::Fate;
    use super::super::{existing, review};
    use super::*;

    /// Returns a product of eleven reviews, newest first, of which it embeds ten.
    fn stored() -> (Document, Vec<Document>) {
        let mut reviews = existing(1);
        reviews.push(review(1, 2_000_000, DateTime::from_millis(0)));
        let subset: Vec<Document> = reviews.iter().take(10).map(embedded).collect();
        (doc! { "_id": 1_i64, "reviews": subset, TOTAL: 11 }, reviews)
    }

    fn found(product: &Document, reviews: &[Document]) -> Hazards {
        hazards(true, std::slice::from_ref(product), reviews, &Ledger::of(&[])).unwrap()
    }

    fn counts(stale: u64, doubled: u64, wrong: u64) -> Hazards {
        Hazards {
            lost: 0,
            doubled,
            stale: Some(stale),
            gaps: None,
            wrong,
        }
    }

    fn subset(product: &mut Document) -> &mut Vec<Bson> {
        product.get_array_mut("reviews").unwrap()
    }

    #[test]
    fn the_newest_reviews_are_correct() {
        let (product, reviews) = stored();
        assert_eq!(found(&product, &reviews), counts(0, 0, 0));
    }

    #[test]
    fn lost_reviews_are_found() {
        let number = (0..).find(|number| is_insert(*number)).unwrap();
        let mut fates = vec![Fate::Unknown; number as usize];
        fates.push(Fate::Acknowledged);
        let (product, mut reviews) = stored();
        let find = |reviews: &[Document]| {
            hazards(false, std::slice::from_ref(&product), reviews, &Ledger::of(&fates)).unwrap()
        };
        assert_eq!(find(&reviews).lost, 1);
        reviews.push(review(1, number as i64, DateTime::from_millis(0)));
        assert_eq!(find(&reviews).lost, 0);
    }

    #[test]
    fn stale_products_are_found() {
        let (mut product, mut reviews) = stored();
        reviews[3].insert("review_text", "Edit 5.");
        assert_eq!(found(&product, &reviews), counts(1, 0, 0));
        subset(&mut product)[3] = embedded(&reviews[3]).into();
        assert_eq!(found(&product, &reviews), counts(0, 0, 0));
        product.insert(TOTAL, 10);
        assert_eq!(found(&product, &reviews), counts(1, 0, 0));
        product.insert(TOTAL, 11);
        subset(&mut product).swap(0, 1);
        assert_eq!(found(&product, &reviews), counts(1, 0, 0));
        subset(&mut product).swap(0, 1);
        subset(&mut product).pop();
        assert_eq!(found(&product, &reviews), counts(1, 0, 0));
    }

    #[test]
    fn doubled_reviews_are_found() {
        let (product, mut reviews) = stored();
        reviews.push(reviews[2].clone());
        assert_eq!(found(&product, &reviews), counts(0, 1, 0));
    }

    #[test]
    fn wrong_products_are_found() {
        let (mut product, mut reviews) = stored();
        let first = subset(&mut product)[0].clone();
        subset(&mut product).insert(0, first);
        assert_eq!(found(&product, &reviews), counts(1, 0, 1));
        let (mut product, _) = stored();
        let without_child = embedded(&review(1, 3_000_000, DateTime::from_millis(1)));
        subset(&mut product)[9] = without_child.into();
        assert_eq!(found(&product, &reviews), counts(1, 0, 1));
        let (product, _) = stored();
        reviews.push(review(7, 3_000_000, DateTime::from_millis(1)));
        assert_eq!(found(&product, &reviews), counts(0, 0, 1));
    }
}
