//! The filter of a further subset.
//!
//! # Design
//!
//! ## Why does a filter have only a few operators?
//!
//! The server reads the filter in every write, which fails if the server refuses it. `$where`, `$text` and `$near` are not
//! allowed in a `$lookup`. The result of `$expr` can depend on the time. Only the server knows whether a regular expression
//! is valid.
//!
//! ## Why does the catalog have a filter as pairs?
//!
//! A stored name that starts with `$` is an operator for most commands that read it again. As a pair, a name is a value.

use std::fmt;

use mongo_patterns_core::Result;
use mongo_patterns_core::settings::configuration;
use mongodb::bson::{Bson, Document};

/// The operators that compare a field with one value.
const COMPARISONS: [&str; 6] = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"];
/// The depth limit, which the stack of a check and the server allow.
const MAX_DEPTH: usize = 20;

/// A checked query; empty for all children.
#[derive(Clone, Default)]
pub(crate) struct Filter(Document);

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without its values, which may be those of users.
        f.write_str(if self.0.is_empty() { "All" } else { "Filter" })
    }
}

impl Filter {
    /// Checks a query.
    ///
    /// # Errors
    /// [`Configuration`](mongo_patterns_core::ErrorKind::Configuration).
    pub(crate) fn new(query: Document) -> Result<Self> {
        match is_query(&query, MAX_DEPTH) {
            true => Ok(Self(query)),
            false => Err(configuration(
                "the filter of a subset is refused: use only values, $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $exists and $not of plain paths, and $and, $or and $nor; no regular expressions and no undefined",
            )),
        }
    }

    pub(crate) fn query(&self) -> &Document {
        &self.0
    }
}

fn is_query(query: &Document, depth: usize) -> bool {
    let is_valid = |(name, value): (&String, &Bson)| match name.as_str() {
        "$and" | "$or" | "$nor" => value.as_array().is_some_and(|queries| {
            let is_query = |query: &Bson| query.as_document().is_some_and(|query| is_query(query, depth - 1));
            !queries.is_empty() && queries.iter().all(is_query)
        }),
        path => is_path(path) && is_condition(value, depth - 1),
    };
    depth > 0 && query.iter().all(is_valid)
}

fn is_path(path: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && !name.starts_with('$') && !name.contains('\0');
    path.split('.').all(is_name)
}

fn is_condition(condition: &Bson, depth: usize) -> bool {
    match condition {
        Bson::Document(operators) if operators.keys().any(|name| name.starts_with('$')) => {
            depth > 0
                && operators
                    .iter()
                    .all(|(name, value)| is_operator(name, value, depth - 1))
        }
        value => is_value(value),
    }
}

fn is_operator(name: &str, value: &Bson, depth: usize) -> bool {
    match name {
        "$in" | "$nin" => value.as_array().is_some_and(|values| {
            // The server takes such a document for an expression.
            let is_plain = |value: &Bson| is_value(value) && !value.as_document().is_some_and(has_operator);
            values.iter().all(is_plain)
        }),
        "$exists" => value.as_bool().is_some(),
        "$not" => value.as_document().is_some_and(has_operator) && is_condition(value, depth),
        _ => COMPARISONS.contains(&name) && is_value(value),
    }
}

fn has_operator(document: &Document) -> bool {
    document.keys().next().is_some_and(|name| name.starts_with('$'))
}

/// Returns whether the server compares fields with a value.
fn is_value(value: &Bson) -> bool {
    !matches!(value, Bson::RegularExpression(_) | Bson::Undefined)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mongo_patterns_core::ErrorKind;
    use mongodb::bson::{Regex, doc};

    #[test]
    fn a_filter_has_values_comparisons_and_their_combinations() {
        for query in [
            doc! {},
            doc! { "stars": 5, "a.b": null, "name": "$where", "tags": [1], "d": { "x": { "$where": 1 } } },
            doc! { "stars": { "$gte": 4, "$lt": 5 }, "hidden": { "$ne": true } },
            doc! { "stars": { "$eq": { "$where": 1 } } },
            doc! { "$or": [{ "stars": { "$in": [4, 5] } }, { "$nor": [{ "a": { "$nin": [] } }] }] },
            doc! { "$and": [{ "a": { "$not": { "$gt": 4, "$exists": true } } }] },
        ] {
            assert_eq!(Filter::new(query.clone()).unwrap().query(), &query);
        }
    }

    #[test]
    fn what_the_server_could_refuse_is_refused() {
        let pattern = Regex {
            pattern: "(".try_into().unwrap(),
            options: "".try_into().unwrap(),
        };
        let pattern = Bson::RegularExpression(pattern);
        let deep = (0..MAX_DEPTH).fold(doc! { "a": 1 }, |inner, _| doc! { "$and": [inner] });
        for query in [
            doc! { "$where": "true" },
            doc! { "$expr": true },
            doc! { "$text": { "$search": "a" } },
            doc! { "$comment": "a" },
            doc! { "$jsonSchema": {} },
            doc! { "$and": [] },
            doc! { "$or": { "a": 1 } },
            doc! { "$or": [1] },
            doc! { "": 1 },
            doc! { "a..b": 1 },
            doc! { "a.$": 1 },
            doc! { "a\0": 1 },
            doc! { "a": { "$near": [1, 1] } },
            doc! { "a": { "$regex": "a" } },
            doc! { "a": { "$gt": 1, "b": 1 } },
            doc! { "a": { "b": 1, "$gt": 1 } },
            doc! { "a": { "$in": 5 } },
            doc! { "a": { "$in": [{ "$gt": 1 }] } },
            doc! { "a": { "$in": [&pattern] } },
            doc! { "a": { "$exists": 5 } },
            doc! { "a": { "$not": 5 } },
            doc! { "a": { "$not": {} } },
            doc! { "a": { "$not": { "$where": 1 } } },
            doc! { "a": &pattern },
            doc! { "a": { "$ne": pattern } },
            doc! { "a": Bson::Undefined },
            deep,
        ] {
            let error = Filter::new(query.clone()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration, "{query}");
        }
    }

    #[test]
    fn the_debug_form_has_no_values() {
        assert_eq!(format!("{:?}", Filter::new(doc! { "a": 1 }).unwrap()), "Filter");
    }
}
