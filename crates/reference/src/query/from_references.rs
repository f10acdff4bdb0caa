//! The pipelines of the migration from references.
//!
//! # Design
//!
//! ## Why is the write a `$merge` with a pipeline?
//!
//! Only an aggregation can look up the sources. A plain `$merge` would write back what it has read, over a concurrent
//! change of the same document. The pipeline sees the document as it is when it is written, and changes only the fields
//! of the references, and only if they are those that were read.

use mongo_patterns_core::migration::{both, record_filter};

use super::expression::{
    ELEMENT, Problem, any, any_of, concatenated, count_by_reason, filtered, first_problem, id_in, ids, is_extended,
    is_id, is_missing, is_no_array, is_present, is_reference, is_version, lookup_sources, mapped, not, values,
    with_source,
};
use super::new_copy::new_copy;
use super::{by_ids, scan};
use crate::form::copy;
use crate::prelude::*;
use crate::results::InvalidDocuments;
use crate::settings::bare::{BareField, recorded};
use crate::settings::{DELETED, MARK};

/// MongoDB's limit of a document.
const MAX_BYTES: i64 = 16 * 1024 * 1024;

/// The conversion of documents with ids into documents with copies.
pub(crate) struct FromReferences<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) fields: &'a [BareField<'a>],
    /// The names of the collections.
    pub(crate) documents: &'a str,
    pub(crate) sources: &'a str,
    /// The documents to migrate.
    pub(crate) filter: &'a Document,
    /// The collection that lists invalid documents, which are skipped then.
    pub(crate) skipped: Option<&'a str>,
}

/// Returns the name of a field of the examined documents: `f` for the reference field, `b` for that of the ids, `g` for
/// the one of the two that is migrated, and `n` for the new references.
fn named(name: char, at: usize) -> String {
    format!("{name}{at}")
}

/// Returns the path of such a field.
fn path(name: char, at: usize) -> String {
    format!("${name}{at}")
}

