//! The stored documents of a pattern, against its settings and the greatest size of a document.

use console::style;
use futures::TryStreamExt;
use mongo_patterns_core::migration::number;
use mongodb::bson::{Bson, Document, doc};
use serde_json::json;

use super::advice::{percent, size};
use super::analysis::{Analysis, ListLength, ratio};
use super::distribution::stored;
use super::lists::{element_bytes, size_of};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{counted, grouped, printable, to_json, wrapped};
use crate::progress::Progress;

/// The greatest size of a document, in bytes.
const GREATEST: u64 = 16 * 1024 * 1024;

/// A collection of a pattern.
pub(crate) struct Managed<'a> {
    collection: &'a str,
    /// The setting with the greatest number of elements in an array field.
    limit: Option<Limit<'a>>,
}

#[derive(Clone, Copy)]
struct Limit<'a> {
    array: &'a str,
    setting: &'static str,
    elements: u32,
}

impl<'a> Managed<'a> {
    pub(crate) fn new(collection: &'a str) -> Self {
        Self {
            collection,
            limit: None,
        }
    }

    /// Sets an array field and its limit, if both are set, with the name of the setting.
    pub(crate) fn limit(self, array: Option<&'a str>, setting: &'static str, elements: Option<u32>) -> Self {
        let limit = array.zip(elements).map(|(array, elements)| Limit {
            array,
            setting,
            elements,
        });
        Self { limit, ..self }
    }
}

/// The documents of a collection, or of a sample.
#[derive(Default)]
struct Measured {
    /// The documents by the length of their array.
    analysis: Analysis,
    largest: u64,
    largest_id: Option<Bson>,
}

