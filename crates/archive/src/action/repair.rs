#[allow(unused_imports)] // the documentation links to them
use mongo_patterns_core::ErrorKind::{SettingsMismatch, TooLarge};
use mongo_patterns_core::action::ActionStream;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::document_id::{by_id, canonical};
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::verify::{checked, each, scan};
use mongo_patterns_core::{Result, transaction};
use mongodb::Collection;
use mongodb::bson::{Bson, RawDocument, RawDocumentBuf};

use super::verify::find_problems;
use crate::finding::{Finding, Problem, Repaired, Unrepaired};
use crate::related;
use crate::repository::{Archive, Shared};

/// Which of two documents with one `_id` a repair keeps; see [`RepairArchive::keep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The one in the collection.
    Current,
    /// The one in the archive.
    Archived,
}

impl<D> Archive<D> {
    /// Repairs what [`verify`](Self::verify) finds: of two documents with one `_id`, it deletes the older one, by the age field.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(archive: mongo_patterns::archive::Archive<()>) -> mongo_patterns::Result<()> {
    /// let mut repairs = archive.repair().dry_run().stream();
    /// while let Some(repaired) = repairs.try_next().await? {
    ///     println!("{}: {:?}", repaired.findings[0].document_id, repaired.unrepaired);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Of two documents with equal bytes, it deletes the archived one. It leaves all other findings, which need a decision:
    /// two that differ without an order by age, and an older one with [related](crate::ArchiveBuilder::related) documents,
    /// unless you [choose](RepairArchive::keep).
    ///
    /// # Cost
    /// As [`verify`](Self::verify), and four round trips for each repaired document.
    ///
    /// # Cancel safety
    /// A document is deleted or not. Call it again.
    ///
    /// # Errors
    /// - [`SettingsMismatch`]: also if the catalog has no entry.
    /// - [`TooLarge`]: a document has too many [related](crate#related-documents) ones.
    pub fn repair(&self) -> RepairArchive<'_> {
        RepairArchive::create(self.shared(), None)
    }
}

mongo_patterns_core::action! {
    /// Repairs an archive; returned by [`Archive::repair`].
    pub struct RepairArchive<'a> {
        shared: &'a Shared,
        keep: Option<Keep>,
    }
    with dry_run, on_progress;

    /// Chooses the document that stays of two with one `_id`. The second document is deleted, whatever its content and age
    /// is, with its [related](crate::ArchiveBuilder::related) documents beside it.
    keep(copy: Keep) => keep = Some(copy);
}

impl<'a> RepairArchive<'a> {
    /// Returns the stream. It does nothing before it is polled.
    pub fn stream(self) -> ActionStream<'a, Repaired> {
        let (shared, keep, dry_run) = (self.shared, self.keep, self.dry_run);
        let reporter = Reporter::new(self.on_progress);
        let found = scan(move |results| find_problems(shared, reporter, results));
        let repairs = each(found, 1, move |finding| {
            Box::pin(repair(shared, finding, keep, dry_run))
        });
        checked(shared.ensure(), "repair", dry_run, Ok(repairs))
    }
}

/// What is done about two documents with one `_id`.
enum Resolved {
    /// One document is deleted.
    Deleted,
    Left(Unrepaired),
    /// There are not two any more.
    Gone,
}

/// Repairs a finding, or returns what a repair would do.
async fn repair(shared: &Shared, finding: Finding, keep: Option<Keep>, dry_run: bool) -> Result<Option<Repaired>> {
    let unrepaired = match finding.problem {
        Problem::InBoth => {
            let resolved = match dry_run {
                true => resolve(shared, &finding.document_id, keep, None).await?,
                false => resolve_together(shared, &finding.document_id, keep).await?,
            };
            match resolved {
                Resolved::Deleted => None,
                Resolved::Left(unrepaired) => Some(unrepaired),
                Resolved::Gone => return Ok(None),
            }
        }
        Problem::Refused => Some(Unrepaired::Refused),
        Problem::Elsewhere => Some(Unrepaired::Elsewhere),
        Problem::NoDate => Some(Unrepaired::NoDate),
    };
    let mut repaired = Repaired::new(vec![finding], unrepaired);
    repaired.deleted = u64::from(repaired.unrepaired.is_none());
    Ok(Some(repaired))
}

