//! Reads all references, and compares the copies with their sources.
//!
//! # Design
//!
//! ## Why is the comparison not a `$lookup`?
//!
//! A batch of documents and one read of their sources need no join. The copy is read before its source, so a newer copy is
//! never due to the order of the reads.
//!
//! ## Why is every problem read twice?
//!
//! Between two commands of a writer, a copy can be outdated or without a source. A second read, after a pause, only confirms
//! what has not changed.

use std::collections::HashMap;

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::verify::{Results, begin, pause};
use mongo_patterns_core::{Result, send};
use mongodb::bson::{Bson, Document, RawDocumentBuf};

use super::finding::{Finding, Problem};
use crate::form::copy::{Difference, difference, is_deleted};
use crate::form::document::{OtherForm, other_forms, stored_copies};
use crate::form::id::{canonical, distinct};
use crate::query;
use crate::query::{options, scan};
use crate::read::{Invalid, Sources, find_sources_or};
use crate::repository::Shared;
use crate::settings::{ReferenceField, Settings};

/// A finding, and what its repair needs.
#[derive(Clone, Debug)]
pub(crate) struct Found<'a> {
    pub(crate) finding: Finding,
    pub(crate) field: &'a ReferenceField,
    /// Whether the copy is marked as deleted.
    pub(crate) is_deleted: bool,
    /// The version of the copy as it is stored.
    pub(crate) version: Option<Bson>,
}

/// Reads all referring collections.
pub(crate) async fn find_problems<'a>(
    shared: &'a Shared,
    mut reporter: Reporter<'_>,
    mut results: Results<Found<'a>>,
) -> Result<()> {
    let settings = &shared.settings;
    if settings.key.is_some()
        && let Some(mut duplicates) = shared.ensure().find_duplicates(shared.check_indexes().await).await?
    {
        loop {
            let duplicates = duplicates.next_found().await?;
            let problem = Problem::DuplicateSourceKey {
                sources: duplicates.documents,
            };
            let finding = Found {
                finding: Finding::of_duplicates(shared.sources.namespace(), duplicates, problem),
                field: &settings.references[0],
                is_deleted: false,
                version: None,
            };
            results.add(finding).await;
        }
    }
    begin(&mut reporter, &shared.referring).await?;
    for (collection, referring) in shared.referring.iter().enumerate() {
        let fields = || settings.of_collection(collection);
        let options = options::scan(scan::references(fields()));
        let mut rows = send::find_rows(referring, scan::with_any(fields()), options).await?;
        while let Some(batch) = send::next_rows(&mut rows, options::BATCH).await? {
            let first = examine(shared, collection, &batch, Invalid::Fail).await?;
            let confirmed = match first.is_empty() {
                true => first,
                false => confirm(shared, collection, &first, Invalid::Fail).await?.collect(),
            };
            reporter.advance(batch.len() as u64);
            results.add_all(confirmed).await;
        }
    }
    Ok(())
}

/// Reads the documents of problems again after a pause, and returns the problems that are still there.
pub(crate) async fn confirm<'a>(
    shared: &'a Shared,
    collection: usize,
    first: &[Found<'a>],
    invalid: Invalid,
) -> Result<impl Iterator<Item = Found<'a>>> {
    pause().await?;
    let ids = distinct(first.iter().map(|found| &found.finding.document_id));
    let second = examine_ids(shared, collection, &ids, invalid).await?;
    // A document can have very many of them.
    let mut problems: HashMap<_, Vec<Problem>> = HashMap::new();
    for found in first {
        let of_copy = problems.entry(copy_of(&found.finding)).or_default();
        if !of_copy.contains(&found.finding.problem) {
            of_copy.push(found.finding.problem);
        }
    }
    Ok(second.into_iter().filter(move |second| {
        let first = problems.get(&copy_of(&second.finding));
        first.is_some_and(|first| first.iter().any(|first| first.is_confirmed_by(second.finding.problem)))
    }))
}

/// Returns what two findings of one copy have in common.
fn copy_of(finding: &Finding) -> (Vec<String>, String, Option<String>) {
    let source = finding.related_id.as_ref().map(canonical);
    (finding.fields.clone(), canonical(&finding.document_id), source)
}

