//! Updates of a child.
//!
//! # Design
//!
//! ## Why does a pipeline have only `$set` and `$unset`?
//!
//! Their paths show which fields they write. The result of `$replaceWith` and `$project` can lack the parent and the id.
//!
//! ## Why does a pipeline end with a stage for the order and for figures?
//!
//! The value of an expression is unknown before the server computes it. An array would put a child at several positions, or
//! count as several values. The last stage converts an array to a date, which fails, and the server changes nothing.

use mongo_patterns_core::update::{Fixed, Operator, Operators, check_path, stage_paths};
#[allow(unused_imports)] // the links of the documentation use it
use mongo_patterns_core::{ErrorKind, FieldName, Result};
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::UpdateModifications;

use super::child::{array_in_order, invalid_argument};
use crate::settings::Settings;

const OF_CHILD: &str =
    "the update changes the parent or the id of the child, nothing was stored: delete the child, and insert it again";
const ID: &str = "the update changes the `_id` of the child, which is immutable, nothing was stored: omit it";

/// Checks an update, and returns what to send.
pub(crate) fn checked_update(settings: &Settings, update: UpdateModifications) -> Result<UpdateModifications> {
    let fixed = [
        (settings.parent.as_str(), OF_CHILD),
        (settings.child_id.as_str(), OF_CHILD),
        ("_id", ID),
    ];
    match update {
        UpdateModifications::Document(update) => {
            let operators = Operators::new(update, &fixed)?;
            match settings.scalar_fields().any(|field| makes_array(&operators, field)) {
                true => Err(array_in_order()),
                false => Ok(operators.under("").into()),
            }
        }
        UpdateModifications::Pipeline(stages) => Ok(checked_stages(settings, stages, &fixed)?.into()),
        _ => Err(invalid_argument(
            "the update is neither a document of operators nor a pipeline, nothing was sent: pass one of them",
        )),
    }
}

/// Returns whether the update can make an array of this field.
fn makes_array(operators: &Operators, field: &FieldName) -> bool {
    let mut changes = operators.changes_of(field.as_str());
    changes.any(|change| {
        let is_array = matches!(change.value, Bson::Array(_)) && change.operator != Operator::Unset;
        change.is_whole && (change.operator.is_of_arrays() || is_array)
    })
}

/// Checks the stages of a pipeline, and adds one that refuses arrays in the order and in figures.
fn checked_stages(settings: &Settings, mut stages: Vec<Document>, fixed: &[Fixed<'_>]) -> Result<Vec<Document>> {
    let mut set = Vec::new();
    for stage in &stages {
        for path in stage_paths(stage)? {
            check_path(path, fixed)?;
            set.extend(path.split('.').next());
        }
    }
    if set.is_empty() {
        return Err(invalid_argument(
            "the update names no field, nothing was sent: name a field to change",
        ));
    }
    let fields = settings.scalar_fields().map(FieldName::as_str);
    let checked: Document = fields
        .filter(|field| set.contains(field))
        .map(|field| {
            let value = format!("${field}");
            let unless_array = doc! { "$cond": [{ "$isArray": &value }, { "$toDate": &value }, &value] };
            (field.to_owned(), unless_array.into())
        })
        .collect();
    if !checked.is_empty() {
        stages.push(doc! { "$set": checked });
    }
    Ok(stages)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings::example()
    }

    fn refused(update: impl Into<UpdateModifications>) -> String {
        let error = checked_update(&settings(), update.into()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        error.to_string()
    }

    #[test]
    fn operators_change_all_fields_but_the_parent_and_the_ids() {
        for field in ["product_id", "review_id", "_id", "product_id.x", "_id.0"] {
            for operator in ["$set", "$unset", "$inc", "$max", "$push"] {
                let shown = refused(doc! { operator: { field: 1 } });
                assert!(shown.contains("of the child"), "{operator} {field}: {shown}");
            }
        }
        for update in [
            doc! { "$set": { "published_date": [1] } },
            doc! { "$min": { "published_date": [1] } },
            doc! { "$push": { "published_date": 1 } },
            doc! { "$addToSet": { "published_date": 1 } },
            doc! { "$pull": { "published_date": 1 } },
        ] {
            assert!(refused(update).contains("a field of the order or of a figure is an array"));
        }
        assert!(refused(doc! { "stars": 1 }).contains("$set"));
        let update = doc! {
            "$set": { "stars": [1], "a.b": "$c" }, "$inc": { "published_date": 1 }, "$unset": { "draft": [1] },
        };
        let checked = checked_update(&settings(), update.clone().into()).unwrap();
        assert!(matches!(checked, UpdateModifications::Document(checked) if checked == update));
    }

    #[test]
    fn a_pipeline_sets_and_unsets_all_fields_but_the_parent_and_the_ids() {
        for stage in [
            doc! { "$set": { "product_id": 1 } },
            doc! { "$addFields": { "review_id.x": 1 } },
            doc! { "$set": { "_id": 1 } },
            doc! { "$unset": "product_id" },
            doc! { "$unset": ["a", "review_id"] },
        ] {
            assert!(refused(vec![stage]).contains("of the child"));
        }
        for stage in [
            doc! {},
            doc! { "$replaceWith": {} },
            doc! { "$replaceRoot": { "newRoot": {} } },
            doc! { "$project": { "a": 1 } },
            doc! { "$set": 1 },
            doc! { "$unset": [1] },
            doc! { "$set": { "a": 1 }, "$unset": "b" },
            doc! { "stars": 1 },
        ] {
            assert!(refused(vec![stage]).contains("a stage"));
        }
        for path in ["", "a..b", "$a", "a.$"] {
            assert!(refused(vec![doc! { "$set": { path: 1 } }]).contains("path"));
        }
        for stages in [vec![], vec![doc! { "$set": {} }]] {
            assert!(refused(stages).contains("names no field"));
        }
    }

    #[test]
    fn a_pipeline_that_sets_the_order_never_makes_an_array_of_it() {
        let checked = |stages: Vec<Document>| match checked_update(&settings(), stages.into()).unwrap() {
            UpdateModifications::Pipeline(stages) => stages,
            _ => panic!("not a pipeline"),
        };
        let other = vec![doc! { "$set": { "stars": "$votes" } }, doc! { "$unset": "draft" }];
        assert_eq!(checked(other.clone()), other);
        let stage = doc! { "$addFields": { "published_date": "$$NOW" } };
        let value = "$published_date";
        assert_eq!(
            checked(vec![stage.clone()]),
            [
                stage,
                doc! { "$set": { "published_date": { "$cond": [{ "$isArray": value }, { "$toDate": value }, value] } } },
            ]
        );
    }
}
