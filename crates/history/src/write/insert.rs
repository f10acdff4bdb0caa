//! The insert of a document, with its first revision, or the one after its deletion.

use mongodb::ClientSession;

use crate::form::document::{Encoded, Head};
use crate::query::options::Reader;
use crate::read::{find_current, find_newest, hinted};
use crate::repository::prelude::*;
use crate::results::Recorded;
use crate::write::change::with_head;
use crate::write::record::{Changed, complete, finish_insert};
use crate::write::{Atomicity, is_in_transaction};

/// Inserts a document.
pub(crate) async fn run(shared: &Shared, encoded: &Encoded, session: Option<&mut ClientSession>) -> Result<Recorded> {
    let mut session = Session::of_caller(session).await?;
    shared.check_indexes().await?;
    run_in(shared, encoded, session.as_mut()).await
}

/// Does what [`run`] does, after the check of the indexes.
pub(crate) async fn run_in(shared: &Shared, encoded: &Encoded, session: Option<&mut Session<'_>>) -> Result<Recorded> {
    let mut insert = Insert {
        shared,
        encoded,
        reads_current: false,
    };
    if is_in_transaction(session.as_deref()) {
        // A duplicate would abort the transaction.
        insert.reads_current = true;
        return insert.in_transaction(session).await;
    }
    let atomicity = Atomicity::of(shared.write_form().await?);
    let locked = shared.lock(&encoded.id).await;
    if atomicity == Atomicity::Mark {
        let inserted = insert.with_mark(session).await;
        drop(locked);
        return inserted;
    }
    let (current, retry) = (&shared.current, &shared.settings.retry);
    let done = transaction::run(current, retry, session, locked, &mut insert, |session, insert| {
        Box::pin(insert.in_transaction(Some(session)))
    });
    done.await
}

struct Insert<'a> {
    shared: &'a Shared,
    encoded: &'a Encoded,
    /// Whether the next attempt reads the current document first.
    reads_current: bool,
}

impl Insert<'_> {
    async fn in_transaction(&mut self, mut session: Option<&mut Session<'_>>) -> Result<Recorded> {
        let newest = self.newest(session.as_deref_mut()).await?;
        // Every further attempt follows a conflict.
        let reads_current = std::mem::replace(&mut self.reads_current, true);
        if reads_current || newest.is_some_and(|newest| !newest.is_deleted) {
            self.check_absent(session.as_deref_mut()).await?;
        }
        let changed = self
            .insert(newest, Atomicity::Transaction, session.as_deref_mut())
            .await?;
        finish_insert(self.shared, &changed, Atomicity::Transaction, session).await?;
        Ok(changed.head.into())
    }

    async fn with_mark(&mut self, mut session: Option<&mut Session<'_>>) -> Result<Recorded> {
        let mut attempts = self.shared.settings.retry.start();
        loop {
            let newest = self.newest(session.as_deref_mut()).await?;
            match self.insert(newest, Atomicity::Mark, session.as_deref_mut()).await {
                Ok(changed) => {
                    if finish_insert(self.shared, &changed, Atomicity::Mark, session.as_deref_mut()).await? {
                        return Ok(changed.head.into());
                    }
                }
                Err(error)
                    if error
                        .as_driver_error()
                        .is_some_and(|error| duplicate_key(error).is_some()) =>
                {
                    self.check_absent(session.as_deref_mut()).await?;
                }
                Err(error) => return Err(error),
            }
            attempts
                .next(CommandError::custom("another client inserted or deleted the document"))
                .await?;
        }
    }

    /// Reads the revision that the insert continues.
    async fn newest(&self, session: Option<&mut Session<'_>>) -> Result<Option<Head>> {
        let newest = find_newest(self.shared, &self.encoded.id, session).await?;
        newest
            .map(|newest| Ok(with_head(&self.shared.settings, newest)?.head))
            .transpose()
    }

    /// Checks that there is no current document. Completes a marked one, which can be the tombstone of a deletion.
    async fn check_absent(&self, mut session: Option<&mut Session<'_>>) -> Result<()> {
        let (shared, id) = (self.shared, &self.encoded.id);
        loop {
            let reader = Reader::of_write(session.as_deref());
            let Some(document) = find_current(shared, id, reader, session.as_deref_mut()).await? else {
                return Ok(());
            };
            let head = Head::of(&shared.settings, &document);
            let Some((head, mark)) = head.and_then(|head| Some((head, head.mark?))) else {
                return Err(already_exists());
            };
            complete(shared, &Changed { document, head }, mark, session.as_deref_mut()).await?;
        }
    }

    async fn insert(
        &self,
        newest: Option<Head>,
        atomicity: Atomicity,
        session: Option<&mut Session<'_>>,
    ) -> Result<Changed> {
        let (settings, encoded) = (&self.shared.settings, self.encoded);
        let update = query::change::insert(settings, encoded, newest, atomicity.mark(true));
        let (filter, options) = (
            query::change::absent(settings, &encoded.id),
            options::change(settings, true),
        );
        let inserted = send::find_one_and_update(session, &self.shared.current, filter, update, options).await;
        match inserted {
            Ok(Some(document)) => with_head(settings, document),
            Ok(None) => Err(Error::new(
                ErrorKind::Driver,
                "the server returned no document for an insert",
            )),
            Err(error) => Err(match duplicate_key(&error) {
                Some(duplicate) if duplicate.index.as_deref() != Some(settings.current_index.as_str()) => refused(),
                _ => hinted(error, &settings.current_index),
            }),
        }
    }
}

fn already_exists() -> Error {
    Error::new(
        ErrorKind::AlreadyExists,
        "a document with this id exists already, it was not changed: replace it, or use another id",
    )
}

/// The error of another unique index. Without the driver's error: its labels would retry a transaction.
fn refused() -> Error {
    Error::new(
        ErrorKind::DuplicateKey,
        "the `_id` of the document, or a unique index of the application, refused it, nothing was stored: use other values",
    )
}
