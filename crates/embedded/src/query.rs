//! The filters, updates and pipelines of all commands, built by pure functions.
//!
//! # Design
//!
//! ## Why is every id a value of `$eq` or `$literal`?
//!
//! An id such as `{ $gt: 1 }` would else be an operator.
//!
//! ## Why does the filter of an added child use `$jsonSchema`?
//!
//! The usual condition for room, `{ "addresses.4": { $exists: false } }`, is also false for a child with a field named `4`.
//! A schema matches an array or a missing field, and no other value.

pub(crate) mod from_references;
pub(crate) mod grandchild;
pub(crate) mod upsert;
pub(crate) mod validator;

use mongo_patterns_core::DocumentId;
use mongo_patterns_core::update::Operators;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::Collation;

use crate::form::child_id::{CHILD_ID_TYPES, ChildId};
use crate::settings::Settings;

/// Returns the collation of every command that names a child: ids are equal if their values are. By the collection's
/// collation, an upsert would add a child that a removal takes for another.
pub(crate) fn exact() -> Collation {
    Collation::builder().locale("simple").build()
}

pub(crate) fn parent(id: &DocumentId) -> Document {
    doc! { "_id": { "$eq": id.to_bson() } }
}

/// Matches a child by its id. As an `$elemMatch`, it makes `$` in an update refer to this child.
pub(crate) fn this_child(settings: &Settings, child: &ChildId) -> Document {
    doc! { "$elemMatch": { settings.child_id.as_str(): { "$eq": child.to_bson() } } }
}

/// Matches the parent if it has this child.
pub(crate) fn parent_with(settings: &Settings, id: &DocumentId, child: &ChildId) -> Document {
    doc! { "_id": { "$eq": id.to_bson() }, settings.children.as_str(): this_child(settings, child) }
}

/// Matches the parent if it has room, and no child with this id.
pub(crate) fn parent_with_room(settings: &Settings, id: &DocumentId, child: &ChildId) -> Document {
    let children = settings.children.as_str();
    let room = doc! { "bsonType": "array", "maxItems": settings.max_bson() - 1 };
    doc! {
        "_id": { "$eq": id.to_bson() },
        "$jsonSchema": { "properties": { children: room } },
        children: { "$not": this_child(settings, child) },
    }
}

/// Adds a child at the end.
pub(crate) fn push(settings: &Settings, child: Document) -> Document {
    // The server would take a field such as `$each` for a modifier of the push.
    let has_operators = child.keys().any(|field| field.starts_with('$'));
    let child = if has_operators {
        doc! { "$each": [child] }
    } else {
        child
    };
    doc! { "$push": { settings.children.as_str(): child } }
}

/// Replaces the child that the filter found.
pub(crate) fn replace(settings: &Settings, child: Document) -> Document {
    doc! { "$set": { format!("{}.$", settings.children): child } }
}

/// Updates the child that the filter found.
pub(crate) fn change(settings: &Settings, operators: Operators) -> Document {
    operators.under(&format!("{}.$.", settings.children))
}

/// Removes a child.
pub(crate) fn pull(settings: &Settings, child: &ChildId) -> Document {
    let this = doc! { settings.child_id.as_str(): { "$eq": child.to_bson() } };
    doc! { "$pull": { settings.children.as_str(): this } }
}

/// Returns an expression of the ids of an array's elements, with null for a missing id.
pub(crate) fn child_ids(settings: &Settings, array: &str) -> Document {
    let id = doc! { "$ifNull": [format!("$$child.{}", settings.child_id), null] };
    doc! { "$map": { "input": array, "as": "child", "in": id } }
}

fn literal(ids: &[ChildId]) -> Document {
    doc! { "$literal": ids.iter().map(ChildId::to_bson).collect::<Vec<Bson>>() }
}

/// Returns an expression of whether the children are exactly the children with these ids. It also compares the number of
/// distinct ids: two equal ids, such as 1 and 1.0, would double one child and lose another.
pub(crate) fn has_exactly(settings: &Settings, ids: &[ChildId]) -> Document {
    let array = format!("${}", settings.children);
    let number = i64::try_from(ids.len()).unwrap_or(i64::MAX);
    let as_many = doc! { "$eq": [{ "$size": &array }, number] };
    let all_different = doc! { "$eq": [{ "$size": { "$setUnion": [literal(ids), []] } }, number] };
    let same = doc! { "$setEquals": [child_ids(settings, &array), literal(ids)] };
    doc! { "$cond": [{ "$isArray": &array }, { "$and": [as_many, all_different, same] }, false] }
}

/// Matches the parent if its children are exactly these.
pub(crate) fn parent_with_exactly(settings: &Settings, id: &DocumentId, ids: &[ChildId]) -> Document {
    doc! { "_id": { "$eq": id.to_bson() }, "$expr": has_exactly(settings, ids) }
}

