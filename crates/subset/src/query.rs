//! The commands, filters, updates and aggregations, as pure functions.

pub(crate) mod embedded_ids;
pub(crate) mod figures;
pub(crate) mod first_children;
pub(crate) mod from_embedded;
pub(crate) mod options;
pub(crate) mod page;
pub(crate) mod validator;
pub(crate) mod whole;

use mongo_patterns_core::catalog::Others;
use mongo_patterns_core::field::no_array;
use mongodb::bson::{Bson, Document, doc};

use self::embedded_ids::{arrays, ids_of, is_unmanaged, is_version, one_or_all};
use crate::form::parent::ParentState;
use crate::settings::Settings;
use crate::settings::subset::CheckedSubset;

/// Matches a parent. By `$eq`, because an id may be a document with operators.
pub(crate) fn by_id(id: &Bson) -> Document {
    doc! { "_id": { "$eq": id } }
}

pub(crate) fn state(settings: &Settings) -> Document {
    let subsets = settings.subsets.iter();
    let mut projection = doc! { "_id": 0 };
    projection.extend(subsets.map(|subset| (subset.field.as_str().to_owned(), Bson::Int32(1))));
    projection.insert(settings.version.as_str(), 1);
    projection
}

fn at_version(settings: &Settings, id: &Bson, version: i64) -> Document {
    doc! { "_id": { "$eq": id }, settings.version.as_str(): version }
}

/// Matches a parent without an integer version that embeds the children with these ids.
fn at_first_write(settings: &Settings, id: &Bson, embedded: &Bson) -> Document {
    let no_version = doc! { "$not": [is_version(&format!("${}", settings.version))] };
    let same = doc! { "$eq": [ids_of(settings, &arrays(settings)), { "$literal": embedded }] };
    doc! { "_id": { "$eq": id }, "$expr": { "$and": [no_version, same] } }
}

/// Matches a parent as long as its state has not changed.
pub(crate) fn unchanged(settings: &Settings, id: &Bson, state: &ParentState) -> Document {
    match (state.version(), state.ids_of_subsets(settings)) {
        (Some(version), _) => at_version(settings, id, version),
        (None, ids) => at_first_write(settings, id, &one_or_all(ids.unwrap_or_default())),
    }
}

/// Matches a parent, unless it is unmanaged and embeds children.
pub(crate) fn managed(settings: &Settings, id: &Bson) -> Document {
    doc! { "_id": { "$eq": id }, "$expr": { "$not": [is_unmanaged(settings)] } }
}

/// Matches unmanaged parents that embed children: one, or all.
pub(crate) fn unmanaged(settings: &Settings, id: Option<&Bson>) -> Document {
    let mut filter = id.map(by_id).unwrap_or_default();
    filter.insert("$expr", is_unmanaged(settings));
    filter
}

/// Sets the fields that depend on the children, and the version after the previous one.
pub(crate) fn replace_fields(settings: &Settings, mut fields: Document, previous: Option<i64>) -> Document {
    fields.insert(settings.version.as_str(), previous.unwrap_or(0).wrapping_add(1));
    doc! { "$set": fields }
}

/// Sets the subsets and increments the version, of a parent that has one.
pub(crate) fn set_and_increment(settings: &Settings, subsets: Document) -> Document {
    doc! { "$set": subsets, "$inc": { settings.version.as_str(): 1_i64 } }
}

/// Matches a parent with a version that `$inc` can increment.
pub(crate) fn with_version(settings: &Settings, id: &Bson) -> Document {
    let is_version = doc! { "$type": ["int", "long"], "$lt": i64::MAX };
    doc! { "_id": { "$eq": id }, settings.version.as_str(): is_version }
}

pub(crate) fn increment_version(settings: &Settings) -> Vec<Document> {
    vec![doc! { "$set": { settings.version.as_str(): next_version(settings) } }]
}

/// Sets the fields of a parent without children, and increments the version.
pub(crate) fn empty(settings: &Settings, fields: Document) -> Vec<Document> {
    let literal = |(field, value): (String, Bson)| (field, doc! { "$literal": value }.into());
    let mut set = Document::from_iter(fields.into_iter().map(literal));
    set.insert(settings.version.as_str(), next_version(settings));
    vec![doc! { "$set": set }]
}

/// The version after the stored one, as an expression.
fn next_version(settings: &Settings) -> Document {
    let path = format!("${}", settings.version);
    doc! { "$add": [{ "$cond": [is_version(&path), path, 0_i64] }, 1_i64] }
}

pub(crate) fn children_of(settings: &Settings, parent: &Bson) -> Document {
    doc! { settings.parent.as_str(): { "$eq": parent } }
}

/// Matches the children of this parent only: an array has the ids of several parents.
pub(crate) fn only_of(settings: &Settings, parent: &Bson) -> Document {
    doc! { settings.parent.as_str(): no_array(doc! { "$eq": parent }) }
}

/// Matches the children of a parent with one of these ids.
pub(crate) fn children_among(settings: &Settings, parent: &Bson, ids: &[Bson]) -> Document {
    doc! { settings.parent.as_str(): { "$eq": parent }, settings.child_id.as_str(): { "$in": ids } }
}

pub(crate) fn child(settings: &Settings, parent: &Bson, id: &Bson) -> Document {
    doc! { settings.parent.as_str(): { "$eq": parent }, settings.child_id.as_str(): { "$eq": id } }
}

