//! Writes children, and what their parents must show then.

pub(crate) mod error;
pub(crate) mod refresh;
pub(crate) mod unmanaged;

use mongo_patterns_core::error::{code, duplicate_key, is_bad_hint, refused_document};
use mongo_patterns_core::index::index_missing;
use mongo_patterns_core::key_locks::LockedKeys;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{Error, ErrorKind, FieldName, Result, document_id, send, transaction};
use mongodb::bson::{Bson, RawDocumentBuf, doc};
use mongodb::error::Error as DriverError;
use mongodb::options::{DeleteOptions, Hint, ReplaceOptions, UpdateModifications, UpdateOptions};

use crate::query::Shown;
use crate::repository::Shared;
use crate::write::error::{of_parent, with_stored};
use crate::write::refresh::{Refreshed, State, elements, find_state, is_in, no_parent, refresh, top, total};
use crate::write::unmanaged as unwritten;
use crate::{Consistency, query};

/// The server's code for a replacement that would change `_id`.
const IMMUTABLE_FIELD: i32 = 66;

/// What happens to children.
#[derive(Debug)]
pub(crate) enum Change {
    Insert(Vec<RawDocumentBuf>),
    Update(UpdateModifications),
    Replace(RawDocumentBuf),
    Delete,
    /// The parent is written anew.
    Nothing,
}

/// A change, and whom it concerns.
#[derive(Debug)]
pub(crate) struct Write<'a> {
    pub(crate) shared: &'a Shared,
    /// The parents of the children; one, unless many children are inserted.
    pub(crate) parents: &'a [Bson],
    /// The child, where it is one.
    pub(crate) child: Option<&'a Bson>,
    pub(crate) change: Change,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    /// Whether there was such a child. Only a delete goes on where there was none.
    pub(crate) found: bool,
    /// Whether the child is other than before.
    pub(crate) modified: bool,
    /// Whether the child is in the subset now.
    pub(crate) in_subset: bool,
    /// How many parents this call wrote.
    pub(crate) parents: u64,
    /// How many children are embedded now, of all parents.
    pub(crate) embedded: u64,
}

/// Why children were not written, or not all.
struct Refused {
    error: Error,
    /// How many of them are stored.
    stored: usize,
    /// Whether the parents may have to be refreshed all the same.
    refresh: bool,
}

