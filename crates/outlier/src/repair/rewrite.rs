//! Writes a document and its extras anew, in a transaction: what moves elements between them goes through here.
//!
//! A push of another process can be between two of its commands at any moment. It opens extras in one transaction with
//! the flag, by a write that conflicts with ours, so there are never extras without a flag. Whatever it saw before:
//!
//! - It looks for the newest of the extras. Where we took them away, it opens new ones.
//! - It has seen the newest of the extras to be full, and opens the place after it. Ours [claims](Mending::claim) that
//!   place, so that of two that do so at the same moment one waits or runs again. Where it comes after us, and we took
//!   some away, places between are empty: nothing is lost, and the next rebalance closes them.
//!
//! A caller's session without a transaction may open extras without that. So whoever took the flag away looks
//! for extras once more.

use mongo_patterns_core::key_locks::LockedKeys;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::transaction::hold;
use mongo_patterns_core::{Error, ErrorKind, Result, document_id, send, transaction};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::raw::CString;
use mongodb::bson::{Bson, RawArrayBuf, RawBson, RawDocumentBuf, cstr, doc};
use mongodb::options::{FindOneAndUpdateOptions, ReadConcern, ReadPreference, SelectionCriteria};

use crate::form::document::id_of;
use crate::query;
use crate::query::repair as mend_query;
use crate::repair::check::check;
use crate::repair::fix::{Mending, Stored, mend};
use crate::repair::scan::{look_at, of_primary};
use crate::repository::Shared;

/// A field that an extras document has for a moment, within a transaction.
const HELD: &str = "mongo_patterns_held";

/// The rewriting of one document.
pub(crate) struct Work<'a> {
    shared: &'a Shared,
    id: &'a Bson,
    delete_orphans: bool,
    /// Whether the transaction was run before, and other writers were faster.
    is_again: bool,
}

/// Writes a document and its extras anew, or nothing where all is as it should be.
///
/// # Errors
/// [`Unsupported`](ErrorKind::Unsupported) on a standalone.
pub(crate) async fn rewrite(
    shared: &Shared,
    id: &Bson,
    delete_orphans: bool,
    session: Option<&mut Session<'_>>,
) -> Result<Mending> {
    let is_own = Session::locks_keys(session.as_deref());
    let locked = match is_own {
        true => shared.locks.exclusive(&document_id::text(id)).await,
        false => LockedKeys::default(),
    };
    let work = Work::new(shared, id, delete_orphans);
    let Shared { main, settings, .. } = shared;
    let mending = transaction::run(main, &settings.retry, session, locked.clone(), work, |session, work| {
        Box::pin(work.run(session))
    })
    .await?;
    if is_own && mending.clears_flag {
        flag_if_extras(shared, id).await?;
    }
    Ok(mending)
}

/// Sets the flag where there are extras.
pub(crate) async fn flag_if_extras(shared: &Shared, id: &Bson) -> Result<()> {
    let Shared {
        main,
        overflow,
        settings,
        ..
    } = shared;
    let find = overflow
        .find_one(query::extras_of(settings, id))
        .projection(doc! { "_id": 1 });
    let find = find.selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary));
    if find.read_concern(ReadConcern::local()).await?.is_some() {
        let flag = doc! { "$set": { settings.flag.as_str(): true } };
        main.update_one(query::by_id(id), flag).await?;
    }
    Ok(())
}

impl<'a> Work<'a> {
    pub(crate) fn new(shared: &'a Shared, id: &'a Bson, delete_orphans: bool) -> Self {
        Self {
            shared,
            id,
            delete_orphans,
            is_again: false,
        }
    }

    /// Reads the document and its extras, and decides what is to be done.
    pub(crate) async fn look(&self, mut session: Option<&mut Session<'_>>) -> Result<Mending> {
        let Shared {
            main,
            overflow,
            settings,
            ..
        } = self.shared;
        let (of_main, parts) = (query::by_id(self.id), mend_query::main_parts(settings));
        let of_extras = query::extras_of(settings, self.id);
        let stored = Stored {
            main: of_primary(session.as_deref_mut(), main, of_main, Some(parts))
                .await?
                .pop(),
            extras: of_primary(session, overflow, of_extras, None).await?,
        };
        mend(settings, self.id, stored, self.delete_orphans)
    }

