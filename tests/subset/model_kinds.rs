//! What a product stores of all its reviews, in the model of the subset repository.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use mongo_patterns::subset::{Subset, SubsetRepositoryBuilder};
use mongodb::bson::{Bson, Document, doc};

use support::subset::*;

/// The size of the first subset.
pub(super) const SIZE: usize = 3;

/// The reviews of a product, by id: the days on which they were published.
pub(super) type Reviews = BTreeMap<i32, i64>;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Plain,
    Total,
    Computed,
    /// Two further subsets.
    Several,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::Plain, Self::Total, Self::Computed, Self::Several];

    pub(super) fn repository(self, builder: SubsetRepositoryBuilder<Product, Review>) -> Products {
        let builder = match self {
            Self::Plain => builder,
            Self::Total => builder.total_field("review_count"),
            Self::Computed => builder
                .total_field("review_count")
                .sum("review_id", "id_sum")
                .count_by("published_date", "by_day")
                .min("published_date", "oldest")
                .max("published_date", "newest"),
            Self::Several => {
                let oldest = Subset::new("oldest").sort(doc! { "published_date": 1 });
                let first_id = Subset::new("first_id").sort(doc! { "review_id": 1 });
                builder
                    .subset(oldest.size(2).filter(doc! { "review_id": { "$lt": 5 } }))
                    .subset(first_id.size(1).embedded_fields(["published_date"]))
            }
        };
        builder.build().unwrap()
    }

    /// Returns the ids of the reviews in each subset.
    pub(super) fn shown(self, reviews: &Reviews) -> Vec<(&'static str, Vec<i32>)> {
        let first = |ids: Vec<i32>, size| ids.into_iter().take(size).collect::<Vec<i32>>();
        let mut shown = vec![("reviews", first(in_order(reviews), SIZE))];
        if self == Self::Several {
            let mut oldest: Vec<i32> = reviews.keys().copied().filter(|id| *id < 5).collect();
            oldest.sort_unstable_by_key(|id| (reviews[id], *id));
            shown.push(("oldest", first(oldest, 2)));
            shown.push(("first_id", first(reviews.keys().copied().collect(), 1)));
        }
        shown
    }

    /// Compares the total and the figures of a product.
    pub(super) fn compare(self, parent: &Document, reviews: &Reviews) {
        if matches!(self, Self::Total | Self::Computed) {
            let total = parent.get_i64("review_count").unwrap_or(0);
            assert_eq!(total, reviews.len() as i64);
        }
        if self == Self::Computed {
            compare_computed(parent, reviews);
        }
    }
}

/// The ids of reviews, newest first.
pub(super) fn in_order(reviews: &Reviews) -> Vec<i32> {
    let mut ids: Vec<i32> = reviews.keys().copied().collect();
    ids.sort_unstable_by_key(|id| Reverse((reviews[id], *id)));
    ids
}

fn compare_computed(parent: &Document, reviews: &Reviews) {
    let sum: i32 = reviews.keys().sum();
    assert_eq!(parent.get_i32("id_sum").unwrap_or(0), sum);
    let mut by_day: BTreeMap<i64, i64> = BTreeMap::new();
    for published in reviews.values() {
        *by_day.entry(*published).or_default() += 1;
    }
    let stored = parent.get_array("by_day").into_iter().flatten();
    let expected = by_day
        .iter()
        .map(|(published, count)| Bson::from(doc! { "value": day(*published), "count": count }));
    assert!(stored.cloned().eq(expected), "{parent}");
    let ends = [by_day.keys().next(), by_day.keys().next_back()];
    for (field, end) in ["oldest", "newest"].into_iter().zip(ends) {
        assert_eq!(
            parent.get_datetime(field).ok(),
            end.map(|published| day(*published)).as_ref()
        );
    }
}
