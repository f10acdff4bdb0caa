//! The copy of a current document, and the end of its mark.

use mongodb::bson::oid::ObjectId;

use crate::form::document::{Head, Mark, copy, id_in};
use crate::query::options::Reader;
use crate::read::{find_copy, find_current, find_newest, find_next, hinted};
use crate::repository::prelude::*;
use crate::write::{Atomicity, is_in_transaction};

/// A change of a current document, as the server returned it.
#[derive(Debug)]
pub(crate) struct Changed {
    pub(crate) document: RawDocumentBuf,
    pub(crate) head: Head,
}

/// The state of a marked revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its copy.
    Copied,
    /// Only the current document.
    Uncopied,
    /// Its number is that of another revision.
    Stale,
}

/// Stores the copy of a change. An error fails a transaction. Without one, the change has taken effect, and the next writer
/// stores the copy.
///
/// # Errors
/// Those of the driver, and [`Corrupt`](ErrorKind::Corrupt) when the revision is stored already. In a transaction.
pub(crate) async fn finish(
    shared: &Shared,
    changed: &Changed,
    atomicity: Atomicity,
    mut session: Option<&mut Session<'_>>,
) -> Result<()> {
    let Changed { document, head } = changed;
    if let (Atomicity::Mark, Some(mark)) = (atomicity, head.mark) {
        let _ = copy_and_unmark(shared, changed, mark, session).await;
        return Ok(());
    }
    let copied = insert_copy(shared, document, ObjectId::new(), session.as_deref_mut()).await;
    copied.map_err(|error| match Duplicate::of(&shared.settings, &error) {
        // Without the driver's error, by which the transaction would be run again.
        Some(Duplicate::Revision) => ahead(),
        Some(Duplicate::Other) => refused(),
        None => error.into(),
    })?;
    delete_tombstone(shared, changed, session).await
}

/// Stores the copy of an insert, whose number the revisions of another client can have. Returns `false` if they have, and
/// the document is removed.
pub(crate) async fn finish_insert(
    shared: &Shared,
    changed: &Changed,
    atomicity: Atomicity,
    mut session: Option<&mut Session<'_>>,
) -> Result<bool> {
    let Changed { document, head } = changed;
    if let (Atomicity::Mark, Some(mark)) = (atomicity, head.mark) {
        let state = state(shared, changed, mark, session.as_deref_mut()).await;
        let state = state.map_err(unchecked)?;
        if state == State::Stale {
            remove(shared, changed, mark, session).await.map_err(unchecked)?;
            return Ok(false);
        }
        let _ = copy_and_unmark(shared, changed, mark, session).await;
        return Ok(true);
    }
    let copied = insert_copy(shared, document, ObjectId::new(), session).await;
    copied.map_err(|error| match Duplicate::of(&shared.settings, &error) {
        Some(Duplicate::Other) => refused(),
        // With the driver's error of a duplicate, by which the transaction is run again.
        _ => error.into(),
    })?;
    Ok(true)
}

/// Completes the change of a marked document, whoever began it.
pub(crate) async fn complete(
    shared: &Shared,
    changed: &Changed,
    mark: Mark,
    mut session: Option<&mut Session<'_>>,
) -> Result<()> {
    match state(shared, changed, mark, session.as_deref_mut()).await? {
        State::Copied => unmark(shared, changed, mark, session).await.map(drop),
        State::Uncopied => copy_and_unmark(shared, changed, mark, session).await,
        State::Stale if mark.inserted => remove(shared, changed, mark, session).await,
        State::Stale => match is_still_marked(shared, changed, mark, session).await? {
            true => Err(ahead()),
            false => Ok(()),
        },
    }
}

/// Compares a marked document with its newest copy.
async fn state(shared: &Shared, changed: &Changed, mark: Mark, mut session: Option<&mut Session<'_>>) -> Result<State> {
    let settings = &shared.settings;
    let (id, revision) = (id_in(settings, &changed.document), changed.head.revision);
    let is_own = |copy: &RawDocumentBuf| copy.get_object_id("_id").is_ok_and(|id| id == mark.copy);
    let Some(newest) = find_newest(shared, &id, session.as_deref_mut()).await? else {
        return Ok(State::Uncopied);
    };
    if is_own(&newest) {
        return Ok(State::Copied);
    }
    if Head::of(settings, &newest).is_some_and(|newest| newest.revision < revision) {
        return Ok(State::Uncopied);
    }
    // Another client may have completed it, and changed the document since.
    let reader = Reader::of_write(session.as_deref());
    let copy = find_copy(shared, &id, revision, reader, session).await?;
    Ok(match copy.is_some_and(|copy| is_own(&copy)) {
        true => State::Copied,
        false => State::Stale,
    })
}

