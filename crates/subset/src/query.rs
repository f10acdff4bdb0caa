//! The filters, updates and aggregations, as pure functions.

pub(crate) mod from_embedded;
mod whole;

use mongo_patterns_core::FieldName;
use mongodb::bson::{Bson, Document, doc};

use crate::Direction;
use crate::settings::Settings;

pub(crate) use whole::{Rebuilt, ids_of_children, orphans, rebuild_all, stale, stale_and_right};

/// The parent. `$eq`, since an id may be a document with operators.
pub(crate) fn by_id(id: &Bson) -> Document {
    doc! { "_id": { "$eq": id } }
}

/// What a refresh must know of the parent.
pub(crate) fn state(settings: &Settings) -> Document {
    doc! { "_id": 0, settings.subset.as_str(): 1, settings.version.as_str(): 1 }
}

/// The parent, if it has this version.
pub(crate) fn at_version(settings: &Settings, id: &Bson, version: i64) -> Document {
    doc! { "_id": { "$eq": id }, settings.version.as_str(): version }
}

/// What a parent shows of its children.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) subset: Vec<Bson>,
    /// How many there are; `None` where the parent does not say so.
    pub(crate) total: Option<i64>,
}

impl Shown {
    fn fields(self, settings: &Settings) -> Document {
        let mut fields = doc! { settings.subset.as_str(): self.subset };
        if let (Some(field), Some(total)) = (&settings.total, self.total) {
            fields.insert(field.as_str(), total);
        }
        fields
    }
}

/// The parent, if it has no version, and the children with these ids embedded. What is no integer is as none, as the
/// stored form has no other.
pub(crate) fn at_first_write(settings: &Settings, id: &Bson, embedded: &Bson) -> Document {
    let no_version = doc! { "$not": [is_version(&format!("${}", settings.version))] };
    let same = doc! { "$eq": [embedded_ids(settings, &format!("${}", settings.subset)), { "$literal": embedded }] };
    doc! { "_id": { "$eq": id }, "$expr": { "$and": [no_version, same] } }
}

/// The parent, unless it has embedded children and no version.
pub(crate) fn written(settings: &Settings, id: &Bson) -> Document {
    doc! { "_id": { "$eq": id }, "$expr": { "$not": [is_unwritten(settings)] } }
}

/// Parents that have embedded children and no version: one, or all.
pub(crate) fn unwritten(settings: &Settings, id: Option<&Bson>) -> Document {
    let mut filter = id.map(by_id).unwrap_or_default();
    filter.insert("$expr", is_unwritten(settings));
    filter
}

/// Whether a parent has embedded children that no repository wrote, as an expression.
pub(crate) fn is_unwritten(settings: &Settings) -> Document {
    let (subset, version) = (format!("${}", settings.subset), format!("${}", settings.version));
    is_unwritten_at(settings, &subset, &version)
}

fn is_unwritten_at(settings: &Settings, subset: &str, version: &str) -> Document {
    doc! { "$and": [
        { "$not": [is_version(version)] },
        { "$ne": [embedded_ids(settings, subset), []] },
    ] }
}

fn is_version(path: &str) -> Document {
    doc! { "$in": [{ "$type": path }, ["int", "long"]] }
}

/// The ids of the children in an array, in their order, and null for one that has none, as an expression. What is no
/// array is as it is.
pub(crate) fn embedded_ids(settings: &Settings, array: &str) -> Document {
    let id = format!("$$child.{}", settings.child_id);
    let ids = doc! { "$map": { "input": array, "as": "child", "in": id } };
    doc! { "$cond": [{ "$isArray": array }, ids, { "$ifNull": [array, []] }] }
}

/// Writes the subset, and the version that comes after this one.
pub(crate) fn replace_subset(settings: &Settings, shown: Shown, version: Option<i64>) -> Document {
    let mut fields = shown.fields(settings);
    fields.insert(settings.version.as_str(), version.unwrap_or(0).wrapping_add(1));
    doc! { "$set": fields }
}

