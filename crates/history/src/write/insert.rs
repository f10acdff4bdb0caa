//! The insert of a document, with its first revision, or the one after its deletion.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::{CommandError, duplicate_key, lost_race};
use mongo_patterns_core::{Error, ErrorKind, Result, transaction};
use mongodb::ClientSession;
use mongodb::bson::oid::ObjectId;

use crate::form::document::{Encoded, Head, copy};
use crate::query;
use crate::query::options;
use crate::read::{find_current, find_newest};
use crate::repository::Shared;
use crate::results::{Recorded, no_revision};
use crate::settings::Settings;
use crate::write::change::with_head;
use crate::write::others::with_fields_of_others;
use crate::write::record::{Changed, insert_new};

pub(crate) async fn insert(
    shared: &Shared,
    encoded: &Encoded,
    session: Option<&mut ClientSession>,
) -> Result<Recorded> {
    shared.check_write().await?;
    let mut conn = shared.enter(&encoded.id, session).await?;
    insert_in_lane(shared, encoded, &mut conn).await
}

/// Does what [`insert`] does, in the lane of the document.
pub(crate) async fn insert_in_lane(shared: &Shared, encoded: &Encoded, conn: &mut Conn<'_>) -> Result<Recorded> {
    let mut insert = Insert {
        shared,
        encoded,
        // A duplicate would abort the transaction of the caller.
        reads_current: conn.is_in_transaction(),
        restores: false,
    };
    let (current, retry) = (&shared.current, &shared.settings.retry);
    let done = transaction::run(current, retry, conn, &mut insert, |conn, insert| {
        Box::pin(insert.attempt(conn))
    });
    done.await
}

pub(super) struct Insert<'a> {
    pub(super) shared: &'a Shared,
    pub(super) encoded: &'a Encoded,
    /// Whether the next attempt reads the current document first.
    pub(super) reads_current: bool,
    /// Whether the document has the content of a revision, with the fields of other repositories as they were at the
    /// deletion.
    pub(super) restores: bool,
}

impl Insert<'_> {
    pub(super) async fn attempt(&mut self, conn: &mut Conn<'_>) -> Result<Recorded> {
        let newest = self.newest(conn).await?;
        if self.restores && newest.is_none() {
            // A trash or an archive has moved the document with its revisions since the restored one was read.
            return Err(no_revision());
        }
        // Every further attempt follows a conflict.
        let reads_current = std::mem::replace(&mut self.reads_current, true);
        if reads_current || newest.is_some_and(|newest| !newest.is_deleted) {
            let (shared, id) = (self.shared, &self.encoded.id);
            let current = find_current(shared, id, conn).await?;
            if current.is_some() {
                return Err(already_exists());
            }
        }
        let Changed { document, head } = self.insert(newest, conn).await?;
        insert_new(
            self.shared,
            copy(&self.shared.settings, &document, ObjectId::new())?,
            conn,
        )
        .await?;
        Ok(head.into())
    }

    /// Reads the revision that the insert continues.
    async fn newest(&self, conn: &mut Conn<'_>) -> Result<Option<Head>> {
        let newest = find_newest(self.shared, &self.encoded.id, conn).await?;
        newest
            .map(|newest| Ok(with_head(&self.shared.settings, newest)?.head))
            .transpose()
    }

    async fn insert(&self, newest: Option<Head>, conn: &mut Conn<'_>) -> Result<Changed> {
        let (settings, encoded) = (&self.shared.settings, self.encoded);
        let restored = match newest.filter(|_| self.restores) {
            Some(newest) => with_fields_of_others(self.shared, encoded, newest, conn).await?,
            None => None,
        };
        let update = query::change::insert(settings, restored.as_ref().unwrap_or(encoded), newest);
        let (filter, options) = (
            query::change::absent(settings, &encoded.id),
            options::change(settings, true),
        );
        let inserted = conn
            .find_one_and_update(&self.shared.current, filter, update, options)
            .await;
        match inserted {
            Ok(Some(document)) => with_head(settings, document),
            Ok(None) => Err(Error::new(
                ErrorKind::Driver,
                "the server returned no document for an insert",
            )),
            Err(error) => Err(match is_of_id(settings, &error) {
                Some(false) => refused().caused_by(error),
                // Another client has inserted it.
                Some(true) => lost_race(error),
                None => error.into(),
            }),
        }
    }
}

/// Returns whether the index of the ids refused an insert. `None` if no unique index did.
pub(super) fn is_of_id(settings: &Settings, error: &CommandError) -> Option<bool> {
    let duplicate = duplicate_key(error)?;
    Some(duplicate.index.as_deref() == Some(settings.current_index.as_str()))
}

pub(crate) fn already_exists() -> Error {
    Error::new(
        ErrorKind::AlreadyExists,
        "a document with this id exists already, it was not changed: replace it, or use another id",
    )
}

/// The error of another unique index.
pub(crate) fn refused() -> Error {
    Error::new(
        ErrorKind::DuplicateKey,
        "the `_id` of the document, or a unique index of the application, refused it, nothing was stored: use other values",
    )
}
