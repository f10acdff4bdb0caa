//! The commands of the migration to references.
//!
//! # Design
//!
//! ## Why is the write an update?
//!
//! The id is in the document already, so nothing has to be looked up. An update with a pipeline reads and writes each
//! document at once: it sees the references as they are then, and changes nothing but their fields.

use super::by_ids;
use super::expression::{
    ELEMENT, Problem, SourceOrder, any, any_of, any_unknown, concatenated, count_by_reason, filtered, first_problem,
    id_in, is_id, is_missing, is_no_array, is_present, is_reference, lookup_sources, mapped, never, not, type_in,
    values,
};
use super::new_copy::inner;
use crate::prelude::*;
use crate::settings::DELETED;
use crate::settings::bare::{BareField, recorded};

/// What the migration may drop although no source has it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dropped {
    /// Copies without a source.
    pub(crate) deleted: bool,
    /// Copies that do not follow their source.
    pub(crate) snapshots: bool,
}

/// The reasons why documents cannot be migrated.
pub(crate) const REASONS: [&str; 7] = [
    "other_value",
    "occupied",
    "ambiguous",
    "own_fields",
    "snapshot",
    "deleted",
    "source_missing",
];

/// The conversion of documents with copies into documents with ids.
pub(crate) struct ToReferences<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) fields: &'a [BareField<'a>],
    /// The names of the collections.
    pub(crate) documents: &'a str,
    pub(crate) sources: &'a str,
    pub(crate) dropped: Dropped,
}

/// The paths of a reference field and of the field with the ids in the documents that an expression is for.
struct Paths {
    field: String,
    bare: String,
}