/// Writes the subset alone, in a transaction that has counted the version.
pub(crate) fn set_subset(settings: &Settings, shown: Shown) -> Document {
    doc! { "$set": shown.fields(settings) }
}

/// The same, and adds to the total.
pub(crate) fn set_subset_and_add(settings: &Settings, total: &FieldName, subset: Vec<Bson>, added: i64) -> Document {
    let mut update = set_subset(settings, Shown { subset, total: None });
    update.insert("$inc", doc! { total.as_str(): added });
    update
}

/// The parent, if its total is one that can be added to.
pub(crate) fn with_total(total: &FieldName, id: &Bson) -> Document {
    doc! { "_id": { "$eq": id }, total.as_str(): { "$type": ["int", "long"] } }
}

/// Counts the version, at the start of a transaction. It is what makes two of them conflict: a `$set` of an equal subset
/// would be no write.
pub(crate) fn count_version(settings: &Settings) -> [Document; 1] {
    [doc! { "$set": { settings.version.as_str(): next_version(settings) } }]
}

/// The version after the stored one, as an expression.
fn next_version(settings: &Settings) -> Document {
    let path = format!("${}", settings.version);
    doc! { "$add": [{ "$cond": [is_version(&path), path, 0_i64] }, 1_i64] }
}

/// The children of a parent.
pub(crate) fn children_of(settings: &Settings, parent: &Bson) -> Document {
    doc! { settings.parent.as_str(): { "$eq": parent } }
}

/// Those children of a parent that have one of these ids.
pub(crate) fn children_among(settings: &Settings, parent: &Bson, ids: &[Bson]) -> Document {
    doc! { settings.parent.as_str(): { "$eq": parent }, settings.child_id.as_str(): { "$in": ids } }
}

/// One child of a parent.
pub(crate) fn child(settings: &Settings, parent: &Bson, id: &Bson) -> Document {
    doc! { settings.parent.as_str(): { "$eq": parent }, settings.child_id.as_str(): { "$eq": id } }
}

/// Replaces a child by a document that may have names with a dollar. Its `_id` stays where the document has none.
pub(crate) fn replace_with(child: Document) -> [Document; 1] {
    [doc! { "$replaceWith": { "$literal": child } }]
}

/// What of a child is embedded, as a projection.
pub(crate) fn embedded(settings: &Settings) -> Document {
    let mut projection = Document::new();
    match &settings.embed {
        None => {
            projection.insert(settings.parent.as_str(), 0);
            if settings.child_id.as_str() != "_id" {
                projection.insert("_id", 0);
            }
        }
        Some(fields) => {
            projection.insert("_id", 0);
            for field in fields.iter().chain([&settings.child_id]) {
                projection.insert(field.as_str(), 1);
            }
        }
    }
    projection
}

/// The order backwards.
pub(crate) fn reversed(sort: &Document) -> Document {
    let turned = |direction: &Bson| -direction.as_i32().unwrap_or(1);
    let fields = sort.iter();
    fields
        .map(|(field, direction)| (field.clone(), turned(direction).into()))
        .collect()
}

/// A place among the children of a parent, as a key of the index of the order.
pub(crate) fn place(settings: &Settings, parent: &Bson, values: &[Bson]) -> Document {
    let mut key = doc! { settings.parent.as_str(): parent };
    let values = settings.order.iter().zip(values);
    key.extend(values.map(|((field, _), value)| (field.as_str().to_owned(), value.clone())));
    key
}

/// The place before all children of a parent, or after them.
pub(crate) fn edge(settings: &Settings, parent: &Bson, after: bool) -> Document {
    place(settings, parent, &edges(settings, after))
}

