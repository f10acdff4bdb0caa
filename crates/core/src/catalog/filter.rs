//! The stored form of a filter: the names of its operators would be refused as names of fields.

use mongodb::bson::{Bson, Document, doc};

/// Returns a filter as a value whose documents are arrays of pairs, and whose arrays are documents with the field `array`.
pub fn storable_filter(filter: &Document) -> Bson {
    let pairs = filter.iter();
    let pairs = pairs.map(|(name, value)| Bson::Array(vec![name.as_str().into(), storable(value)]));
    Bson::Array(pairs.collect())
}

fn storable(value: &Bson) -> Bson {
    match value {
        Bson::Document(document) => storable_filter(document),
        Bson::Array(values) => doc! { "array": values.iter().map(storable).collect::<Vec<Bson>>() }.into(),
        value => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_filter_has_no_names() {
        let query = doc! { "stars": { "$in": [4, { "a": 1 }] } };
        let array = doc! { "array": [4, [["a", 1]]] };
        assert_eq!(
            storable_filter(&query),
            Bson::Array(vec![Bson::Array(vec![
                "stars".into(),
                Bson::Array(vec![Bson::Array(vec!["$in".into(), array.into()])])
            ])])
        );
    }
}
