//! The pipelines of the migration from references.

mod chunk;
mod key;

use mongo_patterns_core::FieldName;
use mongo_patterns_core::migration::{ChunkedFind, MigrateOptions, and};
use mongodb::bson::{Bson, Document, doc};

use super::expression::{
    ELEMENT, Problem, SourceOrder, any, any_of, any_unknown, concatenated, count_by_reason, filtered, first_problem,
    ids, is_db_ref, is_extended, is_id, is_missing, is_no_array, is_present, is_reference, is_version, lookup_sources,
    mapped, not, values, with_source,
};
use super::new_copy::new_copy;
use crate::form::copy;
use crate::settings::bare::{BareField, recorded};
use crate::settings::{ReferenceField, Settings};

/// The reasons why documents cannot be migrated, in the order in which they are checked.
pub(crate) const REASONS: [&str; 11] = [
    "no_array",
    "not_an_id",
    "twice",
    "other_value",
    "other_reference",
    "reserved_field",
    "db_ref",
    "without_id",
    "source_missing",
    "source_version",
    "too_large",
];

/// MongoDB's limit of a document.
const MAX_BYTES: i64 = 16 * 1024 * 1024;

/// The conversion of documents with ids into documents with copies.
pub(crate) struct FromReferences<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) fields: &'a [BareField<'a>],
    /// The names of the collections.
    pub(crate) documents: &'a str,
    pub(crate) sources: &'a str,
    /// The filter of the documents to migrate, and whether invalid ones are skipped.
    pub(crate) options: &'a MigrateOptions,
}

/// Returns the name of a field of the examined documents: `f` for the reference field, `b` for the field of the ids, `g` for
/// the migrated one of the two, and `n` for the new references.
fn named(name: char, number: usize) -> String {
    format!("{name}{number}")
}

/// Returns the path of such a field.
fn path(name: char, number: usize) -> String {
    format!("${name}{number}")
}

