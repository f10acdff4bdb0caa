//! The distribution of references over their sources, the state of the copies, and the cost of an update of a source.

mod advice;
mod measured;
mod print;
mod query;

use futures::TryStreamExt;
use mongo_patterns_core::migration::number;
use mongodb::Collection;
use mongodb::bson::{Document, doc};
use mongodb::options::Collation;

use self::measured::Measured;
pub(crate) use self::measured::Of;
use self::query::Field;
use super::analysis::{Analysis, ListLength, ratio};
use super::distribution::stored;
use super::groups::{check_index, scaled};
use super::subset::mean;
use crate::args::ReferenceSample;
use crate::context::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::progress::Progress;
use crate::reference_fields::in_other_fields;
use crate::settings::ReferenceField;

pub(crate) async fn run(context: &Context, of: &Of<'_>, options: &ReferenceSample) -> Outcome {
    let progress = Progress::new(context.output, "analyze", "references", None);
    let moved = in_other_fields(options.from_field.as_ref(), of.references)?;
    let mut measured = Vec::new();
    for reference in of.references {
        let ids = moved.iter().find(|(name, _)| *name == reference.field);
        let field = Field {
            name: &reference.field,
            ids: ids.filter(|_| reference.collection.is_none()).map(|(_, ids)| *ids),
            is_array: reference.array,
            is_snapshot: reference.snapshot,
            version: of.version,
            sources: of.sources.name(),
        };
        measured.push(measure(context, of, reference, &field, options.sample.sample).await?);
    }
    let sources = stored(&of.sources).await?.documents;
    progress.end();
    print::print(context.output, of, &measured, sources, options.sample.sample)?;
    Ok(Exit::Success)
}

async fn measure(
    context: &Context,
    of: &Of<'_>,
    reference: &ReferenceField,
    field: &Field<'_>,
    sample: Option<u32>,
) -> Result<Measured, Failure> {
    let name = reference.collection.as_deref().unwrap_or(of.collection);
    let collection = context.database.collection::<Document>(name);
    let mut measured = Measured {
        collection: name.to_owned(),
        field: reference.field.clone(),
        copy: reference.copy.clone(),
        is_snapshot: reference.snapshot,
        analysis: Analysis::default(),
        sources_found: 0,
        copies: 0,
        ids: 0,
        others: 0,
        dangling: 0,
        stale: 0,
        copy_bytes: 0.0,
        document_bytes: 0.0,
        updates: 0,
        largest: None,
    };
    let (mut bytes, mut document_bytes) = (0, 0);
    for row in rows(&collection, query::by_references(field, sample)).await? {
        let of_group = row.get_document("_id").cloned().unwrap_or_default();
        let (length, sources) = (number(&of_group, "n"), number(&row, "sources"));
        if of_group.get_bool("other").unwrap_or(false) {
            measured.others += length * sources;
            continue;
        }
        let copies = number(&row, "copies");
        measured.copies += copies;
        measured.ids += length * sources - copies;
        measured.sources_found += number(&row, "found");
        measured.dangling += number(&row, "dangling");
        measured.stale += number(&row, "stale");
        measured.updates += number(&row, "updates");
        bytes += number(&row, "bytes");
        document_bytes += number(&row, "document_bytes");
        measured.largest = row.get("source").cloned();
        add(&mut measured.analysis, length, sources);
    }
    measured.copy_bytes = match measured.copies {
        0 => bytes_of_copy(context, of, reference).await?,
        copies => ratio(bytes, copies),
    };
    measured.document_bytes = ratio(document_bytes, measured.references());
    if let Some(sample) = sample {
        let (kind, path) = match measured.copies >= measured.ids {
            true => (query::COPY, format!("{}._id", field.name)),
            false => (query::ID, field.ids.unwrap_or(field.name).to_owned()),
        };
        of_sample(&collection, &mut measured, field, (kind, &path), sample).await?;
    }
    Ok(measured)
}

/// Replaces the numbers of a sample by estimates for all documents. The sources are counted by the references of the more
/// common kind.
async fn of_sample(
    collection: &Collection<Document>,
    measured: &mut Measured,
    field: &Field<'_>,
    counted: (&str, &str),
    sample: u32,
) -> Result<(), Failure> {
    check_index(collection, counted.1).await?;
    let documents = stored(collection).await?.documents;
    let read = u64::from(sample).min(documents);
    let stages = query::sampled(field, collection.name(), counted, sample);
    let found = (measured.sources_found, measured.analysis.documents);
    measured.analysis = Analysis::default();
    for row in rows(collection, stages).await? {
        let length = number(&row, "_id");
        let sources = scaled(number(&row, "hits"), documents, read * length);
        measured.largest = row.get("source").cloned();
        add(&mut measured.analysis, length, sources);
    }
    let all = |sampled: u64| {
        if sampled == 0 {
            0
        } else {
            scaled(sampled, documents, read)
        }
    };
    measured.sources_found = scaled(found.0, measured.analysis.documents, found.1);
    for number in [
        &mut measured.copies,
        &mut measured.ids,
        &mut measured.others,
        &mut measured.dangling,
        &mut measured.stale,
        &mut measured.updates,
    ] {
        *number = all(*number);
    }
    Ok(())
}

fn add(analysis: &mut Analysis, length: u64, sources: u64) {
    analysis.documents += sources;
    analysis.elements += sources * length;
    analysis.lengths.push(ListLength::new(length, sources));
}

async fn rows(collection: &Collection<Document>, stages: Vec<Document>) -> Result<Vec<Document>, Failure> {
    let namespace = collection.namespace();
    let simple = Collation::builder().locale("simple").build();
    let rows = collection.aggregate(stages).allow_disk_use(true).collation(simple);
    let rows = rows.await.map_err(Failure::on(&namespace))?;
    rows.try_collect().await.map_err(Failure::on(&namespace))
}

/// Returns the average size that a copy would have.
async fn bytes_of_copy(context: &Context, of: &Of<'_>, reference: &ReferenceField) -> Result<f64, Failure> {
    let mut copy = doc! { "_id": "$_id", of.version: { "$literal": 0_i64 } };
    for (number, (target, source)) in reference.copied().enumerate() {
        // A path would be a nested document.
        let name = match target.contains('.') {
            true => format!("{number}"),
            false => target.to_owned(),
        };
        copy.insert(name, format!("${source}"));
    }
    let bytes = mean(context, of.sources.name(), doc! { "$bsonSize": copy }).await?;
    Ok(bytes.unwrap_or_default())
}
