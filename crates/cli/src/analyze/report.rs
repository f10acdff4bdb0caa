//! Prints an analysis, as text in 80 columns or as JSON.

use std::io;

use console::style;
use serde_json::json;

use super::advice::{CAVEAT, Recommendation, size};
use super::analysis::{LengthRange, ratio};
use super::designs::{Design, PAGE, designs};
use super::distribution::Distribution;
use super::invalid::Invalid;
use super::sizes;
use super::sizes::SubsetSize;
use crate::failure::Exit;
use crate::output::{self, Output, Summary, counted, grouped, wrapped};
use crate::words::singular;

/// The longest bar of the histogram, in characters.
const BAR: u64 = 36;

/// The parts of an analysis.
pub(super) struct Printed<'a> {
    pub(super) distribution: &'a Distribution,
    pub(super) subset_sizes: &'a [SubsetSize],
    pub(super) invalid: Option<&'a Invalid>,
    pub(super) recommended: Option<&'a Recommendation>,
}

pub(super) fn print(output: Output, pattern: &'static str, printed: &Printed<'_>) -> io::Result<()> {
    let Printed {
        distribution,
        subset_sizes,
        invalid,
        recommended,
    } = *printed;
    let is_subset = !subset_sizes.is_empty();
    let analysis = &distribution.analysis;
    let of = distribution
        .sample
        .map(|sample| format!(", from a sample of {}", counted(sample.into(), "document")));
    output.text(&style(&distribution.namespace).bold().to_string())?;
    let (items, lists) = if is_subset {
        ("children of", "parents with children")
    } else {
        ("items in", "lists")
    };
    output.text(&format!(
        "{} {items} {} {lists}{}",
        grouped(analysis.elements),
        grouped(analysis.documents),
        of.unwrap_or_default()
    ))?;
    let stored = &distribution.stored;
    output.text(&format!(
        "now {}, {} of data, {} of indexes; an item is about {}",
        counted(stored.documents, "document"),
        size(ratio(stored.bytes, 1)),
        size(ratio(stored.index_bytes, 1)),
        size(distribution.item_bytes)
    ))?;
    let (left_out, why) = distribution.left_out;
    if left_out > 0 {
        let text = format!("{} documents {why}: excluded", grouped(left_out));
        output.text(&singular(&text))?;
    }
    output.heading(if is_subset {
        "Parents by their number of children"
    } else {
        "Lists by their number of items"
    })?;
    histogram(output, &analysis.ranges(), analysis.documents)?;
    for (percent, length) in analysis.percentiles() {
        output.object(&json!({ "type": "percentile", "percent": percent, "length": length }))?;
    }
    output.text(&format!(
        "\n{} by percentile: {}",
        if is_subset { "children" } else { "items" },
        analysis.percentiles_text()
    ))?;
    if is_subset {
        sizes::print(output, subset_sizes)?;
    }
    table(output, &designs(distribution), distribution.threshold)?;
    if let Some(threshold) = distribution.threshold {
        let at = analysis.outliers_at(threshold);
        output.text(&format!(
            "configured: outlier at {}, which makes {}",
            grouped(threshold.into()),
            counted(at.documents, "outlier")
        ))?;
    }
    if let Some(invalid) = invalid {
        invalid.print(output)?;
    }
    let caveat = recommended.is_some_and(|recommended| recommended.pattern != "subset");
    advise(output, recommended, caveat.then_some(CAVEAT), "there are no items")?;
    if output.json {
        let summary = Summary::new("analyze", distribution.namespace.as_str())
            .row("pattern", pattern)
            .row("lists", analysis.documents)
            .row("items", analysis.elements)
            .row("left_out", left_out)
            .row("invalid", json!(invalid.map(Invalid::total)))
            .row("invalid_of", json!(invalid.map(|invalid| invalid.checked)))
            .row("item_bytes", distribution.item_bytes.round())
            .row("sample", json!(distribution.sample))
            .row("recommended", json!(recommended.map(|recommended| recommended.pattern)));
        output.summary(&summary, Exit::Success)?;
    }
    Ok(())
}

/// Prints the ranges that have lists, with a bar each.
pub(super) fn histogram(output: Output, ranges: &[LengthRange], lists: u64) -> io::Result<()> {
    let most = ranges.iter().map(|range| range.documents).max().unwrap_or(0).max(1);
    let first = ranges.iter().position(|range| range.documents > 0).unwrap_or(0);
    for range in &ranges[first.min(ranges.len())..] {
        let label = if range.from == range.to {
            grouped(range.from)
        } else {
            format!("{}-{}", grouped(range.from), grouped(range.to))
        };
        // Every range with lists has a bar.
        let bar = (range.documents * BAR).div_ceil(most);
        let bar = "#".repeat(usize::try_from(bar).unwrap_or(0));
        let share = ratio(range.documents * 100, lists);
        output.text(&format!(
            "{label:>17} {:<36} {:>11} {share:>5.1}%",
            style(bar).cyan(),
            grouped(range.documents)
        ))?;
        output.object(&json!({
            "type": "range",
            "from": range.from,
            "to": range.to,
            "lists": range.documents,
            "items": range.elements,
        }))?;
    }
    Ok(())
}

fn table(output: Output, designs: &[Design], threshold: Option<u32>) -> io::Result<()> {
    let configured = threshold.map(|threshold| format!("outlier at {threshold}"));
    output.heading("Estimated size of each design")?;
    let mut table = output::new_table();
    let page = format!("page of {PAGE} reads");
    table.set_header(["", "documents", "data", "indexes", "largest", page.as_str()]);
    for design in designs {
        let bytes = |bytes: u64| size(ratio(bytes, 1));
        let page = format!("{} in {}", bytes(design.page_bytes), design.page_documents);
        table.add_row([
            design.name.clone(),
            grouped(design.documents),
            bytes(design.bytes),
            bytes(design.index_bytes),
            bytes(design.largest),
            page,
        ]);
        output.object(&json!({
            "type": "design",
            "name": design.name,
            "documents": design.documents,
            "bytes": design.bytes,
            "index_bytes": design.index_bytes,
            "largest_document": design.largest,
            "page_documents": design.page_documents,
            "page_bytes": design.page_bytes,
            "configured": configured.as_ref() == Some(&design.name),
        }))?;
    }
    output.table(table)
}

/// Prints the recommendation, its reasons, and what the data does not show.
pub(super) fn advise(
    output: Output,
    recommended: Option<&Recommendation>,
    caveat: Option<&'static str>,
    why_none: &str,
) -> io::Result<()> {
    output.heading("Advice")?;
    let Some(Recommendation { pattern, settings, why }) = recommended else {
        return output.text(&wrapped(&format!("No recommendation: {why_none}."), 0));
    };
    let options: Vec<String> = settings
        .iter()
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    let with = if options.is_empty() { "" } else { " with " };
    let recommended = format!("{}{with}{}, because", style(*pattern).green(), options.join(", "));
    output.text(&wrapped(&recommended, 0))?;
    for reason in why {
        let reason = wrapped(reason, 2);
        output.text(&format!("- {}", reason.trim_start()))?;
    }
    if let Some(caveat) = caveat {
        output.text(&wrapped(caveat, 0))?;
    }
    let settings: serde_json::Map<_, _> = settings
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect();
    output.object(&json!({ "type": "recommendation", "pattern": pattern, "settings": settings, "why": why }))
}