impl FromReferences<'_> {
    fn numbered(&self) -> impl Iterator<Item = (usize, &BareField<'_>)> {
        self.fields.iter().enumerate()
    }

    /// Matches the documents that have something to migrate.
    pub(crate) fn selected(&self) -> Document {
        both(self.filter.clone(), doc! { "$expr": self.is_open() })
    }

    /// Returns whether a document has something to migrate.
    pub(crate) fn is_open(&self) -> Document {
        any_of(self.fields.iter().map(|one| {
            let in_field = self.has_open(one.field, &format!("${}", one.field.name));
            match one.is_in_place() {
                true => in_field,
                false => any_of([not(is_missing(format!("${}", one.bare))), in_field]),
            }
        }))
    }

    /// Returns whether a field has a value that is not an extended reference.
    fn has_open(&self, field: &ReferenceField, value: &str) -> Document {
        any_of([
            is_no_array(field, value),
            any(values(field, value), not(is_extended(self.settings, field, ELEMENT))),
        ])
    }

    /// Walks through the documents to migrate.
    pub(crate) fn walk(&self, most: u64) -> Walk {
        Walk::by_number(self.selected(), most)
    }

    /// Examines documents: the field `r` has the problem of one that cannot be migrated, or is null.
    pub(crate) fn examined(&self, filter: Document) -> Vec<Document> {
        let mut read = doc! { "_id": 1, "size": { "$bsonSize": "$$ROOT" } };
        let mut given = Document::new();
        for (at, one) in self.numbered() {
            let of_field = path('f', at);
            read.insert(named('f', at), format!("${}", one.field.name));
            given.insert(named('g', at), &of_field);
            if !one.is_in_place() {
                read.insert(named('b', at), format!("${}", one.bare));
                let given_in = doc! { "$cond": [is_present(&of_field), &of_field, path('b', at)] };
                given.insert(named('g', at), given_in);
            }
        }
        let own = self.fields.iter().map(|one| one.field);
        let [lookup, source_ids] = lookup_sources(self.sources, "ids", copy::projection(self.settings, own));
        let valid = doc! { "$eq": ["$r", null] };
        let new = self.numbered().map(|(at, one)| {
            let new = doc! { "$cond": [&valid, self.new_references(at, one.field), "$$REMOVE"] };
            (named('n', at), new.into())
        });
        let first_too_large = doc! { "reason": "too_large", "field": self.name_of(0).as_str() };
        let too_large = doc! { "$and": [&valid, { "$gt": [self.new_size(), MAX_BYTES] }] };
        vec![
            doc! { "$match": filter },
            doc! { "$project": read },
            doc! { "$addFields": given },
            doc! { "$addFields": { "ids": self.open_ids() } },
            lookup,
            source_ids,
            doc! { "$addFields": { "r": first_problem(self.problems()) } },
            doc! { "$addFields": Document::from_iter(new) },
            doc! { "$addFields": { "r": { "$cond": [too_large, first_too_large, "$r"] } } },
        ]
    }

    /// Returns the ids whose sources are copied.
    fn open_ids(&self) -> Document {
        concatenated(self.numbered().map(|(at, one)| {
            let open = self.open_values(at, one.field);
            filtered(mapped(open, id_in(ELEMENT)), is_id(ELEMENT))
        }))
    }

    /// Returns the new value of a reference field. It is missing for a document without references.
    fn new_references(&self, at: usize, field: &ReferenceField) -> Document {
        let new = with_source(id_in(ELEMENT), new_copy(self.settings, field, ELEMENT));
        let new = doc! { "$cond": [is_extended(self.settings, field, ELEMENT), ELEMENT, new] };
        let given = path('g', at);
        let new = match field.is_array {
            true => mapped(&given, new),
            false => doc! { "$let": { "vars": { "element": &given }, "in": new } },
        };
        doc! { "$cond": [is_present(&given), new, "$$REMOVE"] }
    }

    /// Returns the size of the migrated document.
    fn new_size(&self) -> Document {
        let (mut old, mut new) = (Document::new(), Document::new());
        for (at, one) in self.numbered() {
            old.insert(one.field.name.as_str(), path('f', at));
            new.insert(one.field.name.as_str(), path('n', at));
            if !one.is_in_place() {
                old.insert(one.bare.as_str(), path('b', at));
            }
        }
        let grown = doc! { "$subtract": [{ "$bsonSize": new }, { "$bsonSize": old }] };
        doc! { "$add": ["$size", grown] }
    }

    /// Returns the problems of documents, in the order in which they are checked.
    fn problems(&self) -> Vec<Problem<'_>> {
        let in_fields = |reason, condition: &dyn Fn(usize, &BareField<'_>) -> Document| {
            let problem = |(at, one)| (reason, self.name_of(at), condition(at, one));
            self.numbered().map(problem).collect::<Vec<_>>()
        };
        // With the ids in another field.
        let beside = |reason, condition: &dyn Fn(&ReferenceField, &str, &str) -> Document| {
            let other = self.numbered().filter(|(_, one)| !one.is_in_place());
            let problem = |(at, one): (usize, &BareField<'_>)| {
                let condition = condition(one.field, &path('f', at), &path('b', at));
                (reason, self.name_of(at), condition)
            };
            other.map(problem).collect::<Vec<_>>()
        };
        let is_unknown = doc! { "$not": [{ "$in": [id_in(ELEMENT), "$sid"] }] };
        let version = format!("$$source.{}", self.settings.version);
        let is_invalid = with_source(
            id_in(ELEMENT),
            doc! { "$cond": [is_missing(&version), false, not(is_version(&version))] },
        );
        [
            in_fields("no_array", &|at, one| is_no_array(one.field, &path('g', at))),
            beside("no_array", &|field, _, bare| is_no_array(field, bare)),
            in_fields("not_an_id", &|at, one| {
                any(ids(one.field, &path('g', at)), not(is_id(ELEMENT)))
            }),
            in_fields("twice", &|at, one| {
                let ids = ids(one.field, &path('g', at));
                doc! { "$ne": [{ "$size": { "$setUnion": [&ids, []] } }, { "$size": ids }] }
            }),
            beside("other_value", &|field, value, _| {
                let other = any(values(field, value), not(is_reference(ELEMENT)));
                any_of([is_no_array(field, value), other])
            }),
            beside("other_reference", &|field, value, bare| {
                let differ = doc! { "$not": [{ "$setEquals": [ids(field, value), ids(field, bare)] }] };
                doc! { "$and": [is_present(value), is_present(bare), differ] }
            }),
            in_fields("source_missing", &|at, one| {
                any(self.open_values(at, one.field), is_unknown.clone())
            }),
            in_fields("source_version", &|at, one| {
                any(self.open_values(at, one.field), is_invalid.clone())
            }),
        ]
        .concat()
    }

    fn name_of(&self, at: usize) -> &FieldName {
        &self.fields[at].field.name
    }

    /// Returns the values in a field that are not extended references.
    fn open_values(&self, at: usize, field: &ReferenceField) -> Document {
        filtered(
            values(field, &path('g', at)),
            not(is_extended(self.settings, field, ELEMENT)),
        )
    }

    /// Counts the documents to migrate, and the invalid ones by their reason, with one of each.
    pub(crate) fn inspection(&self) -> Vec<Document> {
        let is_valid = doc! { "$eq": ["$r", null] };
        let mut group = doc! { "_id": null, "documents": { "$sum": { "$cond": [is_valid, 1_i64, 0_i64] } } };
        count_by_reason(
            &mut group,
            InvalidDocuments::default().by_reason().map(|(reason, _)| reason),
        );
        let mut stages = self.examined(self.selected());
        stages.push(doc! { "$group": group });
        stages
    }

    /// Selects the invalid documents. Their reason is in the field `r.reason`.
    pub(crate) fn invalid(&self) -> Vec<Document> {
        let mut stages = self.examined(self.selected());
        stages.push(doc! { "$match": { "r": { "$ne": null } } });
        stages
    }

    /// Migrates the valid documents of a chunk.
    pub(crate) fn transfer(&self, chunk: &[Bson]) -> Vec<Document> {
        let mut made = doc! { "_id": 1 };
        let mut set = Document::new();
        let mut unchanged = Vec::new();
        for (at, one) in self.numbered() {
            made.insert(named('f', at), 1);
            made.insert(named('n', at), 1);
            let mut same = |name: char, of: &FieldName| {
                unchanged.push(doc! { "$eq": [format!("${of}"), format!("$$new.{}", named(name, at))] });
            };
            same('f', &one.field.name);
            if !one.is_in_place() {
                made.insert(named('b', at), 1);
                same('b', &one.bare);
            }
        }
        let unchanged = doc! { "$and": unchanged };
        for (at, one) in self.numbered() {
            let new = format!("$$new.{}", named('n', at));
            let is_new = doc! { "$and": [&unchanged, not(is_missing(&new))] };
            let value = doc! { "$cond": [is_new, new, format!("${}", one.field.name)] };
            set.insert(one.field.name.as_str(), value);
            if !one.is_in_place() {
                let value = doc! { "$cond": [&unchanged, "$$REMOVE", format!("${}", one.bare)] };
                set.insert(one.bare.as_str(), value);
            }
        }
        let mut stages = vec![doc! { "$match": by_ids(chunk) }];
        stages.extend(self.examined(self.selected()));
        stages.extend([
            doc! { "$match": { "r": null } },
            doc! { "$project": made },
            doc! { "$merge": {
                "into": self.documents,
                "on": "_id",
                "whenMatched": [{ "$set": set }],
                "whenNotMatched": "discard",
            } },
        ]);
        stages
    }

    /// Compares the copies in a chunk with their sources: one row for each source that was updated, marked or deleted since
    /// it was copied, by its `_id`, and one for the other documents. Their field `n` adds up to the migrated documents.
    pub(crate) fn second_read(&self, chunk: &[Bson]) -> Vec<Document> {
        let settings = self.settings;
        let version = settings.version.as_str();
        let copies = concatenated(self.fields.iter().map(|one| {
            let field = format!("${}", one.field.name);
            let of = |name: &str| format!("{ELEMENT}.{name}");
            let mut copy = doc! { "i": of("_id"), "d": of(DELETED) };
            if !one.field.is_snapshot {
                copy.insert("v", of(version));
            }
            mapped(
                filtered(values(one.field, &field), is_extended(settings, one.field, ELEMENT)),
                copy,
            )
        }));
        let of_source = |name: &str| format!("$$source.{name}");
        let is_newer = doc! { "$gt": [{ "$ifNull": [of_source(version), 0] }, format!("{ELEMENT}.v")] };
        let has_changed = doc! { "$or": [
            not(is_missing(of_source(MARK))),
            { "$and": [not(is_missing(format!("{ELEMENT}.v"))), is_newer] },
        ] };
        let is_kept = doc! { "$eq": [format!("{ELEMENT}.d"), true] };
        let is_bad = with_source(
            format!("{ELEMENT}.i"),
            doc! { "$cond": [is_missing("$$source"), not(is_kept), has_changed] },
        );
        let [lookup, source_ids] = lookup_sources(self.sources, "copies.i", scan::versions(settings));
        let migrated = doc! { "$and": [doc! { "$not": ["$open"] }, { "$lte": ["$at", 0] }] };
        vec![
            doc! { "$match": by_ids(chunk) },
            doc! { "$project": { "open": self.is_open(), "copies": copies } },
            lookup,
            source_ids,
            doc! { "$project": { "open": 1, "bad": mapped(filtered("$copies", is_bad), format!("{ELEMENT}.i")) } },
            doc! { "$unwind": { "path": "$bad", "includeArrayIndex": "at", "preserveNullAndEmptyArrays": true } },
            doc! { "$group": { "_id": "$bad", "n": { "$sum": { "$cond": [migrated, 1_i64, 0_i64] } } } },
        ]
    }

    /// The settings that all calls of one migration share.
    pub(crate) fn record_settings(&self) -> Document {
        let mut settings = recorded(self.settings, self.fields, [self.documents, self.sources], "copies");
        record_filter(&mut settings, self.filter);
        if let Some(list) = self.skipped {
            settings.insert("skipInvalid", list);
        }
        settings
    }
}

