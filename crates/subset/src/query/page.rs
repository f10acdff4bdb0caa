//! Pages of children.
//!
//! # Design
//!
//! ## Why does a page start at an index bound, and not at a comparison in its filter?
//!
//! A comparison in a filter matches values of one type only. The index orders values of all types.

use mongo_patterns_core::Result;
use mongo_patterns_core::bound::adjacent;
use mongo_patterns_core::list::PageStart;
use mongo_patterns_core::migration::and;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::FindOptions;

use super::{children_of, options};
use crate::form::token::{ChildToken, edge_values};
use crate::settings::Settings;
use crate::settings::subset::{CheckedSubset, Direction};

/// Returns the filter and the options of the find of a page.
pub(crate) fn find_page(
    settings: &Settings,
    subset: &CheckedSubset,
    parent: &Bson,
    start: &PageStart<ChildToken>,
    limit: u32,
) -> Result<(Document, FindOptions)> {
    let mut filter = children_of(settings, parent);
    let mut options = options::find_page(settings, subset, limit);
    options.sort = Some(subset.sort());
    match start {
        PageStart::First => {}
        PageStart::After(token) => {
            let mut values = token.values(settings, subset)?.to_vec();
            // The lower bound is inclusive.
            if let (Some(id), Some((_, direction))) = (values.last_mut(), subset.order.last()) {
                match adjacent(id, *direction == Direction::Ascending) {
                    Some(next) => *id = next,
                    None => drop(filter.insert(settings.child_id.as_str(), doc! { "$ne": id.clone() })),
                }
            }
            options.min = Some(index_key(settings, subset, parent, &values));
            options.max = Some(edge(settings, subset, parent, true));
        }
        PageStart::Before(token) => {
            options.min = Some(edge(settings, subset, parent, false));
            options.max = Some(index_key(settings, subset, parent, token.values(settings, subset)?));
            options.sort = Some(reversed(&subset.sort()));
        }
    }
    Ok((and(filter, subset.filter.query().clone()), options))
}

/// Returns a position among the children of a parent, as a key of the index of the order.
pub(crate) fn index_key(settings: &Settings, subset: &CheckedSubset, parent: &Bson, values: &[Bson]) -> Document {
    let mut key = doc! { settings.parent.as_str(): parent };
    let values = subset.order.iter().zip(values);
    key.extend(values.map(|((field, _), value)| (field.as_str().to_owned(), value.clone())));
    key
}

/// Returns the position before all children of a parent, or after them, as a key of the index of the order.
pub(crate) fn edge(settings: &Settings, subset: &CheckedSubset, parent: &Bson, after: bool) -> Document {
    index_key(settings, subset, parent, &edge_values(subset, after))
}

fn reversed(sort: &Document) -> Document {
    let reversed = |direction: &Bson| -direction.as_i32().unwrap_or(1);
    let fields = sort.iter();
    fields
        .map(|(field, direction)| (field.clone(), reversed(direction).into()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_the_ends_of_the_index() {
        let mut settings = Settings::example();
        settings.subsets[0].order[1].1 = Direction::Ascending;
        let parent = Bson::Int32(1);
        assert_eq!(
            edge(&settings, settings.first(), &parent, false),
            doc! { "product_id": 1, "published_date": Bson::MaxKey, "review_id": Bson::MinKey }
        );
        assert_eq!(
            edge(&settings, settings.first(), &parent, true),
            doc! { "product_id": 1, "published_date": Bson::MinKey, "review_id": Bson::MaxKey }
        );
        assert_eq!(
            reversed(&settings.first().sort()),
            doc! { "published_date": 1, "review_id": -1 }
        );
    }
}
