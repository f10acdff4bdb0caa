//! The pipelines over the items of all keys.
//!
//! # Design
//!
//! ## Why is a filter sent twice?
//!
//! The first match selects buckets with `$elemMatch`, which an index on fields of the items serves. After the unwind a
//! second match decides about each item. The first may be weaker than the second.

use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::{Bson, Document, doc};

use crate::settings::Settings;

/// A filter of items, in the forms for buckets and for unwound items.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ItemFilter {
    /// Matches every bucket with such an item.
    buckets: Document,
    /// Matches a bucket with one item in place of the array.
    unwound: Document,
    /// The fields of an index for the filter: the key and fields that are compared with one value, then with ranges.
    index: Document,
}

impl ItemFilter {
    /// Translates a filter whose paths are relative to the item, except the key field.
    pub(crate) fn new(settings: &Settings, filter: Document) -> Result<Self> {
        let mut of_keys = Conjunction::default();
        let mut of_items = Conjunction::default();
        let mut unwound = Conjunction::default();
        for (field, condition) in conjuncts(filter)? {
            if field == settings.key.as_str() {
                of_keys.add(field, condition);
                continue;
            }
            if !names_key(settings, &field, &condition) {
                of_items.add(field.clone(), condition.clone());
            }
            for (field, condition) in translate(settings, Document::from_iter([(field, condition)]))? {
                unwound.add(field, condition);
            }
        }
        let index = index(settings, &of_keys.0, &of_items.0);
        let mut buckets = of_keys.0;
        if !of_items.0.is_empty() {
            buckets.insert(settings.items.as_str(), doc! { "$elemMatch": of_items.0 });
        }
        Ok(Self {
            buckets,
            unwound: unwound.0,
            index,
        })
    }

    /// Returns the fields of an index that the filter can use, if there is one.
    pub(crate) fn index(self) -> Option<Document> {
        (!self.index.is_empty()).then_some(self.index)
    }

    /// Returns the stages to buckets with one matching item each, in place of the array.
    pub(crate) fn unwind(&self, settings: &Settings) -> Vec<Document> {
        let mut stages = Vec::new();
        let matches = |filter: &Document| doc! { "$match": filter };
        if !self.buckets.is_empty() {
            stages.push(matches(&self.buckets));
        }
        stages.push(doc! { "$unwind": format!("${}", settings.items) });
        if !self.unwound.is_empty() {
            stages.push(matches(&self.unwound));
        }
        stages
    }

    /// Returns the stages to items with their keys.
    pub(crate) fn items(&self, settings: &Settings) -> Vec<Document> {
        let key = doc! { settings.key.as_str(): format!("${}", settings.key) };
        let mut stages = self.unwind(settings);
        // The key comes again, for an item that has a field of that name.
        let merged = doc! { "$mergeObjects": [&key, format!("${}", settings.items), &key] };
        stages.push(doc! { "$replaceWith": merged });
        stages
    }
}

/// Translates the fields of a sort.
pub(crate) fn sort(settings: &Settings, sort: Document) -> Result<Document> {
    if sort.keys().any(|field| field.starts_with('$')) {
        return Err(unsupported());
    }
    translate(settings, sort)
}

/// Conditions that must all hold.
#[derive(Default)]
struct Conjunction(Document);

impl Conjunction {
    fn add(&mut self, field: String, condition: Bson) {
        if !self.0.contains_key(&field) {
            self.0.insert(field, condition);
            return;
        }
        let more = self
            .0
            .entry("$and".to_owned())
            .or_insert_with(|| Bson::Array(Vec::new()));
        if let Bson::Array(more) = more {
            more.push(doc! { field: condition }.into());
        }
    }
}

/// Returns the conditions of a filter, also those within `$and`.
fn conjuncts(filter: Document) -> Result<Vec<(String, Bson)>> {
    let mut found = Vec::new();
    for (field, condition) in filter {
        if field == "$and" {
            for clause in clauses(condition)? {
                found.extend(conjuncts(clause)?);
            }
        } else {
            found.push((field, condition));
        }
    }
    Ok(found)
}

fn clauses(condition: Bson) -> Result<Vec<Document>> {
    let document = |clause| match clause {
        Bson::Document(clause) => Some(clause),
        _ => None,
    };
    let clauses = match condition {
        Bson::Array(clauses) if !clauses.is_empty() => clauses.into_iter().map(document).collect(),
        _ => None,
    };
    clauses.ok_or_else(|| {
        invalid("a logical operator in a filter of items has a value other than an array of filters: give it an array")
    })
}

/// Returns whether a condition has the key field among its alternatives, which no single item can answer.
fn names_key(settings: &Settings, field: &str, condition: &Bson) -> bool {
    let in_clause = |clause: &Bson| {
        let mut fields = clause.as_document().into_iter().flatten();
        fields.any(|(field, condition)| names_key(settings, field, condition))
    };
    match field.starts_with('$') {
        true => condition
            .as_array()
            .is_some_and(|clauses| clauses.iter().any(in_clause)),
        false => field == settings.key.as_str(),
    }
}

