//! Copies in referring documents that were changed.

use std::collections::HashMap;

use futures::{StreamExt, TryStreamExt, stream};
use mongo_patterns_core::Result;
use mongo_patterns_core::conn::Conn;
use mongodb::bson::Bson;

use super::{CONCURRENCY, of_source};
use crate::form::copy::version_of;
use crate::form::id::canonical;
use crate::form::source::Source;
use crate::query;
use crate::query::options;
use crate::read::{Invalid, find_sources_or};
use crate::repair::finding::Problem;
use crate::repair::scan::{Found, confirm, examine_ids};
use crate::repair::{overwrite, release, remove_version};
use crate::repository::Shared;
use crate::results::OnReferences;
use crate::settings::ReferenceField;
use crate::write::source::change;
use crate::write::sweep::{sweep, sweep_field, unmark_deleted};

/// The problems of the copies of one source.
struct OfSource<'a> {
    id: Bson,
    /// The version above which the source's version is raised.
    above: Option<u64>,
    is_deleted: bool,
    fields: Vec<&'a ReferenceField>,
    invalid: Vec<Found<'a>>,
    /// Those with the version of the source and other values.
    differing: Vec<Found<'a>>,
}

/// Compares documents of a collection with their sources, and updates copies that are not current. Returns the number of
/// changed documents, for each reference.
pub(super) async fn correct(shared: &Shared, collection: usize, ids: &[Bson], rule: OnReferences) -> Result<u64> {
    let mut copies = 0;
    for ids in ids.chunks(options::BATCH) {
        let findings = examine_ids(shared, collection, ids, Invalid::Skip).await?;
        let is_missing = |findings: &Found<'_>| findings.finding.problem == Problem::SourceMissing;
        let (missing, differing): (Vec<_>, Vec<_>) = findings.into_iter().partition(is_missing);
        if rule != OnReferences::Restrict && !missing.is_empty() {
            // A program may insert a document before its source.
            for findings in confirm(shared, collection, &missing, Invalid::Skip).await? {
                copies += u64::from(release(shared, &findings, rule).await?);
            }
        }
        copies += copy_again(shared, differing).await?;
    }
    Ok(copies)
}

/// Copies each source again, once for all of its findings.
async fn copy_again(shared: &Shared, findings: Vec<Found<'_>>) -> Result<u64> {
    let mut of_sources: HashMap<String, OfSource<'_>> = HashMap::new();
    for findings in findings {
        // Other values than references have no source.
        let Some(id) = findings.finding.related_id.clone() else {
            continue;
        };
        let of_source = of_sources.entry(canonical(&id)).or_insert_with(|| OfSource {
            id,
            above: None,
            is_deleted: false,
            fields: Vec::new(),
            invalid: Vec::new(),
            differing: Vec::new(),
        });
        of_source.add(findings);
    }
    let ids: Vec<Bson> = of_sources.values().map(|of_source| of_source.id.clone()).collect();
    let sources = &find_sources_or(shared, &ids, Invalid::Skip, &mut Conn::new()).await?;
    let copied = of_sources.into_values().map(|differing| async move {
        match sources.get(&differing.id) {
            Some(source) => of_source(shared, differing.copy_again(shared, source).await, &source.id),
            None => Ok(0),
        }
    });
    let copied = stream::iter(copied.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY);
    copied.try_fold(0, |sum, copies| async move { Ok(sum + copies) }).await
}

impl<'a> OfSource<'a> {
    fn add(&mut self, findings: Found<'a>) {
        let above = match findings.finding.problem {
            // Without the mark it may not differ. To remove it is a change of its document.
            Problem::Differs if findings.is_deleted => None,
            Problem::Differs => findings.version.as_ref().and_then(version_of),
            Problem::NewerThanSource { version, .. } => Some(version),
            _ => None,
        };
        self.above = self.above.max(above);
        self.is_deleted |= findings.is_deleted;
        if !self.fields.iter().any(|field| field.name == findings.field.name) {
            self.fields.push(findings.field);
        }
        // A sweep takes any other value for an older version.
        let is_number = matches!(
            findings.version,
            Some(Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_))
        );
        match findings.finding.problem {
            Problem::VersionMissing if is_number => self.invalid.push(findings),
            Problem::Differs => self.differing.push(findings),
            _ => {}
        }
    }

    async fn copy_again(self, shared: &Shared, source: &Source) -> Result<u64> {
        for findings in &self.invalid {
            remove_version(shared, findings).await?;
        }
        let mut copies = 0;
        let has_history = shared.has_history().await?;
        if has_history {
            for findings in &self.differing {
                copies += u64::from(overwrite(shared, findings, source).await?);
            }
        }
        match self.above.filter(|_| !has_history) {
            None => {
                for field in self.fields {
                    copies += sweep_field(shared, field, source, &mut Conn::new()).await?;
                }
            }
            Some(above) => {
                let raise = query::raise_version(&shared.settings, Some(above));
                let Some(raised) = change(shared, &self.id, raise, &mut Conn::new()).await? else {
                    return Ok(0); // it was deleted, which is a change too
                };
                copies += sweep(shared, &raised, &mut Conn::new()).await?;
            }
        }
        if self.is_deleted {
            let unmarked = unmark_deleted(shared, &self.id, &mut Conn::new()).await?;
            copies += unmarked.unwrap_or_default();
        }
        Ok(copies)
    }
}