impl Write<'_> {
    pub(crate) async fn run(&self, mut session: Option<&mut Session<'_>>) -> Result<Written> {
        let shared = self.shared;
        shared.check_indexes().await?;
        // Whatever the consistency: other writers do not see what a transaction writes, nor does it see what they write.
        // It takes no locks, as another task may have them and wait for what the transaction has locked on the server.
        if let Some(session) = session.as_deref_mut().filter(|session| session.is_in_transaction()) {
            return self.in_transaction(session).await;
        }
        let consistency = shared.consistency().await?;
        let locked = self.lock().await;
        match consistency {
            Consistency::Eventual => self.eventually(session).await,
            Consistency::Transactional => {
                let Shared { parents, settings, .. } = shared;
                transaction::run(parents, &settings.retry, session, locked, self, |session, write| {
                    Box::pin(write.in_transaction(session))
                })
                .await
            }
        }
    }

    /// The parent alone, in the caller's transaction or, without one, by compare and set.
    pub(crate) async fn rebuild(&self, mut session: Option<&mut Session<'_>>) -> Result<Written> {
        let shared = self.shared;
        shared.check_indexes().await?;
        if let Some(session) = session.as_deref_mut().filter(|session| session.is_in_transaction()) {
            return self.in_transaction(session).await;
        }
        let _locked = self.lock().await;
        self.eventually(session).await
    }

    async fn lock(&self) -> LockedKeys {
        let parents = self.parents.iter().map(document_id::text);
        self.shared.locks.exclusive_all(parents).await
    }

    /// The child first, then its parent.
    async fn eventually(&self, mut session: Option<&mut Session<'_>>) -> Result<Written> {
        let shared = self.shared;
        let mut before = Vec::with_capacity(self.parents.len());
        for parent in self.parents {
            let state = match self.guess(parent) {
                Some(guess) => guess,
                None => {
                    let state = find_state(shared, parent, session.as_deref_mut()).await?;
                    unwritten::write_first(shared, parent, state.ok_or_else(no_parent)?, session.as_deref_mut()).await?
                }
            };
            before.push(state);
        }
        let applied = self.apply(session.as_deref_mut()).await;
        let stored = match &applied {
            Ok(written) if !written.found => 0,
            Ok(_) => self.children(),
            Err(refused) if refused.refresh => refused.stored,
            Err(_) => return applied.map_err(Refused::into_error),
        };
        // Also where nothing was stored since the child is there: the call that stored it may have ended before this.
        let refreshed = self.refresh_all(before, stored, session).await?;
        let Written { found, modified, .. } = applied.map_err(Refused::into_error)?;
        Ok(Written {
            found,
            modified,
            ..refreshed
        })
    }

    /// The parent as this process left it, which spares a round trip. Only what is inserted for one parent can be taken
    /// back where it is gone by now.
    fn guess(&self, parent: &Bson) -> Option<State> {
        let can_be_taken_back = matches!(self.change, Change::Insert(_)) && self.parents.len() == 1;
        let version = self.shared.known.version(parent).filter(|_| can_be_taken_back);
        version.map(State::guess)
    }

    /// The parents, after so many children were stored.
    async fn refresh_all(
        &self,
        before: Vec<State>,
        stored: usize,
        mut session: Option<&mut Session<'_>>,
    ) -> Result<Written> {
        let shared = self.shared;
        let mut written = Written::default();
        let (mut gone, mut failed) = (None, None);
        // One more child changes the total, wherever it is.
        let is_new = matches!(self.change, Change::Insert(_)) && stored > 0 && shared.settings.total.is_none();
        for (parent, before) in self.parents.iter().zip(before) {
            let unless_in = self.child.filter(|_| is_new);
            let is_guess = before.is_guess();
            let refreshed = refresh(shared, parent, Some(before), unless_in, session.as_deref_mut()).await;
            let refreshed = match refreshed {
                // A look at the parent would have refused it before the child was stored.
                Err(error) if is_guess && error.kind() == ErrorKind::NotMigrated => {
                    let left = self.orphaned(parent, stored, session.as_deref_mut()).await;
                    return Err(with_stored(error, left.map_err(|error| with_stored(error, stored))?));
                }
                // It is about this parent alone, and the others are to be right.
                Err(error) if matches!(error.kind(), ErrorKind::TooLarge | ErrorKind::NotMigrated) => {
                    failed.get_or_insert(error);
                    continue;
                }
                refreshed => refreshed.map_err(|error| with_stored(error, stored))?,
            };
            match refreshed {
                Refreshed::Done { top, written: by_us } => {
                    written.parents += u64::from(by_us);
                    written.embedded += top.len() as u64;
                    written.in_subset |= self.child.is_some_and(|child| is_in(shared, &top, child));
                }
                Refreshed::NoParent => {
                    let left = self.orphaned(parent, stored, session.as_deref_mut()).await;
                    gone = Some(left.map_err(|error| with_stored(error, stored))?);
                }
            }
        }
        if let Some(error) = failed {
            return Err(with_stored(error, gone.unwrap_or(stored)));
        }
        match gone {
            Some(stored) if !matches!(self.change, Change::Delete) => Err(with_stored(no_parent(), stored)),
            _ => Ok(written),
        }
    }

    /// Deletes the children that were inserted for a parent that is no more. Returns how many of the stored ones are
    /// before them, or were not inserted.
    async fn orphaned(&self, parent: &Bson, stored: usize, session: Option<&mut Session<'_>>) -> Result<usize> {
        let Shared { children, settings, .. } = self.shared;
        let Change::Insert(inserted) = &self.change else {
            return Ok(stored);
        };
        let is_orphan = |child: &&RawDocumentBuf| value(child, &settings.parent).as_ref() == Some(parent);
        let orphans = inserted[..stored].iter().filter(is_orphan);
        let ids: Vec<Bson> = orphans.filter_map(|child| value(child, &settings.child_id)).collect();
        let mut filter = query::children_of(settings, parent);
        filter.insert(settings.child_id.as_str(), doc! { "$in": ids });
        let options = DeleteOptions::builder()
            .hint(Hint::Name(settings.child_index.clone()))
            .build();
        let deleted = send::delete_many(session, children, filter, options).await;
        deleted.map_err(|error| with_stored(error.into(), stored))?;
        Ok(inserted
            .iter()
            .position(|child| is_orphan(&child))
            .unwrap_or(stored)
            .min(stored))
    }

    /// All in the transaction that is under way. The version is counted first: that is what keeps two of them apart.
    async fn in_transaction(&self, session: &mut Session<'_>) -> Result<Written> {
        let Shared { parents, settings, .. } = self.shared;
        for parent in self.parents {
            let count = query::count_version(settings).to_vec();
            let written = query::written(settings, parent);
            let counted = send::update_one(Some(&mut *session), parents, written, count, None).await?;
            if counted.matched_count == 0 {
                unwritten::count_first(self.shared, parent, &mut *session).await?;
            }
        }
        let applied = self.apply(Some(&mut *session)).await;
        let mut written = applied.map_err(|refused| refused.error)?;
        for parent in self.parents {
            let top = top(self.shared, parent, true, Some(&mut *session)).await?;
            let shown = self.show(parent, elements(&top)?, written.found, session).await;
            written.parents += shown.map_err(of_parent)?;
            written.embedded += top.len() as u64;
            written.in_subset |= self.child.is_some_and(|child| is_in(self.shared, &top, child));
        }
        Ok(written)
    }

    /// Writes what a parent shows. Where there is a total, it is added to: nobody else can write it, as the version is
    /// counted. Returns how many parents it wrote.
    async fn show(&self, parent: &Bson, subset: Vec<Bson>, found: bool, session: &mut Session<'_>) -> Result<u64> {
        let Shared { parents, settings, .. } = self.shared;
        if let Some(field) = &settings.total
            && let Some(added) = self.added_to(parent, found)
        {
            let add = query::set_subset_and_add(settings, field, subset.clone(), added);
            let filter = query::with_total(field, parent);
            let updated = send::update_one(Some(&mut *session), parents, filter, add, None).await?;
            if updated.matched_count > 0 {
                return Ok(updated.matched_count);
            }
        }
        let total = total(self.shared, parent, true, Some(&mut *session)).await?;
        let set = query::set_subset(settings, Shown { subset, total });
        let updated = send::update_one(Some(session), parents, query::by_id(parent), set, None).await?;
        Ok(updated.matched_count)
    }

    /// How many children more a parent has; `None` where they are to be counted.
    fn added_to(&self, parent: &Bson, found: bool) -> Option<i64> {
        match &self.change {
            Change::Insert(inserted) => {
                let parent = document_id::text(parent);
                let of_parent = inserted.iter().filter(|child| {
                    let value = value(child, &self.shared.settings.parent);
                    value.is_some_and(|value| document_id::text(&value) == parent)
                });
                i64::try_from(of_parent.count()).ok()
            }
            Change::Delete => Some(-i64::from(found)),
            Change::Update(_) | Change::Replace(_) => Some(0),
            Change::Nothing => None,
        }
    }

    fn children(&self) -> usize {
        match &self.change {
            Change::Insert(children) => children.len(),
            Change::Nothing => 0,
            _ => 1,
        }
    }

    /// Changes the children.
    async fn apply(&self, session: Option<&mut Session<'_>>) -> std::result::Result<Written, Refused> {
        let Shared { children, settings, .. } = self.shared;
        if let Change::Insert(documents) = &self.change {
            return match send::insert_many(session, children, documents, None).await {
                Ok(_) => Ok(Written::child(1, 1)),
                Err(error) => Err(self.not_inserted(error)),
            };
        }
        let (Some(child), [parent]) = (self.child, self.parents) else {
            return Ok(Written::child(1, 0));
        };
        let filter = query::child(settings, parent, child);
        let hint = Hint::Name(settings.child_index.clone());
        let written = match &self.change {
            Change::Update(update) => {
                let options = UpdateOptions::builder().hint(hint).build();
                let updated = send::update_one(session, children, filter, update.clone(), options).await;
                updated.map(|updated| Written::child(updated.matched_count, updated.modified_count))
            }
            Change::Replace(document) => {
                let options = ReplaceOptions::builder().hint(hint).build();
                let replaced = send::replace_one(session, children, filter, document, options).await;
                replaced.map(|replaced| Written::child(replaced.matched_count, replaced.modified_count))
            }
            _ => {
                let options = DeleteOptions::builder().hint(hint).build();
                let deleted = send::delete_one(session, children, filter, options).await;
                deleted.map(|deleted| Written::child(deleted.deleted_count, deleted.deleted_count))
            }
        };
        match written {
            Ok(written) if !written.found && !matches!(self.change, Change::Delete) => {
                Err(Refused::before(Error::new(
                    ErrorKind::ChildNotFound,
                    "the parent has no child with this id, nothing was stored: insert it first",
                )))
            }
            Ok(written) => Ok(written),
            Err(error) => Err(self.not_written(error)),
        }
    }

    fn not_inserted(&self, error: DriverError) -> Refused {
        let settings = &self.shared.settings;
        let stored = refused_document(&error).unwrap_or(0);
        let Some(duplicate) = duplicate_key(&error) else {
            return self.confirmed(error.into(), stored);
        };
        let of_child = duplicate.index.as_deref() == Some(settings.child_index.as_str())
            || duplicate.index.as_deref() == Some("_id_") && settings.child_id.as_str() == "_id";
        // Without the driver's error: a transaction that meets it must not be run again.
        let error = if of_child {
            Error::new(
                ErrorKind::AlreadyExists,
                "there is a child with this id already, it was not changed: replace it, or use another id",
            )
        } else {
            Error::new(
                ErrorKind::DuplicateKey,
                "a unique index of yours refused a child, it was not stored: use other values",
            )
        };
        Refused {
            error,
            stored,
            refresh: true,
        }
    }

    fn not_written(&self, error: DriverError) -> Refused {
        // Without the driver's error, as a transaction passes on that one alone.
        if is_bad_hint(&error) {
            return Refused::before(index_missing(&self.shared.settings.child_index));
        }
        if code(&error) == Some(IMMUTABLE_FIELD) {
            let message =
                "the child's `_id` is not that of the stored one, nothing was stored: leave it out, or keep it";
            return Refused::before(Error::new(ErrorKind::InvalidArgument, message));
        }
        self.confirmed(error.into(), 0)
    }

    /// What is done but not confirmed as its write concern asks is done.
    fn confirmed(&self, error: Error, stored: usize) -> Refused {
        let stored = match error.kind() {
            ErrorKind::WriteConcern => self.children(),
            _ => stored,
        };
        Refused {
            refresh: stored > 0,
            stored,
            error,
        }
    }
}

impl Written {
    /// By how many such children there were, and how many of them were changed.
    fn child(found: u64, modified: u64) -> Self {
        Self {
            found: found > 0,
            modified: modified > 0,
            ..Self::default()
        }
    }
}

impl Refused {
    /// With nothing stored.
    fn before(error: Error) -> Self {
        Self {
            error,
            stored: 0,
            refresh: false,
        }
    }

    fn into_error(self) -> Error {
        match self.stored {
            0 => self.error,
            // Of the children: those before it are stored, and their parents are right.
            stored => self.error.with_stored(stored as u64),
        }
    }
}

fn value(child: &RawDocumentBuf, field: &FieldName) -> Option<Bson> {
    child.get(field.as_str()).ok()?.map(Bson::try_from)?.ok()
}