/// Translates the paths of a filter or sort to the paths of an unwound bucket.
fn translate(settings: &Settings, filter: Document) -> Result<Document> {
    let mut translated = Document::new();
    for (field, condition) in filter {
        if ["$and", "$or", "$nor"].contains(&field.as_str()) {
            let clauses = clauses(condition)?.into_iter();
            let clauses = clauses.map(|clause| translate(settings, clause));
            translated.insert(field, clauses.collect::<Result<Vec<_>>>()?);
        } else if field.starts_with('$') {
            return Err(unsupported());
        } else if field.is_empty() {
            return Err(invalid(
                "a filter of items has an empty field name: name a field of the item",
            ));
        } else if field == settings.key.as_str() {
            translated.insert(field, condition);
        } else {
            translated.insert(format!("{}.{field}", settings.items), condition);
        }
    }
    Ok(translated)
}

fn unsupported() -> Error {
    invalid(
        "a filter of items has an operator in place of a field that is not `$and`, `$or` or `$nor`: send it in a stage after those of `items_pipeline`",
    )
}

fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

/// Returns the fields of an index in the order equality, range.
fn index(settings: &Settings, of_keys: &Document, of_items: &Document) -> Document {
    let of_keys = of_keys.iter().map(|(field, condition)| (field.clone(), condition));
    let of_items = of_items
        .iter()
        .map(|(field, condition)| (format!("{}.{field}", settings.items), condition));
    let conditions: Vec<(String, &Bson)> = of_keys.chain(of_items).collect();
    let mut fields = Document::new();
    for wanted in [Comparison::Value, Comparison::Range] {
        for (field, condition) in &conditions {
            if comparison(condition) == Some(wanted) && !field.contains('$') {
                fields.insert(field, 1);
            }
        }
    }
    fields
}

#[derive(Clone, Copy, PartialEq)]
enum Comparison {
    Value,
    Range,
}

/// Returns how a condition uses an index, if it does.
fn comparison(condition: &Bson) -> Option<Comparison> {
    let operators = match condition {
        Bson::Document(operators) if operators.keys().any(|operator| operator.starts_with('$')) => operators,
        Bson::RegularExpression(_) => return None,
        _ => return Some(Comparison::Value),
    };
    let mut operators = operators.keys().map(String::as_str);
    operators.find_map(|operator| match operator {
        "$eq" | "$in" => Some(Comparison::Value),
        "$gt" | "$gte" | "$lt" | "$lte" => Some(Comparison::Range),
        _ => None,
    })
}

/// Finds items: the `_id` and the key of the bucket, and one item in place of the array.
pub(crate) fn found_items(
    settings: &Settings,
    filter: &ItemFilter,
    order: Option<Document>,
    limit: Option<i64>,
) -> Vec<Document> {
    let mut stages = filter.unwind(settings);
    stages.extend(order.map(|order| doc! { "$sort": order }));
    stages.extend(limit.map(|limit| doc! { "$limit": limit }));
    stages.push(doc! { "$project": { "_id": 1, settings.key.as_str(): 1, settings.items.as_str(): 1 } });
    stages
}

/// What the server did for an aggregation, in its reply to `explain`.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Explained {
    pub(crate) indexes: Vec<String>,
    pub(crate) scans_collection: bool,
    pub(crate) keys_examined: u64,
    pub(crate) documents_examined: u64,
}

impl Explained {
    /// Reads a reply, of any engine and topology.
    pub(crate) fn read(reply: &Document) -> Self {
        let mut explained = Self::default();
        explained.visit(reply);
        explained
    }

    fn visit(&mut self, node: &Document) {
        for (field, value) in node {
            match (field.as_str(), value) {
                // Plans that did not run, and the command itself, which has the user's values.
                ("rejectedPlans" | "command" | "parsedQuery", _) => {}
                ("totalKeysExamined", _) => self.keys_examined += number(value),
                ("totalDocsExamined", _) => self.documents_examined += number(value),
                ("indexName", Bson::String(name)) if !self.indexes.contains(name) => self.indexes.push(name.clone()),
                ("stage", Bson::String(stage)) if stage == "COLLSCAN" => self.scans_collection = true,
                (_, Bson::Document(inner)) => self.visit(inner),
                (_, Bson::Array(inner)) => inner
                    .iter()
                    .filter_map(Bson::as_document)
                    .for_each(|node| self.visit(node)),
                _ => {}
            }
        }
    }
}