/// Prints the sizes of the documents of each collection that exists.
pub(crate) async fn print(context: &Context, managed: &[Managed<'_>], sample: Option<u32>) -> Result<(), Failure> {
    let mut title = Some(style("Stored documents").bold().to_string());
    for one in managed {
        if context.exists(one.collection).await? {
            let progress = Progress::new(context.output, "analyze", "documents", None);
            let measured = measure(context, one, sample).await?;
            progress.end();
            title.take().map_or(Ok(()), |title| context.output.text(&title))?;
            print_one(context, one, &measured, sample).await?;
        }
    }
    if title.is_none() {
        context.output.text("")?;
    }
    Ok(())
}

async fn measure(context: &Context, managed: &Managed<'_>, sample: Option<u32>) -> Result<Measured, Failure> {
    let collection = context.database.collection::<Document>(managed.collection);
    let namespace = collection.namespace();
    let rows = collection.aggregate(pipeline(managed, sample)).allow_disk_use(true);
    let mut rows = rows.await.map_err(Failure::on(&namespace))?;
    let mut measured = Measured::default();
    while let Some(row) = rows.try_next().await.map_err(Failure::on(&namespace))? {
        let (length, documents) = (number(&row, "_id"), number(&row, "documents"));
        let analysis = &mut measured.analysis;
        analysis.documents += documents;
        analysis.elements += length * documents;
        analysis.bytes += number(&row, "bytes");
        analysis.element_bytes += number(&row, "element_bytes");
        analysis.lengths.push(ListLength::new(length, documents));
        let largest = row.get_document("largest").cloned().unwrap_or_default();
        if number(&largest, "bytes") >= measured.largest {
            measured.largest = number(&largest, "bytes");
            measured.largest_id = largest.get("id").cloned();
        }
    }
    Ok(measured)
}

/// Returns a row for each length of the array, in order.
fn pipeline(managed: &Managed<'_>, sample: Option<u32>) -> Vec<Document> {
    let (length, elements) = match managed.limit {
        Some(Limit { array, .. }) => (size_of(array), element_bytes(array)),
        None => (doc! { "$literal": 0 }, doc! { "$literal": 0 }),
    };
    let sample = sample.map(|documents| doc! { "$sample": { "size": i64::from(documents) } });
    let mut stages: Vec<Document> = sample.into_iter().collect();
    stages.extend([
        doc! { "$project": { "length": length, "bytes": { "$bsonSize": "$$ROOT" }, "element_bytes": elements } },
        doc! { "$group": {
            "_id": "$length",
            "documents": { "$sum": 1 },
            "bytes": { "$sum": "$bytes" },
            "element_bytes": { "$sum": "$element_bytes" },
            "largest": { "$max": { "bytes": "$bytes", "id": "$_id" } },
        } },
        doc! { "$sort": { "_id": 1 } },
    ]);
    stages
}

async fn print_one(
    context: &Context,
    managed: &Managed<'_>,
    measured: &Measured,
    sample: Option<u32>,
) -> Result<(), Failure> {
    let output = context.output;
    let stored = stored(&context.database.collection(managed.collection)).await?;
    let near = |bytes: u64| {
        format!(
            "{}, {} of 16 MiB",
            size(ratio(bytes, 1)),
            percent(ratio(bytes, GREATEST))
        )
    };
    let of = sample.map(|sample| format!(" of a sample of {}", grouped(sample.into())));
    let id = measured.largest_id.as_ref();
    let with = id.map(|id| format!(", and the `_id` {}", printable(&id.to_string())));
    let text = format!(
        "{}: {} of {}; the largest{} has {}{}",
        managed.collection,
        counted(stored.documents, "document"),
        size(ratio(stored.bytes, 1)),
        of.unwrap_or_default(),
        near(measured.largest),
        with.unwrap_or_default()
    );
    output.text(&wrapped(&text, 0))?;
    let mut object = json!({
        "type": "stored",
        "collection": managed.collection,
        "documents": stored.documents,
        "bytes": stored.bytes,
        "largest_document": measured.largest,
        "largest_id": id.map(to_json),
        "sample": sample,
    });
    let mut full = 0;
    let analysis = &measured.analysis;
    if let Some(Limit {
        array,
        setting,
        elements,
    }) = managed.limit
    {
        let limit = u64::from(elements);
        let longer = analysis.outliers_at(elements).documents;
        let at_limit = analysis.lengths.iter().find(|lists| lists.length == limit);
        let at_limit = at_limit.map_or(0, |lists| lists.documents);
        full = full_bytes(analysis, limit);
        let longest = analysis.lengths.last().map_or(0, |lists| lists.length);
        let text = format!(
            "`{array}` by percentile: {}; the longest has {}",
            analysis.percentiles_text(),
            grouped(longest)
        );
        output.text(&wrapped(&text, 2))?;
        let text = format!(
            "{setting} = {limit}: {} have as many, and {} have more; one with as many has about {}",
            counted(at_limit, "document"),
            grouped(longer),
            near(full)
        );
        output.text(&wrapped(&text, 2))?;
        object["array"] = array.into();
        object["setting"] = setting.into();
        object["limit"] = limit.into();
        object["longest"] = longest.into();
        object["at_limit"] = at_limit.into();
        object["above_limit"] = longer.into();
        object["full_document"] = full.into();
    }
    let above = object["above_limit"].as_u64().unwrap_or(0);
    let is_large = full.max(measured.largest) > GREATEST / 2;
    let setting = managed.limit.map_or("", |limit| limit.setting);
    let verdict = match (above > 0, is_large, managed.limit) {
        (true, ..) => format!("{setting} does not fit: `verify` shows the problems of the longer ones"),
        (_, true, Some(_)) => format!("{setting} does not fit: choose a smaller one, before documents reach 16 MiB"),
        (_, true, None) => "documents come near 16 MiB: split them, or store less in each".to_owned(),
        (_, false, Some(_)) => format!("{setting} fits"),
        (_, false, None) => String::new(),
    };
    if !verdict.is_empty() {
        output.text(&wrapped(&verdict, 2))?;
    }
    object["fits"] = (above == 0 && !is_large).into();
    output.object(&object)?;
    Ok(())
}

/// Estimates the bytes of a document with this number of elements.
fn full_bytes(analysis: &Analysis, elements: u64) -> u64 {
    let own = analysis.bytes.saturating_sub(analysis.element_bytes) / analysis.documents.max(1);
    let of_elements = u128::from(analysis.element_bytes) * u128::from(elements) / u128::from(analysis.elements.max(1));
    own.saturating_add(u64::try_from(of_elements).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_document_is_estimated_by_the_average_element() {
        let analysis = Analysis {
            documents: 4,
            elements: 20,
            bytes: 2400,
            element_bytes: 2000,
            ..Analysis::default()
        };
        assert_eq!(full_bytes(&analysis, 10), 100 + 1000);
        assert_eq!(full_bytes(&Analysis::default(), 10), 0);
        let many = Analysis {
            element_bytes: u64::MAX,
            elements: 1,
            ..analysis
        };
        assert_eq!(full_bytes(&many, 10), u64::MAX);
    }
}
