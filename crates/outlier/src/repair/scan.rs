//! Reads the summaries of lists, of all or of one.
//!
//! # Design
//!
//! ## Why is every finding read twice more?
//!
//! An aggregation does not read all documents at one moment, and a push of another process can be between two commands. Two
//! further reads, 50 milliseconds apart, must report the same.
//!
//! ## Why does a verify wait for the pushes of its process?
//!
//! A push unlocks its document between the flag and the overflow documents. Two reads could each meet a push there. So a
//! push has a second lock from its first command to its last, and a verify takes that one first.

use std::pin::Pin;

use futures::future::ready;
use futures::stream::once;
use futures::{Stream, StreamExt, TryStreamExt};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::migration::Step;
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::send::Rows;
use mongo_patterns_core::settings::configuration;
use mongo_patterns_core::verify::{confirmed, pause};
use mongo_patterns_core::{DocumentId, Error, Result, document_id};
use mongodb::bson::{Bson, RawDocument};
use mongodb::options::AggregateOptions;

use crate::query::{self, Names};
use crate::read::find;
use crate::repair::check::{Summary, check};
use crate::repair::finding::Finding;
use crate::repository::Shared;

pub(crate) type Summaries<'a> = Pin<Box<dyn Stream<Item = Result<Summary>> + Send + 'a>>;

/// The read of the summaries of all lists that may need a repair or have overflow documents.
fn scan(shared: &Shared) -> Step {
    let pipeline = query::summaries(&shared.settings, names(shared), None);
    let read = Step::aggregate("read the summaries of lists", &shared.main, pipeline);
    read.own_collation().in_order_of(["_id"])
}

fn of_rows(rows: Rows) -> impl Stream<Item = Result<Summary>> + Send {
    rows.map_ok(|row| Summary::of_row(&row)).map_err(Error::from)
}

/// Reads these summaries, and reports their number to a progress callback.
pub(crate) async fn summaries_with_progress<'a>(
    shared: &'a Shared,
    conn: &mut Conn<'_>,
    mut reporter: Reporter<'a>,
) -> Result<Summaries<'a>> {
    if reporter.is_asked() {
        let filter = query::may_need_repair(&shared.settings);
        reporter.begin(Conn::new().count_documents(&shared.main, filter, None).await?);
    }
    let rows = conn.stream(scan(shared)).await?;
    Ok(Box::pin(of_rows(rows).inspect_ok(move |_| reporter.advance(1))))
}

fn names(shared: &Shared) -> Names<'_> {
    Names {
        main: shared.main.name(),
        overflow: shared.overflow.name(),
    }
}

/// Reads the summary of one list from the primary. Where elements are unique, it counts duplicates by an aggregation, which
/// two databases do not allow.
pub(crate) async fn summary_with_duplicates(shared: &Shared, id: &Bson) -> Result<Summary> {
    if !shared.settings.unique || check_databases(shared).is_err() {
        let summary = summary_in(&mut Conn::new(), shared, id).await?;
        return Ok(summary.unwrap_or_else(|| empty(id)));
    }
    let pipeline = query::summaries(&shared.settings, names(shared), Some(id));
    let options = AggregateOptions::builder().allow_disk_use(true).build();
    let rows = Conn::new().aggregate_all(&shared.main, pipeline, options).await?;
    Ok(Summary {
        id: id.clone(),
        ..rows.first().map_or_else(|| empty(id), |row| Summary::of_row(row))
    })
}

/// Reads the summary of one list. `None` in a plan, which only lists the reads.
pub(crate) async fn summary_in(conn: &mut Conn<'_>, shared: &Shared, id: &Bson) -> Result<Option<Summary>> {
    let (main, overflow, settings) = shared.parts();
    let projection = Some(query::main_summary(settings));
    let read = find("check the main document", main, query::by_id(id), projection);
    let main = conn.read_written(read).await?;
    let projection = Some(query::overflow_summary(settings));
    let filter = query::true_overflow_of(settings, id);
    let read = find("check its overflow documents", overflow, filter, projection);
    let overflow = conn.read_written(read).await?;
    Ok(main
        .zip(overflow)
        .map(|(main, overflow)| Summary::of_rows(id.clone(), main.documents.first(), &overflow.documents)))
}

fn empty(id: &Bson) -> Summary {
    let none: [&RawDocument; 0] = [];
    Summary::of_rows(id.clone(), None, &none)
}

/// Checks that the lists can be read: one, or all, which takes an aggregation.
pub(crate) fn readable(shared: &Shared, id: Result<Option<DocumentId>>) -> Result<Option<DocumentId>> {
    let id = id?;
    if id.is_none() {
        check_databases(shared)?;
    }
    Ok(id)
}

/// Reads the summaries of lists with problems: of one list, or of all.
pub(crate) fn suspects<'a>(shared: &'a Shared, id: Option<DocumentId>, reporter: Reporter<'a>) -> Summaries<'a> {
    let summaries: Summaries<'_> = match id {
        None => {
            let start = async move { summaries_with_progress(shared, &mut Conn::new(), reporter).await };
            Box::pin(once(start).try_flatten())
        }
        Some(id) => Box::pin(once(async move { summary_with_duplicates(shared, id.value()).await })),
    };
    Box::pin(summaries.try_filter(move |summary| ready(!check(&shared.settings, summary).is_empty())))
}

/// Returns the findings that two further reads confirm, the second of them somewhat later.
pub(crate) async fn confirm(shared: &Shared, summary: &Summary) -> Result<Vec<Finding>> {
    let mut findings = check(&shared.settings, summary);
    for is_later in [false, true] {
        if findings.is_empty() {
            break;
        }
        if is_later {
            pause().await?;
        }
        let _lane = shared.lanes.enter(&document_id::canonical(&summary.id)).await;
        let again = summary_with_duplicates(shared, &summary.id).await?;
        let found = check(&shared.settings, &again);
        // The aggregation does not distinguish a main document without a flag from a missing one.
        findings = match is_later || summary.main.is_some() {
            true => confirmed(&findings, found),
            false => found,
        };
    }
    Ok(findings)
}

/// Ends a stream after its first error.
pub(crate) fn until_error<'a, T: Send + 'a>(
    stream: impl Stream<Item = Result<T>> + Send + 'a,
) -> Pin<Box<dyn Stream<Item = Result<T>> + Send + 'a>> {
    let mut failed = false;
    Box::pin(stream.take_while(move |item| {
        let continues = !failed;
        failed |= item.is_err();
        ready(continues)
    }))
}

/// Checks that one aggregation can read both collections.
pub(crate) fn check_databases(shared: &Shared) -> Result<()> {
    if shared.main.namespace().db == shared.overflow.namespace().db {
        return Ok(());
    }
    Err(configuration(
        "main documents and overflow documents are in two databases, which no aggregation reads together: put them into one",
    ))
}