/// Reorders the children, which are exactly these.
pub(crate) fn reorder(settings: &Settings, ids: &[ChildId]) -> [Document; 1] {
    let this = doc! { "$eq": [format!("$$child.{}", settings.child_id), "$$id"] };
    let matching = doc! { "$filter": { "input": format!("${}", settings.children), "as": "child", "cond": this } };
    let child = doc! { "$arrayElemAt": [matching, 0] };
    let ordered = doc! { "$map": { "input": literal(ids), "as": "id", "in": child } };
    [doc! { "$set": { settings.children.as_str(): ordered } }]
}

/// Projects one child of a parent.
pub(crate) fn only(settings: &Settings, child: &ChildId) -> Document {
    doc! { settings.children.as_str(): this_child(settings, child) }
}

/// Projects one child of a parent, and the version of a subset.
pub(crate) fn only_and_version(settings: &Settings, child: &ChildId) -> Document {
    let mut projection = only(settings, child);
    projection.insert(settings.version().as_str(), 1);
    projection
}

/// Returns the field of the [summary], which must not have the name of the array.
pub(crate) fn summary_field(settings: &Settings) -> &'static str {
    if settings.children.as_str() == "look" {
        "looked"
    } else {
        "look"
    }
}

/// Projects the reason why a write was refused: the version of a subset, the type of the array, its size, the one child, and
/// whether the children are exactly the listed ones.
pub(crate) fn summary(settings: &Settings, child: Option<&ChildId>, listed: Option<&[ChildId]>) -> Document {
    let array = format!("${}", settings.children);
    let mut summary = doc! {
        "type": { "$type": &array },
        "size": { "$cond": [{ "$isArray": &array }, { "$size": &array }, 0] },
    };
    if let Some(listed) = listed {
        summary.insert("exactly", has_exactly(settings, listed));
    }
    let mut projection = doc! { "_id": 1, settings.version().as_str(): 1 };
    if let Some(child) = child {
        projection.extend(only(settings, child));
    }
    projection.insert(summary_field(settings), summary);
    projection
}

/// Finds the parents that have a problem, with the numbers that show which.
pub(crate) fn faults(settings: &Settings) -> [Document; 2] {
    let (project, is_sound) = checked(settings);
    [project, doc! { "$match": { "$expr": { "$not": [is_sound] } } }]
}

/// Does the same, with an empty row for each parent without a problem, which shows the progress.
pub(crate) fn faults_and_sound(settings: &Settings) -> [Document; 2] {
    let (project, is_sound) = checked(settings);
    [project, doc! { "$replaceWith": { "$cond": [is_sound, {}, "$$ROOT"] } }]
}

