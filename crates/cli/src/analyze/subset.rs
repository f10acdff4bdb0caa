//! The distribution of children over parents, and estimates for subsets of each size.

use futures::TryStreamExt;
use mongo_patterns_core::FieldName;
use mongodb::bson::{Document, doc};

use super::distribution::{Distribution, stored};
use super::invalid::Invalid;
use super::lists::Fields;
use super::report::Printed;
use super::sizes::Parents;
use super::{advice, groups, lists, report, sizes};
use crate::args::Sample;
use crate::context::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::progress::Progress;
use crate::settings::{SubsetSettings, need};

const PATTERN: &str = "subset";

/// The number of documents that are sampled for an average size.
const SAMPLE: i64 = 1000;

pub(crate) async fn run(
    context: &Context,
    settings: &SubsetSettings,
    sample: Sample,
    invalid: Option<&Invalid>,
) -> Outcome {
    let progress = Progress::new(context.output, "analyze", "documents", None);
    let mut distribution = distribution(context, settings, sample).await?;
    if let (Some(fields), Some(children)) = (&settings.embed, &settings.children_collection)
        && let Some(bytes) = embedded_bytes(context, children, fields).await?
    {
        distribution.item_bytes = bytes;
    }
    let parents = match &settings.collection {
        Some(collection) if context.exists(collection).await? => Some(parents(context, collection, settings).await?),
        _ => None,
    };
    progress.end();
    let sizes = sizes::sizes(&distribution, parents.as_ref());
    let recommended = advice::subset(&distribution);
    let printed = Printed {
        distribution: &distribution,
        subset_sizes: &sizes,
        invalid,
        recommended: recommended.as_ref(),
    };
    report::print(context.output, PATTERN, &printed)?;
    Ok(Exit::Success)
}

/// Analyzes the collection of the children, or the embedded children if that collection does not exist.
async fn distribution(context: &Context, settings: &SubsetSettings, sample: Sample) -> Result<Distribution, Failure> {
    let children = settings.children_collection.as_ref();
    let exists = match children {
        Some(children) => context.exists(children).await?,
        None => false,
    };
    if let (false, Some(collection), Some(array)) = (exists, &settings.collection, &settings.subset) {
        context.must_exist(collection).await?;
        let parents = context.database.collection::<Document>(collection);
        let array = FieldName::new(array.as_str())?;
        let fields = Fields::of(array.as_str());
        return lists::distribution(&parents, &format!("{collection}_extras"), &fields, sample.sample).await;
    }
    let children = need(children, PATTERN, "children_collection")?;
    let field = FieldName::of_element(need(settings.parent.as_ref(), PATTERN, "parent")?)?;
    context.must_exist(children).await?;
    groups::distribution(&context.database.collection(children), &field, None, sample.sample).await
}

/// Reads the number and size of the parents, without their embedded children.
async fn parents(context: &Context, collection: &str, settings: &SubsetSettings) -> Result<Parents, Failure> {
    let parents = context.database.collection::<Document>(collection);
    let embedded = match &settings.subset {
        Some(subset) => doc! { "$bsonSize": { "e": format!("${}", FieldName::new(subset.as_str())?) } },
        None => doc! { "$literal": EMPTY },
    };
    let own = doc! { "$subtract": [{ "$bsonSize": "$$ROOT" }, { "$subtract": [embedded, EMPTY] }] };
    let bytes = mean(context, collection, own).await?;
    Ok(Parents {
        documents: stored(&parents).await?.documents,
        bytes: bytes.unwrap_or_default(),
    })
}

/// The size of a document without fields, in bytes.
const EMPTY: i32 = 5;

/// Returns the average size of an embedded child, if only some of its fields are embedded.
async fn embedded_bytes(context: &Context, children: &str, fields: &[String]) -> Result<Option<f64>, Failure> {
    let mut projected = Document::new();
    for field in fields {
        let field = FieldName::of_element(field.as_str())?;
        projected.insert(field.as_str(), format!("${field}"));
    }
    mean(context, children, doc! { "$bsonSize": projected }).await
}

/// Returns the mean of an expression over a sample of documents.
pub(super) async fn mean(context: &Context, collection: &str, of: Document) -> Result<Option<f64>, Failure> {
    let collection = context.database.collection::<Document>(collection);
    let stages = [
        doc! { "$sample": { "size": SAMPLE } },
        doc! { "$group": { "_id": null, "mean": { "$avg": of } } },
    ];
    let namespace = collection.namespace();
    let mut rows = collection.aggregate(stages).await.map_err(Failure::on(&namespace))?;
    let row = rows.try_next().await.map_err(Failure::on(&namespace))?;
    Ok(row.and_then(|row| row.get_f64("mean").ok()))
}