/// Replaces a child by a document whose field names may start with `$`. Keeps its `_id` if the document has none, and fields
/// of other repositories.
pub(crate) fn replace_with(child: Document, others: &Others) -> Vec<Document> {
    match others.own_fields() {
        true => others.replace(doc! { "_id": "$_id" }, child, doc! {}),
        false => vec![doc! { "$replaceWith": { "$literal": child } }],
    }
}

/// Projects a child to its embedded form.
pub(crate) fn embedded(settings: &Settings, subset: &CheckedSubset) -> Document {
    let child_id = settings.child_id.as_str();
    let Some(fields) = &subset.embedded_fields else {
        let mut projection = doc! { settings.parent.as_str(): 0 };
        if child_id != "_id" {
            projection.insert("_id", 0);
        }
        return projection;
    };
    let mut projection = doc! { "_id": 0 };
    projection.extend(fields.iter().map(|field| (field.as_str().to_owned(), Bson::Int32(1))));
    projection.insert(child_id, 1);
    projection
}

#[cfg(test)]
mod tests {
    use mongo_patterns_core::FieldName;

    use super::*;

    #[test]
    fn a_version_is_compared_and_incremented() {
        let settings = Settings::example();
        let id = Bson::Document(doc! { "$gt": 1 });
        assert_eq!(
            at_version(&settings, &id, 3),
            doc! { "_id": { "$eq": { "$gt": 1 } }, "reviews_version": 3_i64 }
        );
        let hostile = Bson::Document(doc! { "review_id": "$name" });
        assert_eq!(
            replace_fields(&settings, doc! { "reviews": [hostile] }, Some(3)),
            doc! { "$set": { "reviews": [{ "review_id": "$name" }], "reviews_version": 4_i64 } }
        );
        assert_eq!(
            replace_fields(&settings, doc! { "reviews": [] }, None),
            doc! { "$set": { "reviews": [], "reviews_version": 1_i64 } }
        );
    }

    #[test]
    fn one_update_sets_the_subset_and_increments_the_version() {
        let settings = Settings::example();
        assert_eq!(
            with_version(&settings, &Bson::Int32(1)),
            doc! { "_id": { "$eq": 1 }, "reviews_version": { "$type": ["int", "long"], "$lt": i64::MAX } }
        );
        assert_eq!(
            set_and_increment(&settings, doc! { "reviews": [] }),
            doc! { "$set": { "reviews": [] }, "$inc": { "reviews_version": 1_i64 } }
        );
    }

    #[test]
    fn a_first_write_compares_what_is_embedded() {
        let settings = Settings::example();
        let ids = doc! { "$cond": [
            { "$isArray": "$reviews" },
            { "$map": { "input": "$reviews", "as": "child", "in": "$$child.review_id" } },
            { "$ifNull": ["$reviews", []] },
        ] };
        let is_version = doc! { "$in": [{ "$type": "$reviews_version" }, ["int", "long"]] };
        assert_eq!(
            at_first_write(&settings, &Bson::Int32(1), &vec![Bson::from("$name")].into()),
            doc! { "_id": { "$eq": 1 }, "$expr": { "$and": [
                { "$not": [&is_version] },
                { "$eq": [&ids, { "$literal": ["$name"] }] },
            ] } }
        );
        assert_eq!(
            managed(&settings, &Bson::Int32(1)),
            doc! { "_id": { "$eq": 1 }, "$expr": { "$not": [
                { "$and": [{ "$not": [is_version] }, { "$ne": [ids, []] }] },
            ] } }
        );
    }

    #[test]
    fn the_children_of_all_subsets_are_compared() {
        let settings = Settings::example().with_best();
        let none = Bson::Array(vec![Bson::Array(Vec::new()), Bson::Array(Vec::new())]);
        let ids = ["$reviews", "$top_rated"].map(|array| Bson::from(embedded_ids::embedded_ids(&settings, array)));
        let no_version = doc! { "$not": [is_version("$reviews_version")] };
        assert_eq!(
            unmanaged(&settings, None),
            doc! { "$expr": { "$and": [&no_version, { "$ne": [ids.to_vec(), &none] }] } }
        );
        assert_eq!(
            at_first_write(&settings, &Bson::Int32(1), &none),
            doc! { "_id": { "$eq": 1 }, "$expr": { "$and": [
                no_version,
                { "$eq": [ids.to_vec(), { "$literal": none }] },
            ] } }
        );
        assert_eq!(
            embedded_ids::is_unmigrated(&settings),
            embedded_ids::is_unmanaged(&Settings::example())
        );
    }

    #[test]
    fn a_replacement_is_literal() {
        assert_eq!(
            replace_with(doc! { "$set": { "a": "$b" } }, &Others::default()),
            [doc! { "$replaceWith": { "$literal": { "$set": { "a": "$b" } } } }]
        );
    }

    #[test]
    fn an_embedded_child_always_has_its_id() {
        let mut settings = Settings::example();
        let embedded = |settings: &Settings| super::embedded(settings, settings.first());
        assert_eq!(embedded(&settings), doc! { "product_id": 0, "_id": 0 });
        settings.subsets[0].embedded_fields = Some(vec![FieldName::new("review_text").unwrap()]);
        assert_eq!(embedded(&settings), doc! { "_id": 0, "review_text": 1, "review_id": 1 });
        settings.child_id = FieldName::of_element("_id").unwrap();
        assert_eq!(embedded(&settings), doc! { "_id": 1, "review_text": 1 });
        settings.subsets[0].embedded_fields = None;
        assert_eq!(embedded(&settings), doc! { "product_id": 0 });
    }
}
