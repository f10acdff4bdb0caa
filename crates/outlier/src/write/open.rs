//! Opens extras, in one transaction with the flag.
//!
//! So there are never extras without a flag. Were the flag set after them, another push, which saw a flag that a rebalance
//! has taken away since, could fill them before: its element would be stored and acknowledged, and nobody would see it.

use mongo_patterns_core::error::duplicate_key;
use mongo_patterns_core::key_locks::LockedKeys;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{Error, ErrorKind, Result, document_id, send, transaction};
use mongodb::bson::{Bson, RawDocumentBuf, doc};
use mongodb::error::Error as DriverError;

use crate::form::overflow::extras_documents;
use crate::query;
use crate::repository::Shared;
use crate::write::push::{Store, not_found};

/// A field that the main document has for a moment, within the transaction. To set a flag that is set is no write, and
/// would not conflict with a rebalance that takes it away.
const OPENING: &str = "mongo_patterns_opening";

/// What came of opening extras.
pub(crate) enum Opened {
    /// So many elements are stored.
    Stored(usize),
    /// Nothing: another task of this process opened some, or was about to.
    Waited,
    /// Nothing: another writer was faster.
    Taken,
    /// Elements are unique, and other extras have the one there is.
    IsThere,
    /// There are no transactions, and so no rebalance: the flag can be set afterwards.
    Standalone,
}

impl Store<'_> {
    /// Opens extras from a position on with the elements that are left. If the call had locked the document, and has
    /// unlocked it, this locks it exclusively: other pushes of this process would wait for the transaction on the server,
    /// and keep the connections that it needs.
    pub(crate) async fn open_with_flag(&self, seq: i32, had_locked: bool) -> Result<Opened> {
        let Shared {
            main,
            settings,
            openers,
            ..
        } = self.shared;
        let id = document_id::text(self.id);
        // Many tasks find the newest extras full at the same moment. One opens the next. A caller that has locked the
        // document already is alone, and must not wait for an opener, which waits for that lock.
        let locked = if had_locked {
            let Some(opener) = openers.exclusive_or_wait(&id).await else {
                return Ok(Opened::Waited);
            };
            opener.and(self.shared.locks.exclusive(&id).await)
        } else {
            LockedKeys::default()
        };
        let (documents, counts) = extras_documents(self.shared, self.id, seq, self.rest())?;
        let context = (self, documents.as_slice());
        let opened = transaction::run(
            main,
            &settings.retry,
            None,
            locked,
            context,
            |session, (store, documents)| Box::pin(store.open_in(documents, session)),
        );
        match opened.await {
            Ok(()) => Ok(Opened::Stored(counts.iter().sum())),
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(Opened::Standalone),
            Err(error) if error.as_driver_error().is_some() => Err(error),
            Err(error) => match error.kind() {
                ErrorKind::Contention => Ok(Opened::Taken),
                ErrorKind::DuplicateKey => Ok(Opened::IsThere),
                _ => Err(error),
            },
        }
    }

    async fn open_in(&self, documents: &[RawDocumentBuf], session: &mut Session<'_>) -> Result<()> {
        let Shared { overflow, .. } = self.shared;
        if !hold_and_flag(self.shared, self.id, &mut *session).await? {
            return Err(not_found());
        }
        let Err(error) = send::insert_many(Some(session), overflow, documents, None).await else {
            return Ok(());
        };
        Err(self.refused(error))
    }

    /// A duplicate key without the driver's error, by which the transaction would be run again.
    fn refused(&self, error: DriverError) -> Error {
        if self.is_element(&error) {
            return Error::new(ErrorKind::DuplicateKey, "other extras have the element");
        }
        if duplicate_key(&error).is_some() {
            return Error::new(ErrorKind::Contention, "another writer opened the extras");
        }
        error.into()
    }
}

/// In a transaction: sets the flag, by a write that conflicts with others. Returns whether there is such a document.
pub(crate) async fn hold_and_flag(shared: &Shared, id: &Bson, session: &mut Session<'_>) -> Result<bool> {
    let Shared { main, settings, .. } = shared;
    let set = doc! { "$set": { settings.flag.as_str(): true, OPENING: true } };
    let update = send::update_one(Some(&mut *session), main, query::by_id(id), set, None).await?;
    let unset = doc! { "$unset": { OPENING: true } };
    send::update_one(Some(session), main, query::by_id(id), unset, None).await?;
    Ok(update.matched_count > 0)
}
