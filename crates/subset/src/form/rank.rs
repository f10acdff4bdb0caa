//! The rank of a child among the children of its parent, as far as this process can compare it.
//!
//! # Design
//!
//! ## Why may a client compare values that the server orders?
//!
//! It only chooses the command that reads the first children. If a new child ranks after the last embedded one, it
//! probably stays outside the subset, and the command reads the parent too. The server decides: a wrong choice costs a
//! round trip.

use std::cmp::Ordering;

use crate::prelude::*;
use crate::settings::Direction;

/// The maximum number of bytes of a string in a rank, which a process may keep for each parent.
const MAX_BYTES: usize = 64;

/// The values of the fields of the order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rank(Vec<Bson>);

impl Rank {
    /// Returns the rank of a child. `None` if it has a value that is not compared here.
    pub(crate) fn of(settings: &Settings, child: &RawDocument) -> Option<Self> {
        let comparable = |value: &Bson| match value {
            Bson::String(text) => text.len() <= MAX_BYTES,
            value => compare(value, value).is_some(),
        };
        let fields = settings.order.iter();
        let values = fields.map(|(field, _)| value(child, field.as_str()).filter(comparable));
        values.collect::<Option<Vec<Bson>>>().map(Self)
    }

    /// Returns whether the child is ordered after another one. Unknown is `false`.
    pub(crate) fn is_after(&self, settings: &Settings, other: &Self) -> bool {
        for ((_, direction), (own, other)) in settings.order.iter().zip(self.0.iter().zip(&other.0)) {
            match (compare(own, other), direction) {
                (Some(Ordering::Equal), _) => {}
                (Some(Ordering::Greater), Direction::Ascending) | (Some(Ordering::Less), Direction::Descending) => {
                    return true;
                }
                _ => return false,
            }
        }
        false
    }
}

fn compare(one: &Bson, other: &Bson) -> Option<Ordering> {
    let integer = |value: &Bson| match value {
        Bson::Int32(value) => Some(i64::from(*value)),
        Bson::Int64(value) => Some(*value),
        _ => None,
    };
    match (one, other) {
        (Bson::Double(one), Bson::Double(other)) => one.partial_cmp(other),
        (Bson::String(one), Bson::String(other)) => Some(one.cmp(other)),
        (Bson::DateTime(one), Bson::DateTime(other)) => Some(one.cmp(other)),
        (Bson::ObjectId(one), Bson::ObjectId(other)) => Some(one.cmp(other)),
        (one, other) => Some(integer(one)?.cmp(&integer(other)?)),
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{DateTime, rawdoc};

    use super::*;

    fn rank(date: i64, id: i32) -> Rank {
        let date = DateTime::from_millis(date);
        Rank::of(
            &Settings::example(),
            &rawdoc! { "published_date": date, "review_id": id },
        )
        .unwrap()
    }

    #[test]
    fn a_rank_follows_the_directions_of_the_order() {
        let settings = Settings::example();
        let order: Vec<_> = settings.order.iter().map(|(_, direction)| *direction).collect();
        assert_eq!(order, [Direction::Descending; 2]);
        let last = rank(5, 5);
        assert!(rank(4, 9).is_after(&settings, &last) && rank(5, 4).is_after(&settings, &last));
        for first in [rank(6, 1), rank(5, 6), rank(5, 5)] {
            assert!(!first.is_after(&settings, &last));
        }
    }

    #[test]
    fn values_that_only_the_server_compares_have_no_known_rank() {
        let settings = Settings::example();
        for other in [
            rawdoc! { "review_id": 1 },
            rawdoc! { "published_date": null, "review_id": 1 },
            rawdoc! { "published_date": f64::NAN, "review_id": 1 },
            rawdoc! { "published_date": "a".repeat(65), "review_id": 1 },
        ] {
            assert_eq!(Rank::of(&settings, &other), None);
        }
        let text = Rank::of(&settings, &rawdoc! { "published_date": "a", "review_id": 1 }).unwrap();
        assert!(!text.is_after(&settings, &rank(5, 5)) && !rank(5, 5).is_after(&settings, &text));
    }
}
