//! Ids of sources, compared as the server compares them.

pub(crate) use mongo_patterns_core::document_id::canonical;

use mongodb::bson::Bson;

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

    use mongodb::bson::doc;

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