async fn resolve_together(shared: &Shared, id: &Bson, keep: Option<Keep>) -> Result<Resolved> {
    shared.check_parts().await?;
    let mut conn = Conn::enter(None, &shared.lanes, &canonical(id)).await?;
    let context = (shared, id, keep);
    transaction::run(
        &shared.archived,
        &shared.retry,
        &mut conn,
        context,
        |conn, (shared, id, keep)| Box::pin(resolve(shared, id, *keep, Some(conn))),
    )
    .await
}

/// Deletes one of two documents, or returns what would be done without a transaction.
async fn resolve(
    shared: &Shared,
    id: &Bson,
    keep: Option<Keep>,
    transaction: Option<&mut Conn<'_>>,
) -> Result<Resolved> {
    let (is_dry_run, mut reads) = (transaction.is_none(), Conn::new());
    let conn = transaction.unwrap_or(&mut reads);
    let current = conn.find_one(&shared.current, by_id(id), None).await?;
    let archived = conn.find_one(&shared.archived, by_id(id), None).await?;
    let (Some(current), Some(archived)) = (current, archived) else {
        return Ok(Resolved::Gone);
    };
    let Some(kept) = keep.or_else(|| newer(&current, &archived, shared.age_field())) else {
        return Ok(Resolved::Left(Unrepaired::SameAge));
    };
    let (document, from): (RawDocumentBuf, &Collection<RawDocumentBuf>) = match kept {
        Keep::Current => (archived, &shared.archived),
        Keep::Archived => (current, &shared.current),
    };
    let related = shared.related.measure(&[document], kept == Keep::Current, conn).await;
    let related = related.map_err(|error| error.of_collection(from))?;
    if !related.is_empty() && keep.is_none() {
        return Ok(Resolved::Left(Unrepaired::HasRelated));
    }
    if !is_dry_run {
        related::delete(&related, conn).await?;
        conn.delete_one(from, by_id(id), None).await?;
    }
    Ok(Resolved::Deleted)
}

/// Returns which of two documents is newer, by the field with their age.
fn newer(current: &RawDocument, archived: &RawDocument, age: &str) -> Option<Keep> {
    if current.as_bytes() == archived.as_bytes() {
        return Some(Keep::Current);
    }
    let [of_current, of_archived] = [current, archived].map(|document| document.get_datetime(age).ok());
    match of_current?.cmp(&of_archived?) {
        std::cmp::Ordering::Greater => Some(Keep::Current),
        std::cmp::Ordering::Less => Some(Keep::Archived),
        std::cmp::Ordering::Equal => None,
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{DateTime, rawdoc};

    use super::*;

    #[test]
    fn the_newer_document_is_that_with_the_later_date() {
        let of = |time: i64, n: i32| rawdoc! { "_id": 1, "date": DateTime::from_millis(time), "n": n };
        let none = rawdoc! { "_id": 1, "n": 1 };
        let text = rawdoc! { "_id": 1, "date": "2026", "n": 1 };
        for (current, archived, expected) in [
            (of(2, 1), of(1, 2), Some(Keep::Current)),
            (of(1, 1), of(2, 1), Some(Keep::Archived)),
            (of(1, 1), of(1, 1), Some(Keep::Current)),
            (of(1, 1), of(1, 2), None),
            (none.clone(), of(1, 1), None),
            (of(1, 1), text, None),
            (none.clone(), none, Some(Keep::Current)),
        ] {
            assert_eq!(newer(&current, &archived, "date"), expected, "{current:?} {archived:?}");
        }
    }
}
