//! Prints an analysis of references, as text in 80 columns or as JSON.

use std::io;

use console::style;
use serde_json::json;

use super::advice::{CAVEAT, largest_update, recommend, updates};
use super::measured::{Measured, Of};
use crate::analyze::advice::{percent, size};
use crate::analyze::analysis::ratio;
use crate::analyze::report::{advise, histogram};
use crate::failure::Exit;
use crate::output::{Output, Summary, counted, grouped, printable, to_json, wrapped};

pub(super) fn print(
    output: Output,
    of: &Of<'_>,
    measured: &[Measured],
    sources: u64,
    sample: Option<u32>,
) -> io::Result<()> {
    for (number, one) in measured.iter().enumerate() {
        if number > 0 {
            output.text("")?;
        }
        print_one(output, of, one, sources, sample)?;
    }
    let update = largest_update(measured);
    output.heading("An update of the largest source")?;
    output.text(&format!(
        "writes up to {} copies, in documents of about {}",
        grouped(update.copies),
        size(update.bytes)
    ))?;
    let updates = updates(measured);
    output.text(&format!(
        "a source was updated {updates:.1} times on average, weighted by its references"
    ))?;
    let recommended = recommend(measured);
    let why_none = "there are no references; if their ids are in another field, pass --from-field";
    advise(output, recommended.as_ref(), Some(CAVEAT), why_none)?;
    if output.json {
        let sum = |number: fn(&Measured) -> u64| measured.iter().map(number).sum::<u64>();
        let summary = Summary::new("analyze", of.sources.namespace().to_string())
            .row("pattern", "reference")
            .row("sources", sources)
            .row("references", sum(Measured::references))
            .row("ids_alone", sum(|one| one.ids))
            .row("without_source", sum(|one| one.dangling))
            .row("stale", sum(|one| one.stale))
            .row("copies_of_the_largest_source", update.copies)
            .row("sample", json!(sample))
            .row("recommended", json!(recommended.map(|recommended| recommended.pattern)));
        output.summary(&summary, Exit::Success)?;
    }
    Ok(())
}

fn print_one(output: Output, of: &Of<'_>, one: &Measured, sources: u64, sample: Option<u32>) -> io::Result<()> {
    let database = of.sources.namespace().db;
    let references = one.references();
    let estimated = sample.map(|sample| format!(", from a sample of {}", counted(sample.into(), "document")));
    let unused = sources.saturating_sub(one.sources_found);
    let bytes = one.copy_bytes * ratio(one.copies, 1);
    let name = format!("{database}.{}: {} of {}", one.collection, one.field, of.sources.name());
    output.text(&style(name).bold().to_string())?;
    output.text(&format!(
        "{} references with {} distinct ids{}; {} of {} sources have none",
        grouped(references),
        grouped(one.analysis.documents),
        estimated.unwrap_or_default(),
        grouped(unused),
        grouped(sources)
    ))?;
    let share = |number: u64, whole: u64| format!("{} ({})", grouped(number), percent(ratio(number, whole)));
    output.text(&format!(
        "{} with a copy, {} with the id alone; {} other values",
        share(one.copies, references),
        share(one.ids, references),
        grouped(one.others)
    ))?;
    output.text(&format!(
        "{} without a source; {} of the copies are outdated",
        share(one.dangling, references),
        share(one.stale, one.copies)
    ))?;
    output.text(&match one.copies {
        0 => format!("a copy would be about {}", size(one.copy_bytes)),
        _ => format!(
            "a copy is about {}, all are {}; a document is about {}",
            size(one.copy_bytes),
            size(bytes),
            size(one.document_bytes)
        ),
    })?;
    output.object(&json!({
        "type": "reference",
        "collection": one.collection,
        "field": one.field,
        "snapshot": one.is_snapshot,
        "references": references,
        "copies": one.copies,
        "ids_alone": one.ids,
        "other_values": one.others,
        "distinct_ids": one.analysis.documents,
        "sources_without_references": unused,
        "without_source": one.dangling,
        "stale": one.stale,
        "bytes": bytes.round(),
        "bytes_per_copy": one.copy_bytes.round(),
        "bytes_per_document": one.document_bytes.round(),
        "most_references_of_a_source": one.most(),
        "largest_source": one.largest.as_ref().map(to_json),
    }))?;
    if references == 0 {
        return Ok(());
    }
    output.heading("Sources by their number of references")?;
    histogram(output, &one.analysis.ranges(), one.analysis.documents)?;
    output.text(&format!(
        "\nreferences by percentile: {}",
        one.analysis.percentiles_text()
    ))?;
    if let Some(id) = &one.largest {
        let text = format!(
            "the source with the most has the `_id` {}, and {}",
            printable(&id.to_string()),
            counted(one.most(), "reference")
        );
        output.text(&wrapped(&text, 0))?;
    }
    Ok(())
}
