//! Reads all documents and revisions.
//!
//! # Design
//!
//! ## Why is every suspect examined by itself?
//!
//! Two cursors do not read all documents at one moment. So a scan only collects suspects, and [`examine`](super::examine)
//! reads each in an order that writers cannot disturb.

use std::collections::HashSet;

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::index::Duplicates;
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::verify::{Results, begin};
use mongo_patterns_core::{Result, document_id, send};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocumentBuf};

use super::examine::{between, examine, has_field_of_revisions};
use super::finding::{Finding, Problem};
use crate::form::document::{Head, id_in, id_of_revision, is_copy};
use crate::query::{options, scan};
use crate::repository::Shared;

/// How many documents are compared by one command.
const BATCH: usize = 100;

/// A scan of both collections.
struct Scan<'a> {
    shared: &'a Shared,
    reporter: Reporter<'a>,
    results: Results<Finding>,
    /// The documents that were examined, by the texts of their ids.
    examined: HashSet<String>,
}

/// The last revision that a scan has read.
struct Last {
    id: Bson,
    head: Option<Head>,
    is_suspect: bool,
}

/// Reads both collections, and examines the documents that seem to have a problem.
pub(crate) async fn find_problems<'a>(
    shared: &'a Shared,
    mut reporter: Reporter<'a>,
    mut results: Results<Finding>,
) -> Result<()> {
    let (current, revisions, settings) = (&shared.current, &shared.revisions, &shared.settings);
    if let Some(mut duplicates) = shared.find_duplicates().await? {
        loop {
            let duplicates_of_id = duplicates.next_found().await?;
            results.add(duplicate(shared, duplicates_of_id)).await;
        }
    }
    begin(&mut reporter, [current, revisions]).await?;
    let mut scan = Scan {
        shared,
        reporter,
        results,
        examined: HashSet::new(),
    };
    let options = options::scan(&settings.current_index);
    let mut rows = send::aggregate_rows(current, scan::current(settings), options).await?;
    while let Some(batch) = send::next_rows(&mut rows, BATCH).await? {
        scan.compare_current(&batch).await?;
    }
    let options = options::scan(&settings.revision_index);
    let mut rows = send::aggregate_rows(revisions, scan::chain(settings, None), options).await?;
    let mut last = None;
    while let Some(batch) = send::next_rows(&mut rows, BATCH).await? {
        scan.compare_revisions(&batch, &mut last).await?;
    }
    scan.compare_newest(last.into_iter().collect()).await
}

impl Scan<'_> {
    /// Examines suspects, each once.
    async fn examine(&mut self, suspects: Vec<Bson>) -> Result<()> {
        for id in suspects {
            if self.examined.insert(document_id::canonical(&id)) {
                let problems = examine(self.shared, &id).await?.into_iter();
                let namespace = self.shared.current.namespace();
                let findings = problems.map(|problem| Finding::new(namespace.clone(), id.clone(), problem));
                self.results.add_all(findings).await;
            }
        }
        Ok(())
    }

    /// Compares a batch of current documents with their copies.
    async fn compare_current(&mut self, batch: &[RawDocumentBuf]) -> Result<()> {
        let settings = &self.shared.settings;
        let documents = batch
            .iter()
            .map(|row| (id_in(settings, row), Head::read(settings, row), row));
        let documents: Vec<_> = documents.collect();
        let heads = documents.iter().filter_map(|(id, head, _)| Some((id, (*head)?)));
        let copies = match heads.clone().next() {
            Some(_) => find(&self.shared.revisions, scan::copies(settings, heads)).await?,
            None => Vec::new(),
        };
        let mut suspects = Vec::new();
        for (id, head, row) in &documents {
            let own = |copy: &&RawDocumentBuf| {
                let copied = Head::read(settings, copy).map(|copied| copied.revision);
                copied == head.map(|head| head.revision) && id_of_revision(settings, copy) == *id
            };
            let is_correct = match (head, copies.iter().find(own)) {
                (Some(_), Some(copy)) => {
                    !has_field_of_revisions(settings, row) && is_copy(settings, &self.shared.known_others(), row, copy)?
                }
                _ => false,
            };
            if !is_correct {
                suspects.push(id.clone());
            }
        }
        self.reporter.advance(batch.len() as u64);
        self.examine(suspects).await
    }

    /// Compares a batch of revisions with each other, and the newest with their current documents.
    async fn compare_revisions(&mut self, batch: &[RawDocumentBuf], last: &mut Option<Last>) -> Result<()> {
        let settings = &self.shared.settings;
        let mut newest = Vec::new();
        for row in batch {
            let (id, head) = (id_of_revision(settings, row), Head::read(settings, row));
            match last.as_mut().filter(|last| last.id == id) {
                Some(last) => {
                    last.is_suspect |= match (last.head, head) {
                        (Some(previous), Some(head)) => between(previous, head).next().is_some(),
                        _ => true,
                    };
                    last.head = head;
                }
                None => {
                    let is_suspect = head.is_none();
                    newest.extend(last.replace(Last { id, head, is_suspect }));
                }
            }
        }
        self.reporter.advance(batch.len() as u64);
        self.compare_newest(newest).await
    }

    /// Compares the newest revisions with their current documents.
    async fn compare_newest(&mut self, newest: Vec<Last>) -> Result<()> {
        let settings = &self.shared.settings;
        let mut suspects = Vec::new();
        let current = match newest.is_empty() {
            true => Vec::new(),
            false => {
                let filter = scan::current_of(settings, newest.iter().map(|last| &last.id));
                find(&self.shared.current, filter).await?
            }
        };
        for last in newest {
            let current = current.iter().find(|current| id_in(settings, current) == last.id);
            let current = current.map(|current| Head::read(settings, current));
            let is_correct = match (current, last.head) {
                (Some(Some(current)), Some(head)) => {
                    current.revision == head.revision || current.revision == head.revision + 1
                }
                (None, Some(head)) => head.is_deleted,
                _ => false,
            };
            if last.is_suspect || !is_correct {
                suspects.push(last.id);
            }
        }
        self.examine(suspects).await
    }
}

/// Returns the finding of documents that violate one of the unique indexes.
fn duplicate(shared: &Shared, found: Duplicates) -> Finding {
    let number = found.documents;
    let problem = match found.index == shared.settings.current_index {
        true => Problem::DuplicateId { documents: number },
        false => Problem::DuplicateRevision { revisions: number },
    };
    Finding::of_duplicates(shared.current.namespace(), found, problem)
}

async fn find(collection: &Collection<RawDocumentBuf>, filter: Document) -> Result<Vec<RawDocumentBuf>> {
    Ok(Conn::new().find_all(collection, filter, None).await?)
}
