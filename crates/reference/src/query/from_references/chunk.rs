//! The commands of a chunk of the migration from references.
//!
//! # Design
//!
//! ## Why is the write a `$merge` with a pipeline?
//!
//! Only an aggregation can look up the sources. A plain `$merge` would write back what it has read, over a concurrent change
//! of the same document. The pipeline sees the current document, and changes only the fields of the references, if they are
//! unchanged.

use mongo_patterns_core::FieldName;
use mongodb::bson::{Bson, Document, doc};

use super::{FromReferences, named};
use crate::query::by_ids;
use crate::query::expression::{
    ELEMENT, concatenated, filtered, is_extended, is_missing, lookup_sources, mapped, not, values, with_source,
};
use crate::query::scan;
use crate::settings::{DELETED, MARK};

impl FromReferences<'_> {
    /// Migrates the valid documents of a chunk.
    pub(crate) fn transfer(&self, chunk: &[Bson]) -> Vec<Document> {
        let mut made = doc! { "_id": 1 };
        let mut set = Document::new();
        let mut unchanged = Vec::new();
        for (number, one) in self.numbered() {
            made.insert(named('f', number), 1);
            made.insert(named('n', number), 1);
            let mut same = |name: char, of: &FieldName| {
                unchanged.push(doc! { "$eq": [format!("${of}"), format!("$$new.{}", named(name, number))] });
            };
            same('f', &one.field.name);
            if !one.is_in_place() {
                made.insert(named('b', number), 1);
                same('b', &one.bare);
            }
        }
        let unchanged = doc! { "$and": unchanged };
        for (number, one) in self.numbered() {
            let new = format!("$$new.{}", named('n', number));
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

    /// Compares the copies in a chunk with their sources: one row for each source that was updated, marked or deleted since,
    /// by its `_id`, and one for the other documents. Their field `n` adds up to the migrated documents.
    pub(crate) fn second_read(&self, chunk: &[Bson]) -> Vec<Document> {
        let settings = self.settings;
        let version = settings.version.as_str();
        let copies = concatenated(self.fields.iter().map(|one| {
            let field = format!("${}", one.field.name);
            let path = |name: &str| format!("{ELEMENT}.{name}");
            let mut copy = doc! { "i": path("_id"), "d": path(DELETED) };
            if !one.field.is_snapshot {
                copy.insert("v", path(version));
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
            self.order(),
            format!("{ELEMENT}.i"),
            doc! { "$cond": [is_missing("$$source"), not(is_kept), has_changed] },
        );
        let [lookup, source_ids] = lookup_sources(
            self.sources,
            ("copies.i", "_id"),
            scan::versions(settings),
            self.order(),
        );
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::from_references::tests::with_form;

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
}
