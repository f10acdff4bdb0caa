//! The further subsets of a parent: each an option, and a setting in the catalog.

use mongo_patterns_core::FieldName;
use mongo_patterns_core::migration::number;
use mongo_patterns_subset::{Direction, Subset};
use mongodb::bson::{Bson, Document, doc};

use crate::extended_json;
use crate::failure::Failure;

/// Returns a subset by the value of its option.
pub(crate) fn parse(option: &str, text: &str) -> Result<Subset, Failure> {
    let document = extended_json::document(text).map_err(|problem| Failure::usage(format!("{option}: {problem}")))?;
    of_document(&document).ok_or_else(|| {
        Failure::usage(format!(
            "{option}: this is not a subset: pass {{\"field\": \"top_rated\", \"order\": [\"-stars\"]}}, with \"size\", \"filter\" and \"embedded_fields\" if they are not the defaults"
        ))
    })
}

/// Returns the field and the size of a subset by the value of its option.
pub(crate) fn field_and_size(option: &str, text: &str) -> Result<(String, u32), Failure> {
    let _checked = parse(option, text)?;
    let document = extended_json::document(text).unwrap_or_default();
    let size = u32::try_from(number(&document, "size")).ok().filter(|size| *size > 0);
    let field = document.get_str("field").unwrap_or_default();
    Ok((field.to_owned(), size.unwrap_or(10)))
}

fn of_document(document: &Document) -> Option<Subset> {
    let field = document.get_str("field").ok()?;
    let mut subset = Subset::new(FieldName::new(field).ok()?.as_str());
    for (name, value) in document {
        subset = match (name.as_str(), value) {
            ("field", _) => subset,
            ("order", Bson::Array(fields)) => ordered(subset, &names(fields)?),
            ("size", Bson::Int32(size)) => subset.size((*size).try_into().ok()?),
            ("size", Bson::Int64(size)) => subset.size((*size).try_into().ok()?),
            ("filter", Bson::Document(filter)) => subset.filter(filter.clone()),
            ("embedded_fields", Bson::Array(fields)) => subset.embedded_fields(names(fields)?),
            _ => return None,
        };
    }
    Some(subset)
}

/// Orders a subset by the fields of an option, which descend after `-`.
pub(crate) fn ordered(subset: Subset, fields: &[impl AsRef<str>]) -> Subset {
    let fields = fields.iter().map(AsRef::as_ref);
    fields.fold(subset, |subset, field| match field.strip_prefix('-') {
        Some(field) => subset.order_by(field, Direction::Descending),
        None => subset.order_by(field, Direction::Ascending),
    })
}

fn names(fields: &[Bson]) -> Option<Vec<&str>> {
    fields.iter().map(Bson::as_str).collect()
}

/// Returns the values of the options by the settings in the catalog.
pub(crate) fn of_entry(settings: &Document) -> Option<Vec<String>> {
    let subsets = settings.get_document("further_subsets").ok()?;
    let options = subsets.iter().map(|(field, settings)| {
        let mut option = doc! { "field": field };
        for (name, value) in settings.as_document()? {
            match (name.as_str(), value) {
                (_, Bson::Null) => None,
                ("filter", filter) => option.insert(name, restored(filter)),
                _ => option.insert(name, value.clone()),
            };
        }
        serde_json::to_string(&option).ok()
    });
    options.collect()
}

/// Returns a value of a filter, which the catalog has as pairs.
fn restored(stored: &Bson) -> Bson {
    let pair = |pair: &Bson| match pair.as_array()?.as_slice() {
        [Bson::String(name), value] => Some((name.clone(), restored(value))),
        _ => None,
    };
    match stored {
        Bson::Array(pairs) => Bson::Document(pairs.iter().filter_map(pair).collect()),
        Bson::Document(array) => {
            let values = array.get_array("array").into_iter().flatten();
            Bson::Array(values.map(restored).collect())
        }
        value => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_survives_the_catalog() {
        let pairs = doc! { "filter": [["stars", [["$in", { "array": [4, [["a", 1]]] }]]]] };
        let settings = doc! { "further_subsets": { "best": {
            "order": ["-stars", "review_id"],
            "size": 3_i64,
            "filter": pairs.get("filter").unwrap(),
            "embedded_fields": null,
        } } };
        let options = of_entry(&settings).unwrap();
        let expected =
            r#"{"field":"best","order":["-stars","review_id"],"size":3,"filter":{"stars":{"$in":[4,{"a":1}]}}}"#;
        assert_eq!(options, [expected]);
        assert!(parse("--add-subset", &options[0]).is_ok());
        assert_eq!(of_entry(&doc! {}), None);
    }

    #[test]
    fn other_values_are_refused() {
        for bad in [
            "",
            "best",
            "{}",
            r#"{"field": "a.b", "order": ["stars"]}"#,
            r#"{"field": "best", "order": "stars"}"#,
            r#"{"field": "best", "order": [1]}"#,
            r#"{"field": "best", "order": ["stars"], "size": -1}"#,
            r#"{"field": "best", "order": ["stars"], "filter": 1}"#,
            r#"{"field": "best", "order": ["stars"], "limit": 1}"#,
        ] {
            let error = parse("--add-subset", bad).unwrap_err();
            assert!(error.text.starts_with("--add-subset: "), "{bad}");
        }
    }
}