/// Matches documents that have the field with the ids, or the reference field.
pub(crate) fn with_either(one: &BareField<'_>) -> Document {
    let exists = [&one.bare, &one.field.name].map(|name| doc! { name.as_str(): { "$exists": true } });
    doc! { "$or": exists.to_vec() }
}

/// Counts the documents that match, up to one.
pub(crate) fn any_document(filter: Document) -> [Document; 3] {
    [doc! { "$match": filter }, doc! { "$limit": 1 }, doc! { "$count": "n" }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::bare::FieldNames;
    use crate::settings::tests::example;

    fn with_form(test: impl FnOnce(&FromReferences<'_>)) {
        let mut settings = example();
        settings.references.truncate(1);
        let mut names = FieldNames::default();
        names.add("customer".into(), "customerId".into());
        let fields = names.checked(&settings).unwrap();
        test(&FromReferences {
            settings: &settings,
            fields: &fields,
            documents: "orders",
            sources: "customers",
            filter: &doc! { "shop": 1 },
            skipped: None,
        });
    }

    #[test]
    fn a_chunk_looks_up_its_sources_and_writes_what_has_not_changed() {
        with_form(|form| {
            let stages = form.transfer(&[7.into(), 8.into()]);
            assert_eq!(stages[0], doc! { "$match": { "_id": { "$in": [7, 8] } } });
            assert_eq!(stages[1], doc! { "$match": form.selected() });
            assert_eq!(
                stages[2],
                doc! { "$project": { "_id": 1, "size": { "$bsonSize": "$$ROOT" }, "f0": "$customer", "b0": "$customerId" } }
            );
            let fields = doc! { "name": 1, "address.city": 1, "v": 1, "mongo_patterns_deleting": 1 };
            assert_eq!(
                stages[5],
                doc! { "$lookup": {
                    "from": "customers",
                    "localField": "ids",
                    "foreignField": "_id",
                    "pipeline": [{ "$project": fields }],
                    "as": "s",
                } }
            );
            let unchanged = doc! { "$and": [
                { "$eq": ["$customer", "$$new.f0"] },
                { "$eq": ["$customerId", "$$new.b0"] },
            ] };
            let is_new = doc! { "$and": [&unchanged, { "$not": [{ "$eq": [{ "$type": "$$new.n0" }, "missing"] }] }] };
            let set = doc! {
                "customer": { "$cond": [is_new, "$$new.n0", "$customer"] },
                "customerId": { "$cond": [unchanged, "$$REMOVE", "$customerId"] },
            };
            assert_eq!(
                stages[10..],
                [
                    doc! { "$match": { "r": null } },
                    doc! { "$project": { "_id": 1, "f0": 1, "n0": 1, "b0": 1 } },
                    doc! { "$merge": {
                        "into": "orders",
                        "on": "_id",
                        "whenMatched": [{ "$set": set }],
                        "whenNotMatched": "discard",
                    } },
                ]
            );
        });
    }

    #[test]
    fn the_second_read_returns_sources_and_no_documents() {
        with_form(|form| {
            let stages = form.second_read(&[7.into()]);
            assert_eq!(stages[0], doc! { "$match": { "_id": { "$eq": 7 } } });
            let lookup = stages[2].get_document("$lookup").unwrap();
            assert_eq!(
                lookup.get_array("pipeline").unwrap()[0],
                doc! { "$project": { "v": 1, "mongo_patterns_deleting": 1 } }.into()
            );
            let migrated = doc! { "$and": [{ "$not": ["$open"] }, { "$lte": ["$at", 0] }] };
            assert_eq!(
                stages[6],
                doc! { "$group": { "_id": "$bad", "n": { "$sum": { "$cond": [migrated, 1_i64, 0_i64] } } } }
            );
        });
    }

    #[test]
    fn references_without_a_version_and_ids_are_open() {
        with_form(|form| {
            let is_reference = is_reference(ELEMENT);
            let is_extended = doc! { "$and": [is_reference, { "$or": [
                { "$not": [{ "$in": [{ "$type": "$$element.v" }, ["missing", "null", "undefined"]] }] },
                { "$eq": ["$$element.deleted", true] },
            ] }] };
            let values = doc! { "$cond": [is_present("$customer"), ["$customer"], []] };
            let in_field = any_of([doc! { "$literal": false }, any(values, doc! { "$not": [is_extended] })]);
            let is_open = any_of([
                doc! { "$not": [{ "$eq": [{ "$type": "$customerId" }, "missing"] }] },
                in_field,
            ]);
            assert_eq!(
                form.selected(),
                doc! { "$and": [{ "shop": 1 }, { "$expr": { "$or": [is_open] } }] }
            );
        });
    }
}