impl ToReferences<'_> {
    /// Matches the documents that have something to migrate.
    pub(crate) fn selected(&self) -> Document {
        doc! { "$expr": self.is_open() }
    }

    /// Returns whether a document has something to migrate.
    fn is_open(&self) -> Document {
        any_of(self.fields.iter().map(|one| {
            let field = format!("${}", one.field.name);
            if !one.is_in_place() {
                return not(is_missing(field));
            }
            let is_bare = doc! { "$and": [is_id(ELEMENT), not(is_reference(ELEMENT))] };
            any_of([
                is_no_array(one.field, &field),
                any(values(one.field, &field), not(is_bare)),
            ])
        }))
    }

    /// Walks through the documents to migrate.
    pub(crate) fn walk(&self, most: u64) -> Walk {
        Walk::by_number(self.selected(), most)
    }

    /// Returns the problems of documents that show without their sources, in the order in which they are checked.
    fn problems(&self, paths: impl Fn(usize, &BareField<'_>) -> Paths) -> Vec<Problem<'_>> {
        let in_fields = |reason, condition: &dyn Fn(&BareField<'_>, Paths) -> Document| {
            let fields = self.fields.iter().enumerate();
            let problem = |(at, one): (usize, &'_ BareField<'_>)| {
                (reason, &self.fields[at].field.name, condition(one, paths(at, one)))
            };
            fields.map(problem).collect::<Vec<Problem<'_>>>()
        };
        let in_references = |reason, condition: &dyn Fn(&ReferenceField) -> Document| {
            in_fields(reason, &|one, paths| {
                any(values(one.field, &paths.field), condition(one.field))
            })
        };
        let id = format!("{ELEMENT}._id");
        [
            in_fields("other_value", &|one, paths| {
                let no_id = any(self.names(one.field, &paths.field), not(is_id(ELEMENT)));
                any_of([is_no_array(one.field, &paths.field), no_id])
            }),
            in_fields("occupied", &|one, paths| match one.is_in_place() {
                true => never(),
                false => {
                    let differs = doc! { "$ne": [self.new_value(one.field, &paths.field), &paths.bare] };
                    doc! { "$and": [is_present(&paths.bare), differs] }
                }
            }),
            in_references("ambiguous", &|_| {
                doc! { "$and": [is_reference(ELEMENT), is_reference(&id)] }
            }),
            in_references("own_fields", &|field| {
                // Of another value, `$objectToArray` would fail.
                doc! { "$cond": [is_reference(ELEMENT), self.has_own_fields(field, ELEMENT), false] }
            }),
            in_references(
                "snapshot",
                &|field| match field.is_snapshot && !self.dropped.snapshots {
                    true => has_copy(),
                    false => never(),
                },
            ),
            in_references("deleted", &|_| match self.dropped.deleted {
                true => never(),
                false => doc! { "$and": [
                    is_reference(ELEMENT),
                    { "$eq": [format!("{ELEMENT}.{DELETED}"), true] },
                ] },
            }),
        ]
        .concat()
    }

    /// Returns the problem of copies without a source, which are in the field `s`.
    fn source_missing(&self) -> Vec<Problem<'_>> {
        let fields = self.fields.iter().enumerate().map(|(at, one)| {
            let copies = filtered(values(one.field, &format!("$f{at}")), has_copy());
            let ids = mapped(copies, self.named());
            let is_missing = match self.settings.key {
                None => any_unknown(ids),
                Some(_) => not(doc! { "$setIsSubset": [ids, "$s"] }),
            };
            ("source_missing", &one.field.name, is_missing)
        });
        fields.collect()
    }

    /// Returns what a source has to have for a copy: its id, and the key.
    fn named(&self) -> Bson {
        let of = |name: &str| format!("{ELEMENT}.{name}");
        match &self.settings.key {
            None => of("_id").into(),
            Some(key) => doc! { "_id": of("_id"), key.as_str(): of(key.as_str()) }.into(),
        }
    }

    /// Returns the names of the sources in a field: their ids, or the values of the source key.
    fn names(&self, field: &ReferenceField, value: &str) -> Document {
        mapped(values(field, value), self.name_in(ELEMENT))
    }

    fn name_in(&self, value: &str) -> Document {
        match &self.settings.key {
            None => id_in(value),
            Some(key) => doc! { "$cond": [is_reference(value), format!("{value}.{key}"), value] },
        }
    }

    /// Returns whether a reference has fields that are not copied.
    fn has_own_fields(&self, field: &ReferenceField, reference: &str) -> Document {
        let targets: Vec<&[String]> = field.copied.iter().map(|copied| copied.target.parts()).collect();
        let own = ["_id", DELETED, self.settings.version.as_str()];
        other_fields(reference, &own, &targets)
    }

    /// Returns the new value of the field with the ids.
    fn new_value(&self, field: &ReferenceField, value: &str) -> Document {
        match field.is_array {
            true => self.names(field, value),
            false => self.name_in(value),
        }
    }

    /// Counts the documents to migrate, and those with problems, with one of each.
    pub(crate) fn inspection(&self) -> Vec<Document> {
        let mut read = doc! { "_id": 1 };
        for (at, one) in self.fields.iter().enumerate() {
            read.insert(format!("f{at}"), format!("${}", one.field.name));
            read.insert(format!("b{at}"), format!("${}", one.bare));
        }
        let paths = |at: usize, _: &BareField<'_>| Paths {
            field: format!("$f{at}"),
            bare: format!("$b{at}"),
        };
        let problems = self.problems(paths);
        let mut group = doc! { "_id": null, "documents": { "$sum": 1_i64 } };
        count_by_reason(&mut group, REASONS);
        let copied = self.fields.iter().enumerate().map(|(at, one)| {
            let copies = filtered(values(one.field, &format!("$f{at}")), has_copy());
            mapped(copies, self.named())
        });
        let mut stages = vec![doc! { "$match": self.selected() }, doc! { "$project": read }];
        if self.dropped.deleted {
            stages.push(doc! { "$addFields": { "r": first_problem(problems) } });
        } else {
            stages.push(doc! { "$addFields": { "ids": concatenated(copied) } });
            let (mut names, mut projection) = ("ids", doc! { "_id": 1 });
            if let Some(key) = &self.settings.key {
                names = "ids._id";
                projection.insert(key.as_str(), 1);
            }
            stages.extend(lookup_sources(
                self.sources,
                (names, "_id"),
                projection,
                SourceOrder::Any,
            ));
            let all = problems.into_iter().chain(self.source_missing());
            stages.push(doc! { "$addFields": { "r": first_problem(all) } });
        }
        stages.push(doc! { "$group": group });
        stages
    }

    fn in_document(_: usize, one: &BareField<'_>) -> Paths {
        Paths {
            field: format!("${}", one.field.name),
            bare: format!("${}", one.bare),
        }
    }

    /// Matches the documents of a chunk that still have something to migrate, and no problem.
    pub(crate) fn of_chunk(&self, chunk: &[Bson]) -> Document {
        let problems = self
            .problems(Self::in_document)
            .into_iter()
            .map(|(.., condition)| condition);
        let mut filter = by_ids(chunk);
        filter.insert("$expr", doc! { "$and": [self.is_open(), not(any_of(problems))] });
        filter
    }

    /// Replaces references by ids.
    pub(crate) fn update(&self) -> Vec<Document> {
        let mut set = Document::new();
        let mut unset = Vec::new();
        for (at, one) in self.fields.iter().enumerate() {
            let paths = Self::in_document(at, one);
            let new = self.new_value(one.field, &paths.field);
            let value = doc! { "$cond": [is_present(&paths.field), new, &paths.bare] };
            set.insert(one.bare.as_str(), value);
            if !one.is_in_place() {
                unset.push(one.field.name.as_str());
            }
        }
        let mut stages = vec![doc! { "$set": set }];
        if !unset.is_empty() {
            stages.push(doc! { "$unset": unset });
        }
        stages
    }

    /// The settings that all calls of one migration share.
    pub(crate) fn record_settings(&self) -> Document {
        let mut settings = recorded(self.settings, self.fields, [self.documents, self.sources], "ids");
        settings.insert("dropDeleted", self.dropped.deleted);
        settings.insert("dropSnapshots", self.dropped.snapshots);
        settings
    }
}

