//! Compares what the server stores with what a repository expects, by meaning.

use mongodb::bson::{Bson, Document};

use crate::value::order::{compare, compare_fields};

/// Returns the definition without the parts that the server adds: the version, and since MongoDB 9.0 the simple collation.
pub(crate) fn without_version(index: &Document) -> Document {
    let mut index = index.clone();
    index.remove("v");
    index.remove("ns");
    if has_simple_collation(&index) {
        index.remove("collation");
    }
    index
}

/// Returns whether a definition names the simple collation. It is the default of an index, and has no further options.
fn has_simple_collation(index: &Document) -> bool {
    let collation = index.get_document("collation");
    index.contains_key("key") && collation.is_ok_and(|collation| collation.get_str("locale").ok() == Some("simple"))
}

/// Returns whether two definitions of indexes mean the same: options in any order, `false` like absent, numbers by value,
/// but fields of the key in their order.
pub(crate) fn same_document(a: &Document, b: &Document) -> bool {
    let options = |document: &Document| -> Document {
        let mut options: Vec<(String, Bson)> = without_version(document)
            .into_iter()
            .filter(|(_, value)| *value != Bson::Boolean(false))
            .collect();
        options.sort_by(|(a, _), (b, _)| a.cmp(b));
        options.into_iter().collect()
    };
    same_fields(&options(a), &options(b))
}

/// Returns whether two documents, such as keys of indexes, have the same fields in the same order, with numbers by value.
pub(crate) fn same_fields(a: &Document, b: &Document) -> bool {
    compare_fields(a, b).is_eq()
}

/// Returns whether two values mean the same: numbers by value, documents and arrays by their contents.
pub(crate) fn same_value(a: &Bson, b: &Bson) -> bool {
    compare(a, b).is_eq()
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn definitions_are_compared_by_meaning() {
        let planned = doc! { "key": { "a": 1 }, "name": "n", "unique": true, "partialFilterExpression": { "count": { "$lt": 10 } } };
        let same = [
            doc! { "v": 2, "key": { "a": 1.0 }, "name": "n", "unique": true, "partialFilterExpression": { "count": { "$lt": 10_i64 } } },
            doc! { "v": 2, "unique": true, "key": { "a": 1 }, "sparse": false, "name": "n", "partialFilterExpression": { "count": { "$lt": 10 } } },
        ];
        for index in same {
            assert!(same_document(&index, &planned), "{index}");
        }
        let mut other = vec![doc! { "v": 2, "key": { "a": 1 }, "name": "n", "unique": true }];
        for (option, value) in [
            ("unique", Bson::Boolean(false)),
            ("key", Bson::Document(doc! { "a": -1 })),
            ("key", Bson::Document(doc! { "a": 1, "b": 1 })),
            ("key", Bson::Document(doc! { "a": 1, "v": 1 })),
            ("hidden", Bson::Boolean(true)),
            ("expireAfterSeconds", Bson::Int32(60)),
            (
                "partialFilterExpression",
                Bson::Document(doc! { "count": { "$lt": 20 } }),
            ),
        ] {
            let mut index = planned.clone();
            index.insert(option, value);
            other.push(index);
        }
        for index in other {
            assert!(!same_document(&index, &planned), "{index}");
        }
        let named = |key: Document| doc! { "key": key, "name": "n" };
        let (one, other) = (named(doc! { "name": 1, "a": 1 }), named(doc! { "a": 1, "name": 1 }));
        assert!(same_document(&one, &one) && !same_document(&one, &other));
    }

    #[test]
    fn values_are_compared_as_the_server_compares_them() {
        let nan = Bson::Double(f64::NAN);
        let same = [
            (nan.clone(), nan.clone()),
            (Bson::from(doc! { "$gte": &nan }), doc! { "$gte": &nan }.into()),
            (
                Bson::from(vec![nan.clone(), 1.into()]),
                vec![nan.clone(), 1_i64.into()].into(),
            ),
            (f64::INFINITY.into(), f64::INFINITY.into()),
            (5.into(), 5.0.into()),
            (0.0.into(), (-0.0).into()),
        ];
        for (a, b) in &same {
            assert!(same_value(a, b) && same_value(b, a), "{a} {b}");
        }
        let great = 9_007_199_254_740_993_i64;
        let other = [
            (nan.clone(), Bson::Int32(0)),
            (nan, Bson::Null),
            (f64::INFINITY.into(), f64::NEG_INFINITY.into()),
            (great.into(), (great - 1).into()),
            (great.into(), ((great - 1) as f64).into()),
            (5.into(), "5".into()),
        ];
        for (a, b) in &other {
            assert!(!same_value(a, b) && !same_value(b, a), "{a} {b}");
        }
    }
}
