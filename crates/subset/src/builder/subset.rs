//! A further subset, as the user chooses it.

use mongo_patterns_core::settings::check_bound;

use super::checked::{checked_fields, checked_order};
use crate::prelude::*;
use crate::settings::Direction;
use crate::settings::filter::Filter;
use crate::settings::further::FurtherSubset;

/// A further subset of a parent, passed to
/// [`SubsetRepositoryBuilder::add_subset`](crate::SubsetRepositoryBuilder::add_subset).
#[derive(Clone)]
#[must_use = "a subset does nothing until it is passed to add_subset(..)"]
pub struct Subset {
    field: String,
    order: Vec<(String, Direction)>,
    size: u32,
    filter: Document,
    embedded_fields: Option<Vec<String>>,
}

mongo_patterns_core::redacted_debug!(Subset, |subset| "field" = subset.field);

impl Subset {
    /// Creates a subset in this array field of the parent, such as `top_rated`. Only the repository writes it.
    pub fn new(field: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            order: Vec::new(),
            size: 10,
            filter: Document::new(),
            embedded_fields: None,
        }
    }

    /// Orders the children by a field, as [`SubsetRepositoryBuilder::order_by`](crate::SubsetRepositoryBuilder::order_by)
    /// does. Required.
    pub fn order_by(mut self, field: impl Into<String>, direction: Direction) -> Self {
        self.order.push((field.into(), direction));
        self
    }

    /// Sets the maximum number of embedded children; 10 by default.
    pub fn size(mut self, children: u32) -> Self {
        self.size = children;
        self
    }

    /// Sets the fields of a child that are embedded, in addition to its id. By default all but `_id` and the parent
    /// field.
    pub fn embedded_fields<F: Into<String>>(mut self, fields: impl IntoIterator<Item = F>) -> Self {
        self.embedded_fields = Some(fields.into_iter().map(Into::into).collect());
        self
    }

    /// Sets a query that embedded children match, such as `{ stars: { $gte: 4 } }`. By default all children do.
    ///
    /// A query has plain values, `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`, `$in`, `$nin`, `$exists` and `$not`, and
    /// `$and`, `$or` and `$nor`. Other operators, regular expressions and `undefined` are refused, because the server could
    /// refuse them after it has stored a child.
    ///
    /// # Cost
    /// The server examines the children in their order until it has found enough that match: all children of the parent, if
    /// too few of them do. Comparisons of the first field of the order limit them by the index, so order by a field that the
    /// query compares if few children match.
    pub fn filter(mut self, filter: Document) -> Self {
        self.filter = filter;
        self
    }

    pub(super) fn checked(self, parent: &FieldName, child_id: &FieldName) -> Result<FurtherSubset> {
        check_bound("size of a subset", self.size)?;
        Ok(FurtherSubset {
            field: FieldName::new(self.field)?,
            order: checked_order(self.order, parent, child_id)?,
            size: self.size,
            filter: Filter::new(self.filter)?,
            embedded_fields: checked_fields(self.embedded_fields)?,
        })
    }
}