/// Returns whether an element is a reference with more than an id.
fn has_copy() -> Document {
    let fields = doc! { "$size": { "$objectToArray": ELEMENT } };
    doc! { "$cond": [is_reference(ELEMENT), { "$gt": [fields, 1] }, false] }
}

/// Returns whether a document has other fields than these and the targets.
fn other_fields(document: &str, reserved: &[&str], targets: &[&[String]]) -> Document {
    let inner = inner(targets);
    let whole = targets.iter().filter(|target| target.len() == 1);
    let known = reserved.iter().copied().chain(whole.map(|target| target[0].as_str()));
    let known: Vec<&str> = known.chain(inner.iter().map(|(head, _)| *head)).collect();
    let names = mapped(doc! { "$objectToArray": document }, format!("{ELEMENT}.k"));
    let has_other = doc! { "$not": [{ "$setIsSubset": [names, known] }] };
    let inside = inner.iter().map(|(head, inside)| {
        let path = format!("{document}.{head}");
        let has_other = doc! { "$cond": [type_in(&path, &["object"]), other_fields(&path, &[], inside), true] };
        doc! { "$cond": [is_missing(&path), false, has_other] }
    });
    any_of([has_other].into_iter().chain(inside))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::expression::ids;
    use crate::settings::bare::FieldNames;
    use crate::settings::tests::example;

    #[test]
    fn ids_replace_their_references() {
        let settings = example();
        let mut names = FieldNames::default();
        names.add("products".into(), "productIds".into());
        let fields = names.checked(&settings).unwrap();
        let form = ToReferences {
            settings: &settings,
            fields: &fields,
            documents: "orders",
            sources: "customers",
            dropped: Dropped::default(),
        };
        let ids = ids(&settings.references[1], "$products");
        assert_eq!(
            form.update(),
            [
                doc! { "$set": {
                    "customer": { "$cond": [is_present("$customer"), id_in("$customer"), "$customer"] },
                    "productIds": { "$cond": [is_present("$products"), ids, "$productIds"] },
                } },
                doc! { "$unset": ["products"] },
            ]
        );
        let filter = form.of_chunk(&[7.into(), 8.into()]);
        assert_eq!(filter.get_document("_id").unwrap(), &doc! { "$in": [7, 8] });
        assert!(filter.contains_key("$expr"));
        assert_eq!(form.record_settings().get_str("into").unwrap(), "ids");
    }

    #[test]
    fn own_fields_are_those_that_are_neither_reserved_nor_copied() {
        let paths: Vec<Vec<String>> = vec![vec!["name".into()], vec!["address".into(), "city".into()]];
        let targets: Vec<&[String]> = paths.iter().map(Vec::as_slice).collect();
        let names =
            |of: &str| doc! { "$map": { "input": { "$objectToArray": of }, "as": "element", "in": "$$element.k" } };
        let other = |of: &str, known: &[&str]| doc! { "$not": [{ "$setIsSubset": [names(of), known] }] };
        let inside = doc! { "$cond": [
            { "$in": [{ "$type": "$$element.address" }, ["object"]] },
            { "$or": [other("$$element.address", &["city"])] },
            true,
        ] };
        let inside = doc! { "$cond": [is_missing("$$element.address"), false, inside] };
        assert_eq!(
            other_fields(ELEMENT, &["_id"], &targets),
            doc! { "$or": [other("$$element", &["_id", "name", "address"]), inside] }
        );
    }
}