/// The values of the order at that place.
pub(crate) fn edges(settings: &Settings, after: bool) -> Vec<Bson> {
    let values = settings.order.iter().map(|(_, direction)| {
        if after == (*direction == Direction::Ascending) {
            Bson::MaxKey
        } else {
            Bson::MinKey
        }
    });
    values.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(subset: Vec<Bson>, total: Option<i64>) -> Shown {
        Shown { subset, total }
    }

    #[test]
    fn a_version_is_compared_and_counted() {
        let settings = Settings::example();
        let id = Bson::Document(doc! { "$gt": 1 });
        assert_eq!(
            at_version(&settings, &id, 3),
            doc! { "_id": { "$eq": { "$gt": 1 } }, "reviews_version": 3_i64 }
        );
        let hostile = Bson::Document(doc! { "review_id": "$name" });
        assert_eq!(
            replace_subset(&settings, shown(vec![hostile], None), Some(3)),
            doc! { "$set": { "reviews": [{ "review_id": "$name" }], "reviews_version": 4_i64 } }
        );
        assert_eq!(
            replace_subset(&settings, shown(Vec::new(), None), None),
            doc! { "$set": { "reviews": [], "reviews_version": 1_i64 } }
        );
    }

    #[test]
    fn a_total_is_set_or_added_to() {
        let mut settings = Settings::example();
        let total = FieldName::new("review_count").unwrap();
        settings.total = Some(total.clone());
        assert_eq!(
            replace_subset(&settings, shown(Vec::new(), Some(12)), Some(3)),
            doc! { "$set": { "reviews": [], "review_count": 12_i64, "reviews_version": 4_i64 } }
        );
        assert_eq!(
            set_subset_and_add(&settings, &total, Vec::new(), -1),
            doc! { "$set": { "reviews": [] }, "$inc": { "review_count": -1_i64 } }
        );
        assert_eq!(
            with_total(&total, &Bson::Int32(1)),
            doc! { "_id": { "$eq": 1 }, "review_count": { "$type": ["int", "long"] } }
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
            written(&settings, &Bson::Int32(1)),
            doc! { "_id": { "$eq": 1 }, "$expr": { "$not": [
                { "$and": [{ "$not": [is_version] }, { "$ne": [ids, []] }] },
            ] } }
        );
    }

    #[test]
    fn a_replacement_is_a_value() {
        assert_eq!(
            replace_with(doc! { "$set": { "a": "$b" } }),
            [doc! { "$replaceWith": { "$literal": { "$set": { "a": "$b" } } } }]
        );
    }

    #[test]
    fn what_is_embedded_always_has_the_id() {
        let mut settings = Settings::example();
        assert_eq!(embedded(&settings), doc! { "product_id": 0, "_id": 0 });
        settings.embed = Some(vec![FieldName::new("review_text").unwrap()]);
        assert_eq!(embedded(&settings), doc! { "_id": 0, "review_text": 1, "review_id": 1 });
        settings.child_id = FieldName::of_element("_id").unwrap();
        assert_eq!(embedded(&settings), doc! { "_id": 1, "review_text": 1 });
        settings.embed = None;
        assert_eq!(embedded(&settings), doc! { "product_id": 0 });
    }

    #[test]
    fn the_edges_are_those_of_the_index() {
        let mut settings = Settings::example();
        settings.order[1].1 = Direction::Ascending;
        let parent = Bson::Int32(1);
        assert_eq!(
            edge(&settings, &parent, false),
            doc! { "product_id": 1, "published_date": Bson::MaxKey, "review_id": Bson::MinKey }
        );
        assert_eq!(
            edge(&settings, &parent, true),
            doc! { "product_id": 1, "published_date": Bson::MinKey, "review_id": Bson::MaxKey }
        );
        assert_eq!(
            reversed(&settings.sort()),
            doc! { "published_date": 1, "review_id": -1 }
        );
    }

    #[test]
    fn the_indexes_are_named_by_their_definitions() {
        assert_eq!(
            Settings::example().index_plan("review").to_string(),
            [
                r#"db.getCollection("review").createIndex({ "product_id": 1, "published_date": -1, "review_id": -1 }, { "name": "product_id_1_published_date_-1_review_id_-1" })"#,
                r#"db.getCollection("review").createIndex({ "product_id": 1, "review_id": 1 }, { "name": "product_id_1_review_id_1", "unique": true })"#,
            ]
            .join("\n")
        );
    }
}