/// Returns whether a finding is still there. Reads only the copies of its source, and the source.
pub(crate) async fn is_still_there(shared: &Shared, found: &Found<'_>) -> Result<bool> {
    let (field, finding) = (found.field, &found.finding);
    let projection = scan::copies_of(field, finding.related_id.as_ref());
    let ids = std::slice::from_ref(&finding.document_id);
    let now = examine_projected(shared, field.collection, ids, projection, Invalid::Fail).await?;
    Ok(now
        .iter()
        .any(|now| copy_of(&now.finding) == copy_of(finding) && finding.problem.is_confirmed_by(now.finding.problem)))
}

/// Reads documents of a collection by their ids, and returns their problems. Two round trips for up to 1000 sources.
pub(crate) async fn examine_ids<'a>(
    shared: &'a Shared,
    collection: usize,
    ids: &[Bson],
    invalid: Invalid,
) -> Result<Vec<Found<'a>>> {
    let projection = scan::references(shared.settings.of_collection(collection));
    examine_projected(shared, collection, ids, projection, invalid).await
}

async fn examine_projected<'a>(
    shared: &'a Shared,
    collection: usize,
    ids: &[Bson],
    projection: Document,
    invalid: Invalid,
) -> Result<Vec<Found<'a>>> {
    let (filter, options) = (query::by_ids(ids), options::scan(projection));
    let documents = Conn::new()
        .find_all(&shared.referring[collection], filter, options)
        .await?;
    examine(shared, collection, &documents, invalid).await
}

/// Returns the problems of documents of a collection. A copy of a source whose version is invalid has none.
async fn examine<'a>(
    shared: &'a Shared,
    collection: usize,
    documents: &[RawDocumentBuf],
    invalid: Invalid,
) -> Result<Vec<Found<'a>>> {
    let documents = documents
        .iter()
        .map(|document| Document::try_from(document).map_err(CommandError::from));
    let documents: Vec<Document> = documents.collect::<std::result::Result<_, _>>()?;
    let fields = || shared.settings.of_collection(collection);
    let copies = documents
        .iter()
        .flat_map(|document| fields().flat_map(move |field| stored_copies(field, document).0));
    let ids = distinct(copies.filter_map(|copy| copy.get("_id")));
    let sources = find_sources_or(shared, &ids, invalid, &mut Conn::new()).await?;
    let mut findings = Vec::new();
    for document in &documents {
        let document_id = document.get("_id").unwrap_or(&Bson::Null);
        let finding = |field: &'a ReferenceField, copy: Option<&Document>, problem| {
            let namespace = shared.collection_of(field).namespace();
            let mut finding = Finding::new(namespace, document_id.clone(), problem);
            finding.fields = vec![field.name.as_str().to_owned()];
            finding.related_id = copy.and_then(|copy| copy.get("_id").cloned());
            Found {
                finding,
                field,
                is_deleted: copy.is_some_and(is_deleted),
                version: copy.and_then(|copy| copy.get(shared.settings.version.as_str()).cloned()),
            }
        };
        for field in fields() {
            let (copies, has_other) = stored_copies(field, document);
            if has_other {
                let forms = other_forms(field, document).into_iter();
                let problems = forms.map(|form| problem_of_form(&shared.settings, form));
                findings.extend(problems.map(|problem| finding(field, None, problem)));
            }
            for copy in copies {
                if let Some(problem) = problem(shared, field, &sources, copy) {
                    findings.push(finding(field, Some(copy), problem));
                }
            }
        }
    }
    Ok(findings)
}

fn problem_of_form(settings: &Settings, form: OtherForm) -> Problem {
    match form {
        OtherForm::DbRef => Problem::DbRef,
        // It may be one by the source key, which is migrated as ids are.
        OtherForm::WithoutId if settings.key.is_some() => Problem::NotAReference,
        OtherForm::WithoutId => Problem::WithoutId,
        OtherForm::Value => Problem::NotAReference,
    }
}

fn problem(shared: &Shared, field: &ReferenceField, sources: &Sources, copy: &Document) -> Option<Problem> {
    let id = copy.get("_id").unwrap_or(&Bson::Null);
    let Some(source) = sources.get(id) else {
        return (sources.is_missing(id) && !is_deleted(copy)).then_some(Problem::SourceMissing);
    };
    if field.is_snapshot {
        return None;
    }
    let source_version = source.version;
    difference(&shared.settings, field, source, copy).map(|difference| match difference {
        Difference::NoVersion => Problem::VersionMissing,
        Difference::Older(version) => Problem::Stale {
            version,
            source_version,
        },
        Difference::Newer(version) => Problem::NewerThanSource {
            version,
            source_version,
        },
        Difference::Values => Problem::Differs,
    })
}
