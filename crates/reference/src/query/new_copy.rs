//! The copy of a source as an expression. It makes what [`form::copy::new`](crate::form::copy::new) makes.

use mongodb::bson::{Bson, Document, doc};

use super::expression::{is_missing, type_in, without_field};
use crate::settings::copied::FieldPath;
use crate::settings::{DELETED, ReferenceField, Settings};

/// Returns a reference with the copy of the source in the variable `source`, for a document without a copy, or the name of
/// the source.
pub(crate) fn new_copy(settings: &Settings, field: &ReferenceField, value: &str, is_document: Document) -> Document {
    let version = settings.version.as_str();
    let leaves = field.copied.iter();
    let leaves: Vec<(&[String], Bson)> = leaves
        .map(|copied| (copied.target.parts(), value_at(&copied.source)))
        .collect();
    let mut parts = vec![doc! { "_id": "$$source._id" }];
    parts.extend(copied(&leaves));
    parts.push(doc! { version: { "$toLong": { "$ifNull": [format!("$$source.{version}"), 0] } } });
    let targets: Vec<&[String]> = leaves.iter().map(|(target, _)| *target).collect();
    let own = own_fields(value, "$$copy", &["_id", DELETED, version], &targets);
    doc! { "$let": {
        "vars": { "copy": { "$mergeObjects": parts } },
        "in": { "$cond": [is_document, { "$mergeObjects": ["$$copy", own] }, "$$copy"] },
    } }
}

/// Returns the value of a source at a path. A path through an array, or another value that is not a document, has none.
fn value_at(path: &FieldPath) -> Bson {
    let parts = path.parts();
    let path_of = |parts: &[String]| format!("$$source.{}", parts.join("."));
    match parts.len() {
        1 => path_of(parts).into(),
        length => {
            let parent = type_in(path_of(&parts[..length - 1]), &["object"]);
            doc! { "$cond": [parent, path_of(parts), "$$REMOVE"] }.into()
        }
    }
}

/// Returns documents whose merge has the values at the targets, except missing ones. A document with several is at the
/// position of the first one that exists.
fn copied(leaves: &[(&[String], Bson)]) -> Vec<Document> {
    let mut parts = Vec::new();
    let mut rest = leaves;
    while let Some((target, value)) = rest.first() {
        let head = &target[0];
        if target.len() == 1 {
            parts.push(doc! { head: value.clone() });
            rest = &rest[1..];
            continue;
        }
        let run = rest.iter().take_while(|(target, _)| target[0] == *head).count();
        let absent = rest[..run].iter().map(|(_, value)| is_missing(value.clone()));
        let absent: Vec<Document> = absent.collect();
        let inside = leaves.iter().filter(|(target, _)| target[0] == *head);
        let inside: Vec<(&[String], Bson)> = inside.map(|(target, value)| (&target[1..], value.clone())).collect();
        let inner = doc! { "$mergeObjects": copied(&inside) };
        parts.push(doc! { head: { "$cond": [{ "$and": absent }, "$$REMOVE", inner] } });
        rest = &rest[run..];
    }
    parts
}

/// Returns the fields of a document that are neither reserved nor copied. A field that has copied fields is merged with the
/// copy's. Another value at such a path is dropped.
fn own_fields(own: &str, copy: &str, reserved: &[&str], targets: &[&[String]]) -> Bson {
    let mut fields = Bson::from(own);
    let whole = targets.iter().filter(|target| target.len() == 1);
    for name in reserved.iter().copied().chain(whole.map(|target| target[0].as_str())) {
        fields = without_field(fields, name).into();
    }
    for (head, inside) in inner(targets) {
        let (own, copy) = (format!("{own}.{head}"), format!("{copy}.{head}"));
        let merged = doc! { "$mergeObjects": [&copy, own_fields(&own, &copy, &[], &inside)] };
        let value = doc! { "$cond": [type_in(&own, &["object"]), merged, "$$REMOVE"] };
        fields = doc! { "$setField": { "field": { "$literal": head }, "input": fields, "value": value } }.into();
    }
    fields
}

/// Returns the documents in a copy that have copied fields, with the targets in each of them.
fn inner<'t>(targets: &[&'t [String]]) -> Vec<(&'t str, Vec<&'t [String]>)> {
    let mut inner: Vec<(&str, Vec<&[String]>)> = Vec::new();
    for target in targets.iter().filter(|target| target.len() > 1) {
        match inner.iter_mut().find(|(head, _)| *head == target[0]) {
            Some((_, inside)) => inside.push(&target[1..]),
            None => inner.push((&target[0], vec![&target[1..]])),
        }
    }
    inner
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::expression::is_reference;
    use crate::settings::tests::{example, field};

    #[test]
    fn a_copy_has_the_id_the_copied_fields_the_version_and_then_the_own_fields() {
        let settings = example();
        let city = doc! { "$cond": [
            { "$in": [{ "$type": "$$source.address" }, ["object"]] }, "$$source.address.city", "$$REMOVE",
        ] };
        let absent = doc! { "$eq": [{ "$type": city.clone() }, "missing"] };
        let copy = doc! { "$mergeObjects": [
            { "_id": "$$source._id" },
            { "name": "$$source.name" },
            { "address": { "$cond": [{ "$and": [absent] }, "$$REMOVE", { "$mergeObjects": [{ "city": city }] }] } },
            { "v": { "$toLong": { "$ifNull": ["$$source.v", 0] } } },
        ] };
        let without = |name: &str, input: Bson| {
            Bson::from(doc! { "$unsetField": { "field": { "$literal": name }, "input": input } })
        };
        let mut own = Bson::from("$$element");
        for name in ["_id", "deleted", "v", "name"] {
            own = without(name, own);
        }
        let note = doc! { "$mergeObjects": ["$$copy.address", without("city", "$$element.address".into())] };
        let is_object = doc! { "$in": [{ "$type": "$$element.address" }, ["object"]] };
        let own = doc! { "$setField": {
            "field": { "$literal": "address" },
            "input": own,
            "value": { "$cond": [is_object, note, "$$REMOVE"] },
        } };
        let expected = doc! { "$let": {
            "vars": { "copy": copy },
            "in": { "$cond": [is_reference("$$element"), { "$mergeObjects": ["$$copy", own] }, "$$copy"] },
        } };
        let is_document = is_reference("$$element");
        assert_eq!(
            new_copy(&settings, &settings.references[0], "$$element", is_document),
            expected
        );
    }

    #[test]
    fn a_document_with_several_copied_fields_is_at_the_first_one() {
        let field = field("c", &[("a.x", "x"), ("n", "n"), ("a.y", "y")]);
        let leaves = field.copied.iter();
        let leaves: Vec<(&[String], Bson)> = leaves
            .map(|copied| (copied.target.parts(), value_at(&copied.source)))
            .collect();
        let both = doc! { "$mergeObjects": [{ "x": "$$source.x" }, { "y": "$$source.y" }] };
        let unless = |path: &str| {
            let absent = doc! { "$eq": [{ "$type": path }, "missing"] };
            doc! { "a": { "$cond": [{ "$and": [absent] }, "$$REMOVE", &both] } }
        };
        assert_eq!(
            copied(&leaves),
            [unless("$$source.x"), doc! { "n": "$$source.n" }, unless("$$source.y")]
        );
    }
}