/// Returns the projection of the numbers of a parent, and an expression of whether it has no problem.
fn checked(settings: &Settings) -> (Document, Document) {
    let array = format!("${}", settings.children);
    let such = |condition: Document| doc! { "$filter": { "input": &array, "as": "child", "cond": condition } };
    let is_document = doc! { "$eq": [{ "$type": "$$child" }, "object"] };
    let id = format!("$$child.{}", settings.child_id);
    let usable = doc! { "$in": [{ "$type": &id }, CHILD_ID_TYPES.to_vec()] };
    let documents = such(is_document.clone());
    let with_id = such(doc! { "$and": [is_document, usable] });
    let ids = doc! { "$map": { "input": &with_id, "as": "child", "in": id } };
    let number = |of: Document| doc! { "$cond": [{ "$isArray": &array }, { "$size": of }, 0] };
    let numbers = doc! {
        "type": { "$type": &array },
        "size": { "$cond": [{ "$isArray": &array }, { "$size": &array }, 0] },
        "documents": number(documents),
        "withId": number(with_id),
        "different": number(doc! { "$setUnion": [ids, []] }),
    };
    let sound = doc! { "$and": [
        { "$eq": ["$type", "array"] },
        { "$lte": ["$size", settings.max_bson()] },
        { "$eq": ["$size", "$different"] },
    ] };
    (doc! { "$project": numbers }, sound)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joe() -> DocumentId {
        DocumentId::new("joe").unwrap()
    }

    fn home() -> ChildId {
        ChildId::new("home".into()).unwrap()
    }

    #[test]
    fn a_child_is_added_if_there_is_room_and_no_child_with_its_id() {
        assert_eq!(
            parent_with_room(&Settings::example(), &joe(), &home()),
            doc! {
                "_id": { "$eq": "joe" },
                "$jsonSchema": { "properties": { "addresses": { "bsonType": "array", "maxItems": 4 } } },
                "addresses": { "$not": { "$elemMatch": { "id": { "$eq": "home" } } } },
            }
        );
        let child = doc! { "id": "home", "zip": "12345" };
        assert_eq!(
            push(&Settings::example(), child.clone()),
            doc! { "$push": { "addresses": child } }
        );
        let hostile = doc! { "id": "home", "$each": [1, 2, 3] };
        assert_eq!(
            push(&Settings::example(), hostile.clone()),
            doc! { "$push": { "addresses": { "$each": [hostile] } } }
        );
    }

    #[test]
    fn a_child_is_found_as_one_element() {
        let settings = Settings::example();
        let operators = |update| Operators::new(update, &[]).unwrap();
        assert_eq!(
            parent_with(&settings, &joe(), &home()),
            doc! { "_id": { "$eq": "joe" }, "addresses": { "$elemMatch": { "id": { "$eq": "home" } } } }
        );
        assert_eq!(
            replace(&settings, doc! { "id": "home" }),
            doc! { "$set": { "addresses.$": { "id": "home" } } }
        );
        assert_eq!(
            change(
                &settings,
                operators(
                    doc! { "$set": { "zip": "$zip" }, "$inc": { "visits.0": 1 }, "$push": { "tags": doc! { "$gt": 1 } } }
                )
            ),
            doc! {
                "$set": { "addresses.$.zip": "$zip" },
                "$inc": { "addresses.$.visits.0": 1 },
                "$push": { "addresses.$.tags": { "$gt": 1 } },
            }
        );
        assert_eq!(
            pull(&settings, &home()),
            doc! { "$pull": { "addresses": { "id": { "$eq": "home" } } } }
        );
    }

    #[test]
    fn a_hostile_id_is_a_value_everywhere() {
        let settings = Settings::example();
        let id = doc! { "$gt": "" };
        let (parent_id, child) = (
            DocumentId::new(id.clone()).unwrap(),
            ChildId::new(id.clone().into()).unwrap(),
        );
        assert_eq!(
            parent_with(&settings, &parent_id, &child),
            doc! { "_id": { "$eq": &id }, "addresses": { "$elemMatch": { "id": { "$eq": &id } } } }
        );
        let [stage] = reorder(&settings, &[ChildId::new("$name".into()).unwrap(), child]);
        let map = stage.get_document("$set").unwrap().get_document("addresses").unwrap();
        let input = map.get_document("$map").unwrap().get("input");
        assert_eq!(input, Some(&doc! { "$literal": ["$name", id] }.into()));
    }

    #[test]
    fn children_are_reordered_only_when_they_are_exactly_these() {
        let settings = Settings::example();
        let ids = [home(), ChildId::new(2.into()).unwrap()];
        let listed = doc! { "$literal": ["home", 2] };
        let stored = doc! { "$map": {
            "input": "$addresses", "as": "child", "in": { "$ifNull": ["$$child.id", null] },
        } };
        let exactly = doc! { "$and": [
            { "$eq": [{ "$size": "$addresses" }, 2_i64] },
            { "$eq": [{ "$size": { "$setUnion": [&listed, []] } }, 2_i64] },
            { "$setEquals": [stored, &listed] },
        ] };
        let expected = doc! { "$cond": [{ "$isArray": "$addresses" }, exactly, false] };
        assert_eq!(
            parent_with_exactly(&settings, &joe(), &ids),
            doc! { "_id": { "$eq": "joe" }, "$expr": expected }
        );
        let found = doc! { "$filter": {
            "input": "$addresses", "as": "child", "cond": { "$eq": ["$$child.id", "$$id"] },
        } };
        assert_eq!(
            reorder(&settings, &ids),
            [doc! { "$set": { "addresses": { "$map": {
                "input": &listed, "as": "id", "in": { "$arrayElemAt": [found, 0] },
            } } } }]
        );
    }

    #[test]
    fn the_summary_never_has_the_name_of_the_array() {
        use mongo_patterns_core::FieldName;

        let settings = Settings {
            children: FieldName::new("look").unwrap(),
            ..Settings::example()
        };
        let projection = summary(&settings, Some(&home()), None);
        assert_eq!(
            projection.keys().collect::<Vec<_>>(),
            ["_id", "look_version", "look", "looked"]
        );
    }

    #[test]
    fn only_parents_with_a_problem_are_returned() {
        let [project, filter] = faults(&Settings::example());
        let project = project.get_document("$project").unwrap();
        assert_eq!(project.get("type"), Some(&doc! { "$type": "$addresses" }.into()));
        let fields: Vec<&String> = project.keys().collect();
        assert_eq!(fields, ["type", "size", "documents", "withId", "different"]);
        let sound = doc! { "$and": [
            { "$eq": ["$type", "array"] },
            { "$lte": ["$size", 5] },
            { "$eq": ["$size", "$different"] },
        ] };
        assert_eq!(filter, doc! { "$match": { "$expr": { "$not": [sound] } } });
    }
}