fn number(value: &Bson) -> u64 {
    let number = value.as_i64().or_else(|| value.as_i32().map(i64::from));
    number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(filter: Document) -> ItemFilter {
        ItemFilter::new(&Settings::example(), filter).unwrap()
    }

    #[test]
    fn without_a_filter_every_item_gets_its_key() {
        let expected = [
            doc! { "$unwind": "$history" },
            doc! { "$replaceWith": {
                "$mergeObjects": [{ "customerId": "$customerId" }, "$history", { "customerId": "$customerId" }],
            } },
        ];
        assert_eq!(filter(doc! {}).items(&Settings::example()), expected);
    }

    #[test]
    fn buckets_are_selected_by_key_and_by_one_item_that_matches_all() {
        let found = filter(doc! { "ticker": "MDB", "customerId": 123, "qty": { "$gt": 5 } });
        let expected = [
            doc! { "$match": {
                "customerId": 123,
                "history": { "$elemMatch": { "ticker": "MDB", "qty": { "$gt": 5 } } },
            } },
            doc! { "$unwind": "$history" },
            doc! { "$match": { "history.ticker": "MDB", "history.qty": { "$gt": 5 } } },
            doc! { "$sort": { "history.date": -1 } },
            doc! { "$limit": 3_i64 },
            doc! { "$project": { "_id": 1, "customerId": 1, "history": 1 } },
        ];
        let settings = Settings::example();
        let order = sort(&settings, doc! { "date": -1 }).unwrap();
        assert_eq!(found_items(&settings, &found, Some(order), Some(3)), expected);
        assert_eq!(
            found.index(),
            Some(doc! { "customerId": 1, "history.ticker": 1, "history.qty": 1 })
        );
    }

    #[test]
    fn alternatives_of_items_select_buckets_and_those_with_a_key_do_not() {
        let found = filter(doc! { "$or": [{ "ticker": "MDB" }, { "qty": 1 }] });
        assert_eq!(
            found.buckets,
            doc! { "history": { "$elemMatch": { "$or": [{ "ticker": "MDB" }, { "qty": 1 }] } } }
        );
        let either = doc! { "$or": [{ "history.ticker": "MDB" }, { "history.qty": 1 }] };
        assert_eq!((&found.unwound, found.index), (&either, doc! {}));

        let found = filter(doc! { "$or": [{ "$nor": [{ "customerId": 1 }] }, { "qty": 1 }] });
        assert_eq!(found.buckets, doc! {});
        assert_eq!(
            found.unwound,
            doc! { "$or": [{ "$nor": [{ "customerId": 1 }] }, { "history.qty": 1 }] }
        );
    }

    #[test]
    fn conditions_within_and_are_joined() {
        let found = filter(doc! { "qty": { "$gt": 1 }, "$and": [{ "qty": { "$lt": 9 } }, { "customerId": 1 }] });
        let both = |field: &str| doc! { field: { "$gt": 1 }, "$and": [{ field: { "$lt": 9 } }] };
        assert_eq!(
            found.buckets,
            doc! { "customerId": 1, "history": { "$elemMatch": both("qty") } }
        );
        assert_eq!(found.unwound, both("history.qty"));
    }

    #[test]
    fn the_index_has_fields_of_equality_first() {
        let range = doc! { "$gte": 1, "$lt": 2 };
        let found = filter(doc! { "date": range, "ticker": { "$in": ["A", "B"] }, "note": { "$exists": true } });
        let fields: Vec<String> = found.index().unwrap().keys().cloned().collect();
        assert_eq!(fields, ["history.ticker", "history.date"]);
        assert_eq!(filter(doc! { "note": { "$ne": 1 } }).index(), None);
    }

    #[test]
    fn what_has_no_path_is_refused() {
        let settings = Settings::example();
        let refused = [
            doc! { "$expr": { "$eq": ["$qty", 1] } },
            doc! { "$where": "true" },
            doc! { "$or": [{ "$text": { "$search": "a" } }] },
            doc! { "$or": [] },
            doc! { "$and": 1 },
            doc! { "$nor": [1] },
            doc! { "": 1 },
        ];
        for filter in refused {
            let error = ItemFilter::new(&settings, filter.clone()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{filter}");
        }
        for order in [doc! { "$natural": 1 }, doc! { "": 1 }, doc! { "$or": [{ "a": 1 }] }] {
            assert_eq!(sort(&settings, order).unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
    }

    #[test]
    fn a_reply_to_explain_is_read_without_the_plans_that_did_not_run() {
        let plan =
            |stage: &str, name: &str| doc! { "stage": "FETCH", "inputStage": { "stage": stage, "indexName": name } };
        let shard = |number: i64| {
            doc! {
                "queryPlanner": {
                    "winningPlan": plan("IXSCAN", "a_1"),
                    "rejectedPlans": [plan("IXSCAN", "b_1"), { "stage": "COLLSCAN" }],
                },
                "executionStats": { "totalKeysExamined": number, "totalDocsExamined": number as i32 },
            }
        };
        let reply = doc! { "shards": { "s0": { "stages": [{ "$cursor": shard(3) }] }, "s1": shard(4) }, "command": { "stage": "COLLSCAN" } };
        let expected = Explained {
            indexes: vec!["a_1".to_owned()],
            scans_collection: false,
            keys_examined: 7,
            documents_examined: 7,
        };
        assert_eq!(Explained::read(&reply), expected);
        let reply = doc! { "queryPlanner": { "winningPlan": { "queryPlan": { "stage": "COLLSCAN" } } } };
        assert!(Explained::read(&reply).scans_collection);
    }
}
