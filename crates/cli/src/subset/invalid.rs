//! The parents that cannot be migrated from embedded children.

use mongo_patterns_subset::SubsetRepository;
use mongodb::bson::Document;

use crate::analyze::invalid::{FEW, Invalid, Reason};
use crate::args::Sample;
use crate::failure::Failure;
use crate::settings::SubsetSettings;

/// Finds the invalid parents. `None` if no parent embeds children that are not migrated, or if settings are missing.
pub(super) async fn find(
    parents: &SubsetRepository<Document, Document>,
    settings: &SubsetSettings,
    sample: Sample,
) -> Result<Option<Invalid>, Failure> {
    let collection = parents.collection();
    let count = collection.estimated_document_count().await;
    let sample = match count.map_err(Failure::on(collection.namespace()))? {
        ..=FEW => None,
        _ => sample.sample,
    };
    let found = parents.migrate_from_embedded().find_invalid(sample).await?;
    let by_reason = found.invalid.iter();
    let reasons = by_reason.map(|(name, documents)| Reason {
        name,
        field: settings.subset.clone().unwrap_or_default(),
        text: text(name),
        documents,
    });
    Ok((found.checked > 0).then(|| Invalid {
        collection: collection.name().to_owned(),
        checked: found.checked,
        is_sample: sample.is_some(),
        reasons: reasons.collect(),
        filter: found.filter,
    }))
}

fn text(reason: &str) -> &'static str {
    match reason {
        "no_array" => "a value that is not an array",
        "no_parent_id" => "an _id by which no child can refer to them",
        "no_document" => "values that are not documents",
        "no_id" => "children without a valid id",
        "twice" => "several children of one id",
        "other_parent" => "children of another parent",
        "array_in_order" => "children with an array in a field of the order or of a figure",
        _ => "an unknown problem",
    }
}
