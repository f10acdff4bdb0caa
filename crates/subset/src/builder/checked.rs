//! Checks of the fields and of the order of a subset.

use mongo_patterns_core::settings::{configuration, required};

use crate::prelude::*;
use crate::settings::Direction;

pub(super) fn checked_fields(fields: Option<Vec<String>>) -> Result<Option<Vec<FieldName>>> {
    let checked = fields.map(|fields| {
        fields
            .into_iter()
            .map(FieldName::of_element)
            .collect::<Result<Vec<_>>>()
    });
    checked.transpose()
}

/// Returns the order, with the child's id at its end.
pub(super) fn checked_order(
    fields: Vec<(String, Direction)>,
    parent: &FieldName,
    child_id: &FieldName,
) -> Result<Vec<(FieldName, Direction)>> {
    let mut order: Vec<(FieldName, Direction)> = Vec::new();
    for (field, direction) in fields {
        let field = FieldName::of_element(field)?;
        let is_decided = |earlier: &FieldName| *earlier == field || earlier == child_id;
        if field == *parent || order.iter().any(|(earlier, _)| is_decided(earlier)) {
            return Err(configuration(
                "the order has a field twice, the parent field, or a field after the child's id: remove it",
            ));
        }
        order.push((field, direction));
    }
    let (last, direction) = required(order.last().cloned(), "order_by")?;
    if last != *child_id {
        order.push((child_id.clone(), direction));
    }
    Ok(order)
}
