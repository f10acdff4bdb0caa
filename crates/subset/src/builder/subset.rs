//! A subset, as the user chooses it.

use mongo_patterns_core::settings::{check_bound, configuration};
use mongo_patterns_core::{FieldName, Result};
use mongodb::bson::Document;

use crate::settings::filter::Filter;
use crate::settings::subset::{CheckedSubset, Direction};

/// A subset of a parent's children, passed to
/// [`SubsetRepositoryBuilder::subset`](crate::SubsetRepositoryBuilder::subset).
#[derive(Clone)]
#[must_use = "a subset does nothing until it is passed to subset(..)"]
pub struct Subset {
    field: String,
    sort: Document,
    size: u32,
    filter: Document,
    embedded_fields: Option<Vec<String>>,
}

mongo_patterns_core::redacted_debug!(Subset, |subset| "field" = subset.field);

impl Subset {
    /// Creates a subset in this array field of the parent, such as `reviews`. Only the repository writes it.
    pub fn new(field: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            sort: Document::new(),
            size: 10,
            filter: Document::new(),
            embedded_fields: None,
        }
    }

    /// Sets the order of the children, as a sort in MongoDB, such as `{ published_date: -1 }`: 1 for the smallest value
    /// first, -1 for the greatest. Required.
    ///
    /// A further field orders the children that are equal in the fields before it. Equal children are ordered by their id,
    /// in the direction of the last field.
    ///
    /// Values have MongoDB's order, across all types. A missing field is ordered as `null`, before all other values.
    pub fn sort(mut self, sort: Document) -> Self {
        self.sort = sort;
        self
    }

    /// Sets the maximum number of embedded children; 10 by default.
    pub fn size(mut self, children: u32) -> Self {
        self.size = children;
        self
    }

    /// Sets the embedded fields of a child, in addition to its id. By default all except `_id` and the parent field.
    pub fn embedded_fields<F: Into<String>>(mut self, fields: impl IntoIterator<Item = F>) -> Self {
        self.embedded_fields = Some(fields.into_iter().map(Into::into).collect());
        self
    }

    /// Sets a query that embedded children match, such as `{ stars: { $gte: 4 } }`. By default all children do.
    ///
    /// A query has plain values, `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`, `$in`, `$nin`, `$exists` and `$not`, and
    /// `$and`, `$or` and `$nor`. All else is refused, because the server could refuse it after it has stored a child.
    ///
    /// # Cost
    /// The server examines the children in their order until enough match, or all children of the parent. If few children
    /// match, order by a field that the query compares.
    pub fn filter(mut self, filter: Document) -> Self {
        self.filter = filter;
        self
    }

    pub(super) fn checked(self, parent: &FieldName, child_id: &FieldName) -> Result<CheckedSubset> {
        let field = FieldName::new(self.field)?;
        let order = checked_order(self.sort, parent, child_id)?;
        check_bound("subset size", self.size)?;
        let fields = self.embedded_fields.map(|fields| {
            let fields = fields.into_iter().map(FieldName::of_element);
            fields.collect::<Result<Vec<_>>>()
        });
        Ok(CheckedSubset {
            field,
            order,
            size: self.size,
            filter: Filter::new(self.filter)?,
            embedded_fields: fields.transpose()?,
        })
    }
}

/// Returns the order, with the child's id at its end.
fn checked_order(sort: Document, parent: &FieldName, child_id: &FieldName) -> Result<Vec<(FieldName, Direction)>> {
    let mut order: Vec<(FieldName, Direction)> = Vec::new();
    for (field, direction) in sort {
        let field = FieldName::of_element(field)?;
        let direction = Direction::of(&direction).ok_or_else(|| {
            configuration(format!(
                "the direction of `{field}` in the order is neither 1 nor -1: set one of them"
            ))
        })?;
        let is_decided = |earlier: &FieldName| *earlier == field || earlier == child_id;
        if field == *parent || order.iter().any(|(earlier, _)| is_decided(earlier)) {
            return Err(configuration(
                "the order has a field twice, the parent field, or a field after the child's id: remove it",
            ));
        }
        order.push((field, direction));
    }
    let (last, direction) = order
        .last()
        .cloned()
        .ok_or_else(|| configuration("a subset has no order: call sort(..) on it, with at least one field"))?;
    if last != *child_id {
        order.push((child_id.clone(), direction));
    }
    Ok(order)
}
