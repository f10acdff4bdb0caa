//! The update of a source and of its copies.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::{CommandError, duplicate_key};
use mongo_patterns_core::update::failed;
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::ClientSession;
use mongodb::bson::{Bson, Document};

use crate::form::source::Source;
use crate::form::update::SourceUpdate;
use crate::query;
use crate::query::options;
use crate::read::{find_source, newest_copy, projection, source_of};
use crate::repository::Shared;
use crate::results::{UpdatedSource, no_source};
use crate::write::is_in_transaction;
use crate::write::sweep::{sweep, unmark_deleted};

const INVALID_VERSION: &str = "the source is updated, but its version is not an integer from 0, and no copy was written: see document_id(), correct the version, then call refresh_copies()";

const OF_HISTORY: &str =
    "the version of the source is the revision of a history, nothing was changed: update the source by its history";

const NO_INTEGER: &str =
    "the version of the source is not an integer from 0, nothing was changed: see document_id(), and correct it";

/// Updates a source, and then its copies.
pub(crate) async fn update(
    shared: &Shared,
    id: &Bson,
    update: &SourceUpdate,
    session: Option<&mut ClientSession>,
) -> Result<UpdatedSource> {
    if update.changes_copies {
        shared.check_indexes().await?;
    }
    let has_history = shared.has_history().await?;
    if has_history && !update.is_of_version() {
        return Err(Error::new(ErrorKind::SettingsMismatch, OF_HISTORY));
    }
    let mut conn = shared.enter_source(id, session).await?;
    let changes = update.to_document(&shared.settings);
    let is_in_transaction = is_in_transaction(&conn);
    let changed = match has_history {
        true => find_source(shared, id, &mut conn).await,
        false => change(shared, id, changes, &mut conn).await,
    };
    let source = changed
        .map_err(|error| match error.kind() {
            ErrorKind::Corrupt if !is_in_transaction => error.with_stored(1).with_text(INVALID_VERSION),
            // The update increments the version alone.
            ErrorKind::InvalidArgument if update.is_of_version() => {
                let version = shared.settings.version.as_str();
                Error::corrupt(id.clone(), version, NO_INTEGER).of_collection(&shared.sources)
            }
            _ => error,
        })?
        .ok_or_else(no_source)?;
    let updated_copies = update_copies(shared, source, update, has_history, &mut conn).await;
    updated_copies.map_err(|error| match is_in_transaction || has_history {
        true => error,
        false => updated(error),
    })
}

async fn update_copies(
    shared: &Shared,
    mut source: Source,
    update: &SourceUpdate,
    has_history: bool,
    conn: &mut Conn<'_>,
) -> Result<UpdatedSource> {
    // What changed the source may have removed its version, such as a replacement.
    if update.is_of_version()
        && !has_history
        && let Some(above) = newest_copy(shared, &source, conn).await?
    {
        let raise = query::raise_version(&shared.settings, Some(above));
        source = change(shared, &source.id, raise, conn).await?.ok_or_else(no_source)?;
    }
    let copies = match update.changes_copies {
        true => sweep(shared, &source, conn).await?,
        false => 0,
    };
    if update.is_of_version() && unmark_deleted(shared, &source.id, conn).await?.is_none() {
        return Err(no_source());
    }
    Ok(UpdatedSource {
        version: source.version,
        copies,
    })
}

/// Changes a source, and returns it as it is afterwards. `None` if it does not exist.
pub(crate) async fn change(
    shared: &Shared,
    id: &Bson,
    changes: Document,
    conn: &mut Conn<'_>,
) -> Result<Option<Source>> {
    let options = options::update_source(projection(shared));
    let changed = conn
        .find_one_and_update(&shared.sources, query::by_id(id), changes, options)
        .await;
    let changed = changed.map_err(|error| failed(refused(error)))?;
    changed.map(|document| source_of(shared, &document)).transpose()
}

fn refused(error: CommandError) -> Error {
    match duplicate_key(&error) {
        Some(_) => Error::from_driver(
            ErrorKind::DuplicateKey,
            "a unique index of the application, or that of the source key, refused the update, nothing was changed: use other values",
            error,
        ),
        None => error.into(),
    }
}

/// Adds to an error of the sweep that the source is updated, and replaces its text.
fn updated(error: Error) -> Error {
    let text = match error.kind() {
        ErrorKind::IndexMissing => {
            "the source is updated, but an index is missing and copies of it are outdated: call ensure_indexes(), then refresh_copies()"
        }
        ErrorKind::Unauthorized => {
            "the source is updated, but the user lacks a privilege to update its copies: grant the role `readWrite`, then call refresh_copies()"
        }
        ErrorKind::DuplicateKey => {
            "the source is updated, but a unique index of the application refused a new copy, and further copies may be outdated: use other values or drop the index, then call refresh_copies()"
        }
        ErrorKind::ValidationFailed => {
            "the source is updated, but the validator of a collection refused a new copy, and further copies may be outdated: use other values or change the validator, then call refresh_copies()"
        }
        ErrorKind::TooLarge => {
            "the source is updated, but with the new copy a document would exceed MongoDB's limit of 16 MiB, and further copies may be outdated: make the document or the copied fields smaller, then call refresh_copies()"
        }
        _ => {
            "the source is updated, but copies of it may be outdated, because a command failed: see as_driver_error() for the reason, then call refresh_copies()"
        }
    };
    error.with_stored(1).with_text(text)
}
