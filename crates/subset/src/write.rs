//! Writes of children and of their parents.
//!
//! # Design
//!
//! ## Why is a subset computed from the stored children, and never from a change?
//!
//! A refresh reads the version of the parent, then the first children, and writes them if the version is still the
//! same. So it never overwrites a newer subset by an older one. A writer that has lost against two other refreshes
//! since it wrote its child is done: the second of them began after the first had ended, so it has read that child.
//!
//! ## Why do an update and a delete write the parent even if the subset is unchanged?
//!
//! Two changes can undo each other. A slower refresh, which has read the children between them, would then find the
//! version unchanged and write a subset that no longer exists. Only a new child outside the subset may leave a correct
//! parent as it is: only another write can bring it into the subset, and that write will read it.
//!
//! ## Why do eventual inserts of one process wait for each other's refreshes?
//!
//! Concurrent refreshes of one parent only conflict, and one that begins after several changes covers all of them. See
//! [`refreshes`](crate::repository::refreshes). The changes of the children themselves do not wait.
//!
//! ## Why do transactional inserts of one process share transactions?
//!
//! Transactions that write one parent exclude each other, and each takes as long with many children as with one. See
//! [`joined`].
//!
//! ## Why can an eventual insert and an open transaction miss each other?
//!
//! The transaction reads the children of its snapshot, and the insert reads the committed parent. Only a write conflicts
//! with the transaction, so every insert behind the subset would have to write its parent. The transaction could instead
//! check the parent after its commit. That costs every transactional delete and update a round trip, and the call does
//! not see the commit of the caller's transaction. So it is a documented limit of both consistencies on one parent.
//!
//! ## Why does a transaction increment the version?
//!
//! To write an equal array is no write for the server, and causes no conflict between two transactions. The version
//! always changes. See [`transactional`] for when it does.
//!
//! ## Why does a transaction add to the total and to computed fields, while other writes count?
//!
//! In a transaction that has incremented the version, no other writer can change them. An eventual write has no such
//! protection.

pub(crate) mod change;
mod computed;
pub(crate) mod delete_parent;
pub(crate) mod error;
mod eventual;
mod joined;
pub(crate) mod refresh;
mod transactional;
mod unmanaged;

use std::sync::Arc;

use mongodb::ClientSession;

use self::change::{Change, Write, Written};
use crate::form::child::Child;
use crate::repository::Locked;
use crate::repository::prelude::*;
use crate::results::Inserted;
use crate::settings::Consistency;

/// Inserts a child.
pub(crate) async fn insert(
    shared: &Arc<Shared>,
    child: Child,
    session: Option<&mut ClientSession>,
) -> Result<Inserted> {
    if session.is_none() {
        shared.check_indexes().await?;
        if shared.consistency().await? == Consistency::Transactional {
            return joined::insert(shared, child).await;
        }
    }
    let Child { parent, id, document } = child;
    let write = Write::of_child(shared, parent, id, Change::Insert(vec![document]));
    Ok(run(write, session).await?.into())
}

pub(crate) async fn run(write: Write<'_>, session: Option<&mut ClientSession>) -> Result<Written> {
    let shared = write.shared;
    let mut session = Session::of_caller(session).await?;
    shared.check_indexes().await?;
    // In the caller's transaction for either consistency: other clients do not see its writes, and it does not see theirs.
    // It takes no per-key locks: another task may hold them and wait on the server for what the transaction has locked.
    if let Some(session) = session.as_mut().filter(|session| session.is_in_transaction()) {
        return counted(transactional::write(&write, session).await);
    }
    let consistency = shared.consistency().await?;
    if consistency == Consistency::Eventual {
        let _locked = match write.is_insert() {
            true => shared.lock_for_insert(&write.parents).await,
            false => Locked::Exclusively(shared.lock_exclusively(&write.parents).await),
        };
        return eventual::write(&write, session.as_mut()).await;
    }
    let locked = shared.lock_exclusively(&write.parents).await;
    counted(transactional::run(&write, session.as_mut(), locked).await)
}

/// Counts the refreshes of a write in a transaction.
fn counted(written: Result<Written>) -> Result<Written> {
    if let Ok(written) = &written {
        measure::refreshed("written", written.parents);
    }
    written
}

/// Rebuilds the subset of a parent: in the caller's transaction, or without one by compare-and-set.
pub(crate) async fn rebuild(
    shared: &Shared,
    parent: Bson,
    discard_embedded: bool,
    session: Option<&mut ClientSession>,
) -> Result<Written> {
    let mut session = Session::of_caller(session).await?;
    shared.check_indexes().await?;
    if discard_embedded {
        unmanaged::discard_embedded(shared, &parent, session.as_mut()).await?;
    }
    let write = Write::of_parents(shared, vec![parent], Change::Nothing);
    if let Some(session) = session.as_mut().filter(|session| session.is_in_transaction()) {
        return counted(transactional::write(&write, session).await);
    }
    let _locked = shared.lock_exclusively(&write.parents).await;
    eventual::write(&write, session.as_mut()).await
}
