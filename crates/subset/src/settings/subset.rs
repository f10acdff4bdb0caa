//! A subset of a parent: which children it embeds, and what of them.

use mongo_patterns_core::FieldName;
use mongo_patterns_core::catalog::storable_filter;
use mongodb::bson::{Bson, Document, doc};

use super::filter::Filter;

#[derive(Clone, Debug)]
pub(crate) struct CheckedSubset {
    /// The array of the parent.
    pub(crate) field: FieldName,
    /// The order of the children. It ends with their id, which makes it total.
    pub(crate) order: Vec<(FieldName, Direction)>,
    /// The maximum number of embedded children.
    pub(crate) size: u32,
    /// The children among which the first ones are embedded.
    pub(crate) filter: Filter,
    /// The embedded fields of a child; `None` means all but `_id` and the parent.
    pub(crate) embedded_fields: Option<Vec<FieldName>>,
}

impl CheckedSubset {
    /// Returns the order as a sort, or as the keys of an index.
    pub(crate) fn sort(&self) -> Document {
        let fields = self.order.iter();
        fields
            .map(|(field, direction)| (field.as_str().to_owned(), direction.number().into()))
            .collect()
    }

    /// Returns whether the index of the order has all embedded fields, from which the server may then read them.
    pub(crate) fn is_covered(&self) -> bool {
        let is_key = |field: &FieldName| self.order.iter().any(|(key, _)| key == field);
        let fields = self.embedded_fields.as_ref();
        fields.is_some_and(|fields| fields.iter().all(is_key))
    }

    /// Returns the settings of the stored form.
    pub(super) fn stored_form(&self) -> Document {
        let order = self.order.iter().map(|(field, direction)| match direction {
            Direction::Ascending => field.as_str().to_owned(),
            Direction::Descending => format!("-{field}"),
        });
        let names = |fields: &[FieldName]| fields.iter().map(|field| field.as_str().into()).collect::<Vec<Bson>>();
        let filter = self.filter.query();
        doc! {
            "order": order.collect::<Vec<_>>(),
            "size": i64::from(self.size),
            "filter": (!filter.is_empty()).then(|| storable_filter(filter)),
            "embedded_fields": self.embedded_fields.as_deref().map(names),
        }
    }
}

/// The direction of a field in the order of the children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The smallest value first, as `1` in a sort of MongoDB.
    Ascending,
    /// The greatest value first, as `-1`.
    Descending,
}

impl Direction {
    /// Returns the direction of a field in a sort: 1 or -1, in any integer type or as a double. `None` for any other value.
    pub(crate) fn of(value: &Bson) -> Option<Self> {
        let is = |number: i32| [number.into(), i64::from(number).into(), f64::from(number).into()].contains(value);
        match (is(1), is(-1)) {
            (false, false) => None,
            (is_ascending, _) => Some(if is_ascending {
                Self::Ascending
            } else {
                Self::Descending
            }),
        }
    }

    fn number(self) -> i32 {
        match self {
            Self::Ascending => 1,
            Self::Descending => -1,
        }
    }
}
