//! Repairs a list without a transaction, by single commands each of which is safe on its own.

use crate::repair::finding::{Finding, Problem, Repaired, Unrepaired};
use crate::repair::rewrite::flag_if_overflow;
use crate::repository::prelude::*;

/// The repair of one list.
struct Repairs<'a> {
    shared: &'a Shared,
    delete_orphans: bool,
    repaired: Repaired,
}

/// Repairs the findings of one list, as far as that needs no transaction.
pub(crate) async fn repair(
    shared: &Shared,
    id: Bson,
    findings: Vec<Finding>,
    delete_orphans: bool,
) -> Result<Repaired> {
    // A push that has seen the flag unlocks the document before it opens overflow documents. Without the flag, elements
    // that other pushes add to those would be acknowledged before a reader of the flag sees them.
    let _locked = shared.lock_after_pushes(&id).await;
    let is_orphaned = findings.iter().any(|finding| finding.problem == Problem::Orphaned);
    let repaired = Repaired {
        id,
        findings: Vec::new(),
        main_modified: false,
        written: 0,
        removed: 0,
        unrepaired: None,
    };
    let mut repairs = Repairs {
        shared,
        delete_orphans,
        repaired,
    };
    for finding in &findings {
        if is_orphaned && finding.problem != Problem::Orphaned {
            continue;
        }
        let left = repairs.repair(finding).await?;
        // What the user must do by hand comes first.
        if matches!(repairs.repaired.unrepaired, None | Some(Unrepaired::NeedsTransaction)) {
            repairs.repaired.unrepaired = left.or(repairs.repaired.unrepaired);
        }
    }
    Ok(Repaired {
        findings,
        ..repairs.repaired
    })
}

impl Repairs<'_> {
    /// Returns why the finding is left.
    async fn repair(&mut self, finding: &Finding) -> Result<Option<Unrepaired>> {
        let settings = &self.shared.settings;
        let by_id = query::by_id(&self.repaired.id);
        match finding.problem {
            Problem::Orphaned if self.delete_orphans => self.delete_orphan(&finding.document_id).await?,
            Problem::Orphaned => return Ok(Some(Unrepaired::Orphaned)),
            Problem::FlagNotBoolean | Problem::FlagWithoutOverflow => {
                self.update_main(by_id, query::clear_flag(settings)).await?;
                // A push that set the flag first may have opened overflow documents after they were read.
                flag_if_overflow(&mut Steps::run(), self.shared, &self.repaired.id).await?;
            }
            Problem::OverflowWithoutFlag { .. } => self.update_main(by_id, query::set_flag(settings)).await?,
            Problem::Count { .. } => return self.recount(&finding.document_id).await,
            Problem::ArrayNull => {
                let with_null = query::with_null(settings, &self.repaired.id);
                self.update_main(with_null, query::set_empty_array(settings)).await?;
            }
            Problem::ArrayNotArray => return Ok(Some(Unrepaired::ArrayNotArray)),
            Problem::ElementsNotArray => return Ok(Some(Unrepaired::ElementsNotArray)),
            Problem::OverThreshold { .. }
            | Problem::DuplicateElements { .. }
            | Problem::TooManyElements { .. }
            | Problem::PositionMissing
            | Problem::DuplicatePosition
            | Problem::Gap { .. } => return Ok(Some(Unrepaired::NeedsTransaction)),
        }
        Ok(None)
    }

    async fn update_main(&mut self, filter: Document, update: Document) -> Result<()> {
        let updated = self.shared.main.update_one(filter, update).await?;
        self.repaired.main_modified |= updated.modified_count > 0;
        Ok(())
    }

    async fn recount(&mut self, document_id: &Bson) -> Result<Option<Unrepaired>> {
        let Shared { overflow, settings, .. } = self.shared;
        let filter = query::overflow_one(settings, &self.repaired.id, document_id);
        match overflow.update_one(filter, query::recount(settings).to_vec()).await {
            Ok(updated) => self.repaired.written += updated.modified_count,
            // Elements are unique, and another overflow document has one of them.
            Err(error) if duplicate_key(&error).is_some() => return Ok(Some(Unrepaired::NeedsTransaction)),
            Err(error) => return Err(error.into()),
        }
        Ok(None)
    }

    /// Deletes an overflow document, unless a main document was inserted or elements were pushed concurrently.
    async fn delete_orphan(&mut self, document_id: &Bson) -> Result<()> {
        let (main, overflow, settings) = self.shared.parts();
        let filter = query::overflow_one(settings, &self.repaired.id, document_id);
        let Some(orphan) = overflow.find_one(filter).await.map_err(CommandError::of_read)? else {
            return Ok(());
        };
        let main = main
            .find_one(query::by_id(&self.repaired.id))
            .projection(query::id_only());
        if main.await.map_err(CommandError::of_read)?.is_some() {
            return Ok(());
        }
        let elements: Option<Bson> = match orphan.get(settings.extras.as_str()) {
            Ok(Some(elements)) => Some(elements.try_into().map_err(CommandError::from)?),
            _ => None,
        };
        // By its elements, because a push to a new document with this `_id` would fill it.
        let unchanged = query::overflow_unchanged(settings, &self.repaired.id, document_id, elements);
        self.repaired.removed += overflow.delete_one(unchanged).await?.deleted_count;
        Ok(())
    }
}
