//! The copy of a source in a referring document.

use std::collections::BTreeMap;

use mongodb::bson::{Bson, Document, RawBsonRef, RawDocumentBuf, doc};

use super::source::{Source, stored_version};
use crate::settings::copied::FieldPath;
use crate::settings::{DELETED, ReferenceField, Settings};

/// A version that no source reaches by updates. A higher version of a copy is invalid, so that it cannot raise its source up
/// to the maximum.
pub(crate) const PLAUSIBLE: u64 = 1 << 52;

/// A difference between a copy and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    /// The copy has no valid version.
    NoVersion,
    /// The copy has this older version.
    Older(u64),
    /// The copy has this newer version.
    Newer(u64),
    /// The versions are equal, the values are not.
    Values,
}

/// Returns a new copy: the id, the copied fields, the version, and then the fields of `own` that are not copied.
pub(crate) fn new(settings: &Settings, field: &ReferenceField, source: &Source, own: Option<Document>) -> Document {
    let mut copy = doc! { "_id": source.id.clone() };
    for copied in &field.copied {
        if let Some(value) = source.value(&copied.source) {
            copied.target.set(&mut copy, value.clone());
        }
    }
    copy.insert(settings.version.as_str(), source.stored_version());
    if let Some(mut own) = own {
        for reserved in ["_id", DELETED, settings.version.as_str()] {
            own.remove(reserved);
        }
        for copied in &field.copied {
            copied.target.remove(&mut own);
        }
        let targets: Vec<&[String]> = field.copied.iter().map(|copied| copied.target.parts()).collect();
        add_missing(&mut copy, own, &targets);
    }
    copy
}

/// Adds the fields that a document does not have. A document with copied fields is merged. Another value at such a path is
/// dropped.
fn add_missing(to: &mut Document, own: Document, targets: &[&[String]]) {
    for (name, value) in own {
        let inside: Vec<&[String]> = targets
            .iter()
            .filter(|target| target.len() > 1 && target[0] == name)
            .map(|target| &target[1..])
            .collect();
        match (inside.is_empty(), value) {
            (true, value) => drop(to.insert(name, value)),
            (false, Bson::Document(value)) => {
                let inner = to.entry(name).or_insert_with(|| Document::new().into());
                if let Bson::Document(inner) = inner {
                    add_missing(inner, value, &inside);
                }
            }
            (false, _) => {}
        }
    }
}

/// Overwrites the copied fields and the version of a copy.
pub(crate) fn refresh(settings: &Settings, field: &ReferenceField, source: &Source, copy: &mut Document) {
    for copied in &field.copied {
        match source.value(&copied.source) {
            Some(value) => copied.target.set(copy, value.clone()),
            None => copied.target.remove(copy),
        }
    }
    copy.insert(settings.version.as_str(), source.stored_version());
}

/// Returns the update that sets the copied fields and the version of the copy at a path, such as `customer` or
/// `products.$[copy]`.
pub(crate) fn update(settings: &Settings, field: &ReferenceField, source: &Source, path: &str) -> Document {
    let (mut set, mut unset) = (Document::new(), Document::new());
    for copied in &field.copied {
        let target = format!("{path}.{}", copied.target.text());
        match source.value(&copied.source) {
            Some(value) => drop(set.insert(target, value.clone())),
            None => drop(unset.insert(target, "")),
        }
    }
    set.insert(format!("{path}.{}", settings.version), source.stored_version());
    let mut update = doc! { "$set": set };
    if !unset.is_empty() {
        update.insert("$unset", unset);
    }
    update
}

/// Compares a copy with its source.
pub(crate) fn difference(
    settings: &Settings,
    field: &ReferenceField,
    source: &Source,
    copy: &Document,
) -> Option<Difference> {
    let Some(version) = version(settings, copy) else {
        return Some(Difference::NoVersion);
    };
    if version != source.version {
        return Some(match version < source.version {
            true => Difference::Older(version),
            false if version >= PLAUSIBLE => Difference::NoVersion,
            false => Difference::Newer(version),
        });
    }
    let mut pairs = field
        .copied
        .iter()
        .map(|copied| (copied.target.value(copy), source.value(&copied.source)));
    (is_deleted(copy) || pairs.any(|(copied, value)| !is_same(copied, value))).then_some(Difference::Values)
}

/// Returns the version of a copy. `None` for anything but an integer from 0.
pub(crate) fn version(settings: &Settings, copy: &Document) -> Option<u64> {
    version_of(copy.get(settings.version.as_str())?)
}

/// Returns a version of a copy as a number. `None` for anything but an integer from 0.
pub(crate) fn version_of(version: &Bson) -> Option<u64> {
    stored_version(match version {
        Bson::Int32(value) => RawBsonRef::Int32(*value),
        Bson::Int64(value) => RawBsonRef::Int64(*value),
        Bson::Double(value) => RawBsonRef::Double(*value),
        _ => return None,
    })
}

/// Returns whether the source of a copy was deleted, and the copy was kept.
pub(crate) fn is_deleted(copy: &Document) -> bool {
    copy.get(DELETED) == Some(&Bson::Boolean(true))
}

