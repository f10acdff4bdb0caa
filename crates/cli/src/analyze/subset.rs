//! How children are spread over parents, and what subsets of each size would give.

use futures::TryStreamExt;
use mongo_patterns_core::FieldName;
use mongo_patterns_outlier::OutlierRepository;
use mongodb::bson::{Bson, Document, doc};

use super::sizes::Parents;
use super::{Spread, advice, groups, of_lists, report, sizes, stored};
use crate::Context;
use crate::args::Sample;
use crate::failure::{Exit, Failure, Outcome};
use crate::progress::Progress;
use crate::settings::{SubsetSettings, need};

const PATTERN: &str = "subset";

/// How many documents are looked at to tell the bytes of one.
const SAMPLE: i64 = 1000;

pub(crate) async fn run(context: &Context, settings: &SubsetSettings, sample: Sample) -> Outcome {
    let progress = Progress::new(context.output, "analyze", "documents", None);
    let mut spread = spread(context, settings, sample).await?;
    if let (Some(fields), Some(children)) = (&settings.embed, &settings.children_collection)
        && let Some(bytes) = embedded_bytes(context, children, fields).await?
    {
        spread.item_bytes = bytes;
    }
    let parents = match &settings.collection {
        Some(collection) if context.exists(collection).await? => Some(parents(context, collection, settings).await?),
        _ => None,
    };
    progress.end();
    let sizes = sizes::sizes(&spread, parents.as_ref());
    let recommended = advice::subset(&spread);
    report::print(context.output, PATTERN, &spread, &sizes, recommended.as_ref())?;
    Ok(Exit::Well)
}

/// Of the collection of the children; or of what is embedded, where there is none yet.
async fn spread(context: &Context, settings: &SubsetSettings, sample: Sample) -> Result<Spread, Failure> {
    let children = settings.children_collection.as_ref();
    let is_there = match children {
        Some(children) => context.exists(children).await?,
        None => false,
    };
    if let (false, Some(collection), Some(array)) = (is_there, &settings.collection, &settings.subset) {
        context.must_exist(collection).await?;
        let parents = context.database.collection::<Document>(collection);
        let no_extras = context.database.collection::<Document>(&format!("{collection}_extras"));
        let lists = OutlierRepository::<Document, Bson>::builder(parents, no_extras)
            .array_field(array)
            .parent_field("parent_id")
            .build()?;
        return of_lists(&lists, sample.sample).await;
    }
    let children = need(children, PATTERN, "children_collection")?;
    let field = FieldName::of_element(need(settings.parent.as_ref(), PATTERN, "parent")?)?;
    context.must_exist(children).await?;
    groups::spread(&context.database.collection(children), &field, sample.sample).await
}

/// The parents as they are, without what is embedded.
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

/// The bytes of a document without fields.
const EMPTY: i32 = 5;

/// The bytes of a child in its parent, if not all of its fields stand there.
async fn embedded_bytes(context: &Context, children: &str, fields: &[String]) -> Result<Option<f64>, Failure> {
    let mut projected = Document::new();
    for field in fields {
        let field = FieldName::of_element(field.as_str())?;
        projected.insert(field.as_str(), format!("${field}"));
    }
    mean(context, children, doc! { "$bsonSize": projected }).await
}

/// The mean of an expression over some documents.
async fn mean(context: &Context, collection: &str, of: Document) -> Result<Option<f64>, Failure> {
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