async fn copy_and_unmark(
    shared: &Shared,
    changed: &Changed,
    mark: Mark,
    mut session: Option<&mut Session<'_>>,
) -> Result<()> {
    let in_transaction = is_in_transaction(session.as_deref());
    let copied = insert_copy(shared, &changed.document, mark.copy, session.as_deref_mut()).await;
    let is_new = match copied {
        Ok(()) => true,
        Err(error) if !in_transaction && duplicate_key(&error).is_some() => {
            match state(shared, changed, mark, session.as_deref_mut()).await? {
                State::Copied => false,
                // The mark stays.
                State::Uncopied => return Err(refused()),
                State::Stale => return Err(ahead()),
            }
        }
        Err(error) => return Err(error.into()),
    };
    let is_unmarked = unmark(shared, changed, mark, session.as_deref_mut()).await?;
    if is_new && !is_unmarked && !in_transaction {
        delete_stray(shared, changed, mark, session).await?;
    }
    Ok(())
}

/// Deletes the copy of a slow writer, if another client has completed the revision before, and then pruned it.
async fn delete_stray(
    shared: &Shared,
    changed: &Changed,
    mark: Mark,
    mut session: Option<&mut Session<'_>>,
) -> Result<()> {
    let settings = &shared.settings;
    let (id, revision) = (id_in(settings, &changed.document), changed.head.revision);
    let next = find_next(shared, &id, revision, session.as_deref_mut()).await?;
    let next = next.and_then(|next| Head::of(settings, &next));
    if next.is_some_and(|next| next.revision > revision + 1) {
        send::delete_one(session, &shared.revisions, query::copy(settings, &id, mark), None).await?;
    }
    Ok(())
}

async fn insert_copy(
    shared: &Shared,
    document: &RawDocument,
    id: ObjectId,
    session: Option<&mut Session<'_>>,
) -> std::result::Result<(), CommandError> {
    let copy = copy(document, id)?;
    send::insert_one(session, &shared.revisions, &copy, None)
        .await
        .map(drop)
}

/// Removes the mark, or a marked tombstone. Returns whether the document was still marked.
async fn unmark(shared: &Shared, changed: &Changed, mark: Mark, session: Option<&mut Session<'_>>) -> Result<bool> {
    let (current, settings) = (&shared.current, &shared.settings);
    let filter = query::marked(settings, &id_in(settings, &changed.document), mark);
    let named = |error| hinted(error, &settings.current_index);
    if changed.head.is_deleted {
        let options = options::delete_current(settings);
        let deleted = send::delete_one(session, current, filter, options)
            .await
            .map_err(named)?;
        return Ok(deleted.deleted_count > 0);
    }
    let options = options::update_current(settings);
    let unmarked = send::update_one(session, current, filter, query::change::unmark(), options).await;
    Ok(unmarked.map_err(named)?.matched_count > 0)
}

/// Removes an inserted document, which is still marked.
async fn remove(shared: &Shared, changed: &Changed, mark: Mark, session: Option<&mut Session<'_>>) -> Result<()> {
    let settings = &shared.settings;
    let filter = query::marked(settings, &id_in(settings, &changed.document), mark);
    let removed = send::delete_one(session, &shared.current, filter, options::delete_current(settings)).await;
    removed
        .map_err(|error| hinted(error, &settings.current_index))
        .map(drop)
}

/// Removes the current document of a deletion in a transaction.
async fn delete_tombstone(shared: &Shared, changed: &Changed, session: Option<&mut Session<'_>>) -> Result<()> {
    if !changed.head.is_deleted {
        return Ok(());
    }
    let settings = &shared.settings;
    let filter = query::at(settings, &id_in(settings, &changed.document), changed.head);
    let deleted = send::delete_one(session, &shared.current, filter, options::delete_current(settings)).await;
    deleted
        .map_err(|error| hinted(error, &settings.current_index))
        .map(drop)
}

async fn is_still_marked(
    shared: &Shared,
    changed: &Changed,
    mark: Mark,
    session: Option<&mut Session<'_>>,
) -> Result<bool> {
    let id = id_in(&shared.settings, &changed.document);
    let reader = Reader::of_write(session.as_deref());
    let current = find_current(shared, &id, reader, session).await?;
    let head = current.and_then(|current| Head::of(&shared.settings, &current));
    Ok(head.is_some_and(|head| head.mark == Some(mark)))
}

/// Marks an error after an insert, whose number is not checked yet, as one of unknown outcome.
fn unchecked(error: Error) -> Error {
    error.with_kind(ErrorKind::Network).with_text(
        "the document was inserted, but it is unknown whether it remains, because a command failed: see as_driver_error() for the reason, and read the document or call it again",
    )
}

/// The error of a document whose next revision is stored already.
/// The unique index that refused a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duplicate {
    /// That of the pattern: the revision is stored.
    Revision,
    /// Another one, which belongs to the application.
    Other,
}

impl Duplicate {
    /// `None` for any other error.
    pub(crate) fn of(settings: &Settings, error: &CommandError) -> Option<Self> {
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

fn ahead() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "the revisions of the document are ahead of it, because another program changed one of the two, nothing was changed: call verify()",
    )
}