/// Compares by bytes if the values are not equal, because a NaN does not equal itself.
fn is_same(a: Option<&Bson>, b: Option<&Bson>) -> bool {
    let bytes = |value: &Bson| RawDocumentBuf::try_from(&doc! { "": value }).ok();
    match (a, b) {
        (Some(a), Some(b)) => a == b || bytes(a).is_some_and(|a| Some(a) == bytes(b)),
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// Returns the fields that a read of sources needs, for some references.
pub(crate) fn projection<'s>(
    settings: &'s Settings,
    references: impl IntoIterator<Item = &'s ReferenceField>,
) -> Document {
    let mut paths: BTreeMap<String, &FieldPath> = BTreeMap::new();
    for copied in references.into_iter().flat_map(|field| &field.copied) {
        paths.insert(copied.source.text(), &copied.source);
    }
    let mut fields = Document::new();
    // The server refuses two paths of which one leads into the other.
    for (text, path) in &paths {
        let contains = |other: &&FieldPath| other.parts().len() < path.parts().len() && other.overlaps(path);
        if !paths.values().any(contains) {
            fields.insert(text, 1);
        }
    }
    fields.insert(settings.version.as_str(), 1);
    fields.insert(crate::settings::MARK, 1);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::{example, field};

    #[allow(clippy::needless_pass_by_value)] // a literal
    fn source(document: Document) -> Source {
        Source::read(&example(), &RawDocumentBuf::try_from(&document).unwrap()).unwrap()
    }

    #[test]
    fn a_new_copy_has_the_copied_fields_first_and_keeps_the_own_ones() {
        let settings = example();
        let ann = source(doc! { "_id": 456_i64, "name": "Ann", "address": { "city": "Dublin", "zip": "D1" }, "v": 3 });
        let own = doc! {
            "quantity": 2, "_id": 456, "name": "old", "v": 1, "deleted": true, "address": { "city": "old", "note": "x" },
        };
        assert_eq!(
            new(&settings, &settings.references[0], &ann, Some(own)),
            doc! {
                "_id": 456_i64, "name": "Ann", "address": { "city": "Dublin", "note": "x" }, "v": 3_i64, "quantity": 2,
            }
        );
        let without = source(doc! { "_id": 1 });
        let own = doc! { "_id": 1, "name": "old", "address": "none" };
        assert_eq!(
            new(&settings, &settings.references[0], &without, Some(own)),
            doc! { "_id": 1, "v": 0_i64 }
        );
    }

    #[test]
    fn an_update_sets_what_the_source_has_and_unsets_the_rest() {
        let settings = example();
        let customer = &settings.references[0];
        let ann = source(doc! { "_id": 1, "name": { "$gt": "Ann" }, "v": 4 });
        assert_eq!(
            update(&settings, customer, &ann, "customer"),
            doc! {
                "$set": { "customer.name": { "$gt": "Ann" }, "customer.v": 4_i64 },
                "$unset": { "customer.address.city": "" },
            }
        );
        let mut copy = doc! { "_id": 1, "name": "old", "address": { "city": "x", "own": 1 }, "v": 1 };
        refresh(&settings, customer, &ann, &mut copy);
        assert_eq!(
            copy,
            doc! { "_id": 1, "name": { "$gt": "Ann" }, "address": { "own": 1 }, "v": 4_i64 }
        );
    }

    #[test]
    fn a_copy_is_compared_by_version_and_then_by_values() {
        let settings = example();
        let compare = |copy: Document| {
            let ann = source(doc! { "_id": 1, "name": f64::NAN, "v": 4 });
            difference(&settings, &settings.references[0], &ann, &copy)
        };
        assert_eq!(compare(doc! { "name": f64::NAN, "v": 4, "quantity": 1 }), None);
        assert_eq!(compare(doc! { "name": f64::NAN, "v": 4.0 }), None);
        assert_eq!(compare(doc! { "v": 3 }), Some(Difference::Older(3)));
        assert_eq!(compare(doc! { "v": 5_i64 }), Some(Difference::Newer(5)));
        let impossible = doc! { "v": i64::MAX };
        for version in [
            doc! {},
            doc! { "v": "4" },
            doc! { "v": null },
            doc! { "v": -1 },
            impossible,
        ] {
            assert_eq!(compare(version), Some(Difference::NoVersion));
        }
        for values in [
            doc! { "v": 4 },
            doc! { "v": 4, "name": "Ann" },
            doc! { "v": 4, "name": f64::NAN, "address": { "city": "Dublin" } },
            doc! { "v": 4, "name": f64::NAN, "deleted": true },
        ] {
            assert_eq!(compare(values), Some(Difference::Values));
        }
    }

    #[test]
    fn a_projection_has_no_path_that_leads_into_another_one() {
        let settings = example();
        let fields = [
            field("a", &[("city", "address.city"), ("name", "name")]),
            field("b", &[("address", "address"), ("n", "name")]),
        ];
        assert_eq!(
            projection(&settings, &fields),
            doc! { "address": 1, "name": 1, "v": 1, "mongo_patterns_deleting": 1 }
        );
    }
}