impl FromReferences<'_> {
    fn numbered(&self) -> impl Iterator<Item = (usize, &BareField<'_>)> {
        self.fields.iter().enumerate()
    }

    /// Matches the documents that have something to migrate.
    pub(crate) fn selected(&self) -> Document {
        and(self.options.filter.clone(), doc! { "$expr": self.is_open() })
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
    pub(crate) fn walk(&self, most: u64) -> ChunkedFind {
        ChunkedFind::by_number(self.selected(), most)
    }

    /// Examines documents: the field `r` is the problem of the document, or null.
    pub(crate) fn examined(&self, filter: Document) -> Vec<Document> {
        let mut read = doc! { "_id": 1, "size": { "$bsonSize": "$$ROOT" } };
        let mut migrated = Document::new();
        for (number, one) in self.numbered() {
            read.insert(named('f', number), format!("${}", one.field.name));
            let in_field = path('f', number);
            let value: Bson = match one.is_in_place() {
                true => in_field.into(),
                false => {
                    read.insert(named('b', number), format!("${}", one.bare));
                    doc! { "$cond": [is_present(&in_field), &in_field, path('b', number)] }.into()
                }
            };
            migrated.insert(named('g', number), value);
        }
        let own = self.fields.iter().map(|one| one.field);
        let [lookup, source_ids] = lookup_sources(
            self.sources,
            ("ids", self.settings.named_by()),
            copy::projection(self.settings, own),
            self.order(),
        );
        let valid = doc! { "$eq": ["$r", null] };
        let new = self.numbered().map(|(number, one)| {
            let new = doc! { "$cond": [&valid, self.new_references(number, one.field), "$$REMOVE"] };
            (named('n', number), new.into())
        });
        let first_too_large = doc! { "reason": "too_large", "field": self.name_of(0).as_str() };
        let too_large = doc! { "$and": [&valid, { "$gt": [self.new_size(), MAX_BYTES] }] };
        vec![
            doc! { "$match": filter },
            doc! { "$project": read },
            doc! { "$addFields": migrated },
            doc! { "$addFields": { "ids": self.open_ids() } },
            lookup,
            source_ids,
            doc! { "$addFields": { "r": first_problem(self.problems()) } },
            doc! { "$addFields": Document::from_iter(new) },
            doc! { "$addFields": { "r": { "$cond": [too_large, first_too_large, "$r"] } } },
        ]
    }

    fn order(&self) -> SourceOrder {
        match self.fields.iter().any(|one| one.field.is_array) {
            true => SourceOrder::ById,
            false => SourceOrder::Any,
        }
    }

    /// Returns the ids whose sources are read.
    fn open_ids(&self) -> Document {
        let ids = self.numbered().map(|(number, one)| self.ids_to_migrate(number, one));
        concatenated(ids.map(|ids| filtered(ids, self.is_name(ELEMENT))))
    }

    /// Returns the ids of the references in a field that are migrated.
    fn ids_to_migrate(&self, number: usize, one: &BareField<'_>) -> Document {
        mapped(self.open_values(number, one.field), self.name_in(ELEMENT))
    }

    /// Returns the new value of a reference field. It is missing for a document without references.
    fn new_references(&self, number: usize, field: &ReferenceField) -> Document {
        let new = new_copy(self.settings, field, ELEMENT, self.is_document(ELEMENT));
        let new = match self.settings.key {
            Some(_) if field.is_snapshot => self.with_own_copy(field, new),
            _ => new,
        };
        let new = with_source(self.order(), self.name_in(ELEMENT), new);
        let new = doc! { "$cond": [is_extended(self.settings, field, ELEMENT), ELEMENT, new] };
        let migrated = path('g', number);
        let new = match field.is_array {
            true => mapped(&migrated, new),
            false => doc! { "$let": { "vars": { "element": &migrated }, "in": new } },
        };
        doc! { "$cond": [is_present(&migrated), new, "$$REMOVE"] }
    }

    /// Returns the size of the migrated document.
    fn new_size(&self) -> Document {
        let (mut old, mut new) = (Document::new(), Document::new());
        for (number, one) in self.numbered() {
            old.insert(one.field.name.as_str(), path('f', number));
            new.insert(one.field.name.as_str(), path('n', number));
            if !one.is_in_place() {
                old.insert(one.bare.as_str(), path('b', number));
            }
        }
        let grown = doc! { "$subtract": [{ "$bsonSize": new }, { "$bsonSize": old }] };
        doc! { "$add": ["$size", grown] }
    }

    /// Returns the problems of documents, in the order in which they are checked.
    fn problems(&self) -> Vec<Problem<'_>> {
        let in_fields = |reason, condition: &dyn Fn(usize, &BareField<'_>) -> Document| {
            let problem = |(number, one)| (reason, self.name_of(number), condition(number, one));
            self.numbered().map(problem).collect::<Vec<_>>()
        };
        // With the ids in another field.
        let beside = |reason, condition: &dyn Fn(&ReferenceField, &str, &str) -> Document| {
            let other = self.numbered().filter(|(_, one)| !one.is_in_place());
            let problem = |(number, one): (usize, &BareField<'_>)| {
                let [of_field, of_bare] = ['f', 'b'].map(|name| path(name, number));
                let condition = condition(one.field, &of_field, &of_bare);
                (reason, self.name_of(number), condition)
            };
            other.map(problem).collect::<Vec<_>>()
        };
        let version = format!("$$source.{}", self.settings.version);
        let is_invalid = with_source(
            self.order(),
            self.name_in(ELEMENT),
            doc! { "$cond": [is_missing(&version), false, not(is_version(&version))] },
        );
        [
            in_fields("no_array", &|number, one| is_no_array(one.field, &path('g', number))),
            beside("no_array", &|field, _, bare| is_no_array(field, bare)),
            in_fields("not_an_id", &|number, one| {
                let ids = match self.settings.key {
                    None => ids(one.field, &path('g', number)),
                    Some(_) => self.ids_to_migrate(number, one),
                };
                any(ids, not(is_id(ELEMENT)))
            }),
            in_fields("twice", &|number, one| {
                let ids = match self.settings.key {
                    None => ids(one.field, &path('g', number)),
                    Some(_) => self.ids_by_key(one.field, &path('g', number)),
                };
                doc! { "$ne": [{ "$size": { "$setUnion": [&ids, []] } }, { "$size": ids }] }
            }),
            beside("other_value", &|field, value, _| {
                let other = any(values(field, value), not(is_reference(ELEMENT)));
                any_of([is_no_array(field, value), other])
            }),
            beside("other_reference", &|field, value, bare| {
                let mut conditions = vec![is_present(value), is_present(bare)];
                // The copy may have the key that its source had.
                if self.settings.key.is_none() {
                    conditions.push(doc! { "$not": [{ "$setEquals": [ids(field, value), ids(field, bare)] }] });
                }
                doc! { "$and": conditions }
            }),
            match self.settings.key {
                None => Vec::new(),
                Some(_) => in_fields("reserved_field", &|number, one| {
                    any(
                        self.open_values(number, one.field),
                        self.has_written_beside_key(ELEMENT),
                    )
                }),
            },
            in_fields("db_ref", &|number, one| {
                any(self.other_documents(number, one.field), is_db_ref(ELEMENT))
            }),
            in_fields("without_id", &|number, one| {
                doc! { "$ne": [self.other_documents(number, one.field), []] }
            }),
            in_fields("source_missing", &|number, one| {
                any_unknown(self.ids_to_migrate(number, one))
            }),
            in_fields("source_version", &|number, one| {
                any(self.open_values(number, one.field), is_invalid.clone())
            }),
        ]
        .concat()
    }

    fn name_of(&self, number: usize) -> &FieldName {
        &self.fields[number].field.name
    }

    /// Returns the values in a field that are not extended references.
    fn open_values(&self, number: usize, field: &ReferenceField) -> Document {
        filtered(
            values(field, &path('g', number)),
            not(is_extended(self.settings, field, ELEMENT)),
        )
    }

    /// Returns the documents without an `_id` in a field that are the `_id` of no source.
    fn other_documents(&self, number: usize, field: &ReferenceField) -> Document {
        let documents = filtered(values(field, &path('g', number)), self.is_without_name(ELEMENT));
        doc! { "$setDifference": [documents, "$sid"] }
    }

    /// Counts the documents to migrate, and the invalid ones by their reason, with one of each.
    pub(crate) fn inspection(&self) -> Vec<Document> {
        let is_valid = doc! { "$eq": ["$r", null] };
        let mut group = doc! { "_id": null, "documents": { "$sum": { "$cond": [is_valid, 1_i64, 0_i64] } } };
        count_by_reason(&mut group, REASONS);
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

    /// The settings that all calls of one migration share.
    pub(crate) fn record_settings(&self) -> Document {
        let mut settings = recorded(self.settings, self.fields, [self.documents, self.sources]);
        self.options.record_selection(&mut settings);
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
pub(crate) mod tests {
    use super::*;
    use crate::settings::bare::FieldNames;
    use crate::settings::tests::example;

    /// Passes the migration of one reference, whose ids are in a field of their own, to a test.
    pub(crate) fn with_form(test: impl FnOnce(&FromReferences<'_>)) {
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
            options: &MigrateOptions {
                filter: doc! { "shop": 1 },
                ..MigrateOptions::default()
            },
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
