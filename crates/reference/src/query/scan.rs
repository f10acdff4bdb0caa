//! The reads of all copies.

use mongodb::bson::{Bson, Document, doc};

use super::expression::{ELEMENT, filtered};
use crate::settings::{MARK, ReferenceField, Settings};

/// Each source that is referred to, with the lowest version of its copies: -1 if one has none.
pub(crate) fn lowest_versions(settings: &Settings, field: &ReferenceField) -> Vec<Document> {
    let (id, version) = (field.path("_id"), field.path(settings.version.as_str()));
    let lowest = doc! { "$min": { "$ifNull": [format!("${version}"), -1] } };
    let mut pipeline = vec![doc! { "$group": { "_id": format!("${id}"), "v": lowest } }];
    if field.is_array {
        pipeline.insert(0, doc! { "$unwind": format!("${}", field.name) });
    }
    pipeline
}

pub(crate) fn with_any<'f>(fields: impl Iterator<Item = &'f ReferenceField>) -> Document {
    let present = fields.map(|field| doc! { field.name.as_str(): { "$ne": null } });
    doc! { "$or": present.collect::<Vec<_>>() }
}

/// The fields with references of the documents of a collection.
pub(crate) fn references<'f>(fields: impl Iterator<Item = &'f ReferenceField>) -> Document {
    let mut projection = doc! { "_id": 1 };
    projection.extend(fields.map(|field| (field.name.as_str().to_owned(), Bson::Int32(1))));
    projection
}

/// The copies of a source in one field of a document.
pub(crate) fn copies_of(field: &ReferenceField, source: Option<&Bson>) -> Document {
    let path = format!("${}", field.name);
    let copies = match source {
        Some(source) if field.is_array => {
            let is_of_source = doc! { "$eq": [format!("{ELEMENT}._id"), { "$literal": source }] };
            doc! { "$cond": [{ "$isArray": &path }, filtered(&path, is_of_source), &path] }.into()
        }
        _ => Bson::Int32(1),
    };
    doc! { "_id": 1, field.name.as_str(): copies }
}

/// The fields of a source that show whether a copy of it is current.
pub(crate) fn versions(settings: &Settings) -> Document {
    doc! { settings.version.as_str(): 1, MARK: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::example;

    #[test]
    fn the_lowest_version_of_the_copies_of_each_source_is_read() {
        let settings = example();
        let lowest = |name: &str| {
            let version = doc! { "$min": { "$ifNull": [format!("${name}.v"), -1] } };
            doc! { "$group": { "_id": format!("${name}._id"), "v": version } }
        };
        assert_eq!(
            lowest_versions(&settings, &settings.references[0]),
            [lowest("customer")]
        );
        assert_eq!(
            lowest_versions(&settings, &settings.references[1]),
            [doc! { "$unwind": "$products" }, lowest("products")]
        );
    }

    #[test]
    fn only_the_copies_of_a_source_are_read_from_an_array() {
        let settings = example();
        let source = Bson::from("$name");
        assert_eq!(
            copies_of(&settings.references[0], Some(&source)),
            doc! { "_id": 1, "customer": 1 }
        );
        let of_source = doc! { "$filter": {
            "input": "$products",
            "as": "element",
            "cond": { "$eq": ["$$element._id", { "$literal": "$name" }] },
        } };
        assert_eq!(
            copies_of(&settings.references[1], Some(&source)),
            doc! { "_id": 1, "products": { "$cond": [{ "$isArray": "$products" }, of_source, "$products"] } }
        );
    }

    #[test]
    fn documents_without_references_are_not_read() {
        let settings = example();
        assert_eq!(
            with_any(settings.own()),
            doc! { "$or": [{ "customer": { "$ne": null } }, { "products": { "$ne": null } }] }
        );
        assert_eq!(
            references(settings.own()),
            doc! { "_id": 1, "customer": 1, "products": 1 }
        );
    }
}
