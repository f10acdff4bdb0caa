//! The order of the children.

use mongo_patterns_core::FieldName;
use mongodb::bson::Document;

/// The direction of a field in the order of the children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The smallest value first, as `1` in a sort of MongoDB.
    Ascending,
    /// The greatest value first, as `-1`.
    Descending,
}

impl Direction {
    fn number(self) -> i32 {
        match self {
            Self::Ascending => 1,
            Self::Descending => -1,
        }
    }
}

/// Returns an order as a sort, or as the keys of an index.
pub(crate) fn sort(order: &[(FieldName, Direction)]) -> Document {
    let fields = order.iter();
    fields
        .map(|(field, direction)| (field.as_str().to_owned(), direction.number().into()))
        .collect()
}

/// Returns an order as the catalog stores it.
pub(super) fn order_names(order: &[(FieldName, Direction)]) -> Vec<String> {
    let names = order.iter().map(|(field, direction)| match direction {
        Direction::Ascending => field.as_str().to_owned(),
        Direction::Descending => format!("-{field}"),
    });
    names.collect()
}
