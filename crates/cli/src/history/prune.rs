//! Deletes old revisions.

use mongo_patterns_history::RevisionToken;
use mongodb::bson::{Bson, doc};

use super::read::{NO_DOCUMENT, missing, parsed};
use super::{Work, id_of_revision};
use crate::args::PruneOptions;
use crate::confirm::confirmed;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Summary, counted};
use crate::selection::id;
use crate::settings::HistorySettings;

impl Work<'_> {
    /// Deletes the oldest revisions of a document.
    pub(super) async fn prune(&self, options: &PruneOptions, settings: &HistorySettings) -> Outcome {
        let (documents, id) = (&self.documents, id(&options.document)?);
        let time = options.before.as_deref();
        let time = time.map(|time| parsed("--before", time)).transpose()?;
        let keep_last = options.keep_last.unwrap_or(1);
        let first = match time {
            Some(time) => documents.as_of(id.clone(), time).await?.map(|kept| kept.revision),
            None => {
                let newest = documents.revisions(id.clone()).newest_first().limit(1).page().await?;
                let newest = newest.items.first().map(|newest| newest.revision);
                newest.map(|newest| newest.saturating_sub(keep_last - 1))
            }
        };
        // The first revision can be a later one.
        let before = first.unwrap_or(0).checked_sub(1).map(|before| before.to_string());
        let before = before.map(|before| before.parse::<RevisionToken>()).transpose()?;
        let left = documents.revisions(id.clone()).after(before).limit(1).page().await?;
        let Some(first) = left.items.first().map(|left| left.revision) else {
            return Err(missing(NO_DOCUMENT));
        };
        let revisions = documents.revisions_collection();
        let older = doc! {
            id_of_revision(settings)?: { "$eq": &id },
            settings.revision.as_deref().unwrap_or("revision"): { "$lt": Bson::Int64(i64::try_from(first).unwrap_or(i64::MAX)) },
        };
        let older = revisions.count_documents(older).await;
        let mut deleted = older.map_err(Failure::on(revisions.namespace()))?;
        let is_dry_run = options.dry_run.dry_run;
        if !is_dry_run && deleted > 0 {
            let consequence = format!(
                "{} of the document, those before {first}, {} deleted for good",
                counted(deleted, "revision"),
                if deleted == 1 { "is" } else { "are" }
            );
            confirmed(self.context.output, options.confirmation, &consequence).await?;
            deleted = match time {
                Some(time) => documents.delete_before(id, time).await?,
                None => documents.keep_last(id, keep_last).await?,
            }
            .documents;
        }
        let (verb, row) = match is_dry_run {
            true => ("prune --dry-run", "to_delete"),
            false => ("prune", "deleted"),
        };
        let summary = Summary::of(documents, verb).row(row, deleted).row("first_left", first);
        self.context.output.summary(&summary, Exit::Success)?;
        Ok(Exit::Success)
    }
}
