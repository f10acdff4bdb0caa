//! The copy of a current document.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::{CommandError, duplicate_key, lost_race};
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{RawDocument, RawDocumentBuf};

use crate::form::document::{Head, copy, id_in};
use crate::query;
use crate::query::options;
use crate::repository::Shared;
use crate::settings::Settings;

/// A change of a current document, as the server returned it.
#[derive(Debug)]
pub(crate) struct Changed {
    pub(crate) document: RawDocumentBuf,
    pub(crate) head: Head,
}

/// Why the transaction of a write failed, besides its error: the document is behind its revisions.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    /// The error of the copy whose revision is stored already.
    pub(crate) refused: Option<CommandError>,
}

/// Stores the copy of a change, and removes the document of a deletion.
pub(crate) async fn finish(shared: &Shared, changed: &Changed, behind: &mut Behind, conn: &mut Conn<'_>) -> Result<()> {
    let inserted = insert_copy(shared, &changed.document, conn).await;
    inserted.map_err(|error| not_inserted(shared, behind, error))?;
    match changed.head.is_deleted {
        true => delete_current(shared, changed, conn).await,
        false => Ok(()),
    }
}

pub(super) async fn insert_copies(
    shared: &Shared,
    changed: &[Changed],
    behind: &mut Behind,
    conn: &mut Conn<'_>,
) -> Result<()> {
    if changed.is_empty() {
        return Ok(());
    }
    let copies = changed
        .iter()
        .map(|changed| copy(&shared.settings, &changed.document, ObjectId::new()));
    let copies = copies.collect::<std::result::Result<Vec<_>, CommandError>>()?;
    let inserted = conn.insert_many(&shared.revisions, copies, None).await;
    inserted.map(drop).map_err(|error| not_inserted(shared, behind, error))
}

fn not_inserted(shared: &Shared, behind: &mut Behind, error: CommandError) -> Error {
    match Duplicate::in_error(&shared.settings, &error) {
        Some(Duplicate::Revision) => {
            behind.refused = Some(error.clone());
            ahead().caused_by(error)
        }
        Some(Duplicate::Other) => refused().caused_by(error),
        None => error.into(),
    }
}

/// Removes the document of a deletion.
pub(super) async fn delete_current(shared: &Shared, deletion: &Changed, conn: &mut Conn<'_>) -> Result<()> {
    let settings = &shared.settings;
    let filter = query::at_head(settings, &id_in(settings, &deletion.document), deletion.head);
    let options = options::delete_current(settings);
    conn.delete_one(&shared.current, filter, options).await?;
    Ok(())
}

/// Stores a revision that another client can have stored in between: then the transaction is run again.
pub(crate) async fn insert_new(shared: &Shared, copy: RawDocumentBuf, conn: &mut Conn<'_>) -> Result<()> {
    let inserted = conn.insert_one(&shared.revisions, copy, None).await;
    inserted.map(drop).map_err(|error| not_new(shared, error))
}

/// Does what [`insert_new`] does, for revisions of several documents.
pub(super) async fn insert_all_new(shared: &Shared, copies: Vec<RawDocumentBuf>, conn: &mut Conn<'_>) -> Result<()> {
    let inserted = conn.insert_many(&shared.revisions, copies, None).await;
    inserted.map(drop).map_err(|error| not_new(shared, error))
}

fn not_new(shared: &Shared, error: CommandError) -> Error {
    match Duplicate::in_error(&shared.settings, &error) {
        Some(Duplicate::Other) => refused().caused_by(error),
        _ => lost_race(error),
    }
}

/// Stores the copy of a current document.
pub(crate) async fn insert_copy(
    shared: &Shared,
    document: &RawDocument,
    conn: &mut Conn<'_>,
) -> std::result::Result<(), CommandError> {
    let copy = copy(&shared.settings, document, ObjectId::new())?;
    conn.insert_one(&shared.revisions, copy, None).await.map(drop)
}

/// The unique index that refused a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duplicate {
    /// An index of the pattern: the revision is stored.
    Revision,
    /// An index of the application.
    Other,
}

impl Duplicate {
    /// `None` for any other error.
    pub(crate) fn in_error(settings: &Settings, error: &CommandError) -> Option<Self> {
        let duplicate = duplicate_key(error)?;
        Some(
            match duplicate.index.as_deref() == Some(settings.revision_index.as_str()) {
                true => Self::Revision,
                false => Self::Other,
            },
        )
    }
}

/// The error of a copy that an index of the application refused.
pub(crate) fn refused() -> Error {
    Error::new(
        ErrorKind::DuplicateKey,
        "a unique index of the application on the revisions refused a copy, nothing was changed: drop it, because revisions repeat the values of the document",
    )
}

/// The error of a document whose next revision is stored already.
fn ahead() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "the revisions of the document are ahead of it, because another program changed one of the two, nothing was changed: call verify()",
    )
}