    /// In a transaction: what is seen is so, and is so until it is written.
    async fn run(&mut self, session: &mut Session<'_>) -> Result<Mending> {
        let Shared { main, overflow, .. } = self.shared;
        if self.is_again {
            self.hold_newest(&mut *session).await?;
            hold(main, query::by_id(self.id), &mut *session).await?;
        }
        self.is_again = true;
        let mending = self.look(Some(&mut *session)).await?;
        if mending.is_empty() {
            return Ok(mending);
        }
        if !mending.main.is_empty() {
            let update = vec![doc! { "$set": mending.main.clone() }];
            send::update_one(Some(&mut *session), main, query::by_id(self.id), update, None).await?;
        } else if mending.found {
            // Who writes extras writes the main document, too: it may be deleted at the same moment.
            hold(main, query::by_id(self.id), &mut *session).await?;
        }
        if let Some(place) = mending.claim {
            self.claim(place, &mut *session).await?;
        }
        mending.changes.apply(overflow, &mut *session).await?;
        self.check_again(&mending, session).await?;
        Ok(mending)
    }

    /// Pushes to an outlier write to the newest of its extras, and not to the main document: they wait for us then.
    async fn hold_newest(&self, session: &mut Session<'_>) -> Result<()> {
        let Shared { overflow, settings, .. } = self.shared;
        let (filter, set) = (query::extras_of(settings, self.id), doc! { "$set": { HELD: true } });
        let options = FindOneAndUpdateOptions::builder()
            .sort(doc! { settings.seq.as_str(): -1 })
            .projection(doc! { "_id": 1 })
            .build();
        let newest = send::find_one_and_update(Some(&mut *session), overflow, filter, set, options).await?;
        if let Some(newest) = newest {
            let mut filter = query::extras_of(settings, self.id);
            filter.insert("_id", doc! { "$eq": id_of(&newest) });
            let unset = doc! { "$unset": { HELD: true } };
            send::update_one(Some(session), overflow, filter, unset, None).await?;
        }
        Ok(())
    }

    /// Takes a place among the extras, and gives it back: who opens it at the same moment conflicts.
    async fn claim(&self, place: i64, session: &mut Session<'_>) -> Result<()> {
        let Shared { overflow, settings, .. } = self.shared;
        let name = |name: &str| CString::try_from(name).map_err(mongodb::error::Error::from);
        let claim = ObjectId::new();
        let parent = RawBson::try_from(self.id.clone()).map_err(mongodb::error::Error::from)?;
        let mut document = RawDocumentBuf::new();
        document.append(cstr!("_id"), claim);
        document.append(name(settings.parent.as_str())?, parent);
        document.append(name(settings.seq.as_str())?, place);
        document.append(name(settings.count.as_str())?, 0);
        document.append(name(settings.extras.as_str())?, RawArrayBuf::new());
        send::insert_one(Some(&mut *session), overflow, &document, None).await?;
        let mut filter = query::extras_of(settings, self.id);
        filter.insert("_id", claim);
        send::delete_one(Some(session), overflow, filter, None).await?;
        Ok(())
    }

    /// Before the transaction commits, that it was right.
    async fn check_again(&self, mending: &Mending, session: &mut Session<'_>) -> Result<()> {
        let look = look_at(self.shared, self.id, Some(session)).await?;
        let is_right = match mending.found {
            true => {
                look.elements() == mending.inline + mending.overflow && check(&self.shared.settings, &look).is_empty()
            }
            false => look.extras.is_empty(),
        };
        if is_right {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Corrupt,
            "a document and its extras did not come out right, nothing of it was changed: this is a mistake of the repository, report it",
        ))
    }
}
