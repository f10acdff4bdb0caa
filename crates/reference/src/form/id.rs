//! Ids of sources, compared as the server compares them.

use crate::prelude::*;

/// The largest integer up to which a double represents every integer.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Returns a text that is the same for equal ids: the server compares numbers by value, so 1, 1.0 and a long 1 are the
/// same `_id`.
///
/// Two equal numbers of different types that are no integers have different texts. A source that is not found by its text
/// is therefore read again by itself before it counts as missing.
pub(crate) fn canonical(id: &Bson) -> String {
    match id {
        Bson::Int32(value) => format!("n{value}"),
        Bson::Int64(value) => format!("n{value}"),
        #[allow(clippy::cast_possible_truncation)] // an integer in the exact range
        Bson::Double(value) if value.fract() == 0.0 && value.abs() <= EXACT => format!("n{}", *value as i64),
        Bson::Decimal128(value) => format!("n{value}"),
        Bson::String(value) => format!("s{value:?}"),
        Bson::Document(document) => {
            let fields = document.iter();
            let fields: Vec<String> = fields
                .map(|(name, value)| format!("{name:?}:{}", canonical(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Bson::Array(values) => {
            let values: Vec<String> = values.iter().map(canonical).collect();
            format!("[{}]", values.join(","))
        }
        other => format!("{other:?}"),
    }
}

/// Returns each id once, in the order of the first.
pub(crate) fn distinct<'i>(ids: impl IntoIterator<Item = &'i Bson>) -> Vec<Bson> {
    let mut seen = std::collections::HashSet::new();
    let ids = ids.into_iter().filter(|id| seen.insert(canonical(id)));
    ids.cloned().collect()
}

#[cfg(test)]
mod tests {
    use mongodb::bson::Decimal128;
    use mongodb::bson::oid::ObjectId;

    use super::*;

    #[test]
    fn numbers_are_compared_by_value() {
        let decimal: Decimal128 = "456".parse().unwrap();
        let equal = [Bson::Int32(456), Bson::Int64(456), Bson::Double(456.0), decimal.into()];
        assert_eq!(distinct(&equal), [Bson::Int32(456)]);
        let nested = |id: Bson| Bson::from(doc! { "a": id, "b": ["x"] });
        assert_eq!(canonical(&nested(1.into())), canonical(&nested(1_i64.into())));
    }

    #[test]
    fn different_ids_have_different_texts() {
        let oid = ObjectId::new();
        let ids = [
            Bson::Int32(1),
            Bson::Double(1.5),
            "1".into(),
            "n1".into(),
            oid.into(),
            oid.to_hex().into(),
            doc! { "a": 1 }.into(),
            doc! { "a": "1" }.into(),
            doc! { "a": 1, "b": 2 }.into(),
            doc! { "b": 2, "a": 1 }.into(),
            Bson::Boolean(true),
        ];
        assert_eq!(distinct(&ids), ids);
    }
}
