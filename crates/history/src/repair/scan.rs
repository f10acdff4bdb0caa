//! Reads all documents and revisions.
//!
//! # Design
//!
//! ## Why is every suspect examined by itself?
//!
//! Two cursors do not read all documents at one moment, and writers and prunes are concurrent. So a scan only collects
//! suspects, and [`examine`](super::examine) reads each of them in an order that writers cannot disturb.

use std::collections::{HashSet, VecDeque};

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::index::{Duplicates, FindDuplicates};
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::send::Rows;
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
pub(crate) struct Scan<'a> {
    shared: &'a Shared,
    reporter: Reporter<'a>,
    phase: Phase,
    /// The documents to examine.
    suspects: VecDeque<Bson>,
    /// The documents that were examined, by the texts of their ids.
    examined: HashSet<String>,
}

enum Phase {
    Start,
    /// Without the indexes: the documents that prevent them.
    Duplicates(FindDuplicates),
    /// The current documents, each of which must equal its copy.
    Current(Rows),
    /// The revisions, with the last one that was read.
    Revisions(Rows, Option<Last>),
    End,
}

/// The last revision that a scan has read.
struct Last {
    id: Bson,
    head: Option<Head>,
    is_suspect: bool,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(shared: &'a Shared, reporter: Reporter<'a>) -> Self {
        Self {
            shared,
            reporter,
            phase: Phase::Start,
            suspects: VecDeque::new(),
            examined: HashSet::new(),
        }
    }

    /// Returns the problems of a suspect.
    async fn examine(&mut self, id: Bson) -> Result<Vec<Finding>> {
        if !self.examined.insert(document_id::text(&id)) {
            return Ok(Vec::new());
        }
        let problems = examine(self.shared, &id).await?.into_iter();
        let namespace = self.shared.current.namespace();
        Ok(problems
            .map(|problem| Finding::new(namespace.clone(), id.clone(), problem))
            .collect())
    }

    async fn start(&mut self) -> Result<()> {
        let (current, revisions, settings) = (&self.shared.current, &self.shared.revisions, &self.shared.settings);
        if let Some(duplicates) = self.shared.find_duplicates().await? {
            self.phase = Phase::Duplicates(duplicates);
            return Ok(());
        }
        if self.reporter.is_asked() {
            let documents = send::estimated_count(current).await?;
            let copies = send::estimated_count(revisions).await?;
            self.reporter.begin(documents + copies);
        }
        let options = options::scan(&settings.current_index);
        self.phase = Phase::Current(send::aggregate_rows(current, scan::current(settings), options).await?);
        Ok(())
    }

    /// Compares a batch of current documents with their copies.
    async fn read_current(&mut self) -> Result<()> {
        let Phase::Current(rows) = &mut self.phase else {
            return Ok(());
        };
        let settings = &self.shared.settings;
        let batch = send::next_rows(rows, BATCH).await?;
        if batch.is_empty() {
            let options = options::scan(&settings.revision_index);
            let rows = send::aggregate_rows(&self.shared.revisions, scan::chain(settings, None), options).await?;
            self.phase = Phase::Revisions(rows, None);
            return Ok(());
        }
        let documents = batch
            .iter()
            .map(|row| (id_in(settings, row), Head::read(settings, row), row));
        let documents: Vec<_> = documents.collect();
        let heads = documents.iter().filter_map(|(id, head, _)| Some((id, (*head)?)));
        let copies = match heads.clone().next() {
            Some(_) => find(&self.shared.revisions, scan::copies(settings, heads)).await?,
            None => Vec::new(),
        };
        for (id, head, row) in &documents {
            let own = |copy: &&RawDocumentBuf| {
                let copied = Head::read(settings, copy).map(|copied| copied.revision);
                copied == head.map(|head| head.revision) && id_of_revision(settings, copy) == *id
            };
            let is_correct = match (head, copies.iter().find(own)) {
                (Some(_), Some(copy)) => !has_field_of_revisions(settings, row) && is_copy(settings, row, copy)?,
                _ => false,
            };
            if !is_correct {
                self.suspects.push_back(id.clone());
            }
        }
        self.reporter.advance(batch.len() as u64);
        Ok(())
    }

    /// Compares a batch of revisions with each other, and the newest ones with their current documents.
    async fn read_revisions(&mut self) -> Result<()> {
        let Phase::Revisions(rows, last) = &mut self.phase else {
            return Ok(());
        };
        let settings = &self.shared.settings;
        let batch = send::next_rows(rows, BATCH).await?;
        let mut newest = Vec::new();
        for row in &batch {
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
        if batch.is_empty() {
            newest.extend(last.take());
            self.phase = Phase::End;
        }
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
                self.suspects.push_back(last.id);
            }
        }
        self.reporter.advance(batch.len() as u64);
        Ok(())
    }
}

impl mongo_patterns_core::verify::Scan for Scan<'_> {
    type Found = Finding;

    async fn next(&mut self) -> Result<Option<Vec<Finding>>> {
        if let Some(id) = self.suspects.pop_front() {
            return self.examine(id).await.map(Some);
        }
        match &mut self.phase {
            Phase::Start => self.start().await?,
            Phase::Duplicates(duplicates) => {
                let duplicates_of_id = duplicates.next_found().await?;
                return Ok(Some(vec![duplicate(self.shared, duplicates_of_id)]));
            }
            Phase::Current(_) => self.read_current().await?,
            Phase::Revisions(..) => self.read_revisions().await?,
            Phase::End => return Ok(None),
        }
        Ok(Some(Vec::new()))
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
