//! The deletion of a parent with its children.
//!
//! # Design
//!
//! ## Why is `deleteMany` repeated until it matches nothing?
//!
//! The server deletes in the order of the index. An insert that found the parent before its deletion may store its
//! child behind the position that the server has passed. If the insert then finds the first children unchanged, it does
//! not read the parent again, so it does not undo itself.
//!
//! ## Why is an unmanaged parent checked before it is deleted?
//!
//! A migration that is running would insert its children again, as children without a parent.

use crate::read::{is_in_transaction, unmanaged};
use crate::repository::prelude::*;
use crate::results::DeletedParent;
use crate::settings::Consistency;

pub(crate) async fn delete_parent(
    shared: &Shared,
    parent: &Bson,
    mut session: Option<&mut Session<'_>>,
) -> Result<DeletedParent> {
    if is_in_transaction(session.as_deref()) {
        return delete(shared, parent, session).await;
    }
    let consistency = shared.consistency().await?;
    if consistency == Consistency::Eventual {
        let _locked = shared.lock_exclusively(std::slice::from_ref(parent)).await;
        return delete(shared, parent, session.as_deref_mut()).await;
    }
    let locked = shared.lock_exclusively(std::slice::from_ref(parent)).await;
    transaction::run(
        &shared.parents,
        &shared.settings.retry,
        session,
        locked,
        (shared, parent),
        |session, (shared, parent)| Box::pin(delete(shared, parent, Some(session))),
    )
    .await
}

async fn delete(shared: &Shared, parent: &Bson, mut session: Option<&mut Session<'_>>) -> Result<DeletedParent> {
    let settings = &shared.settings;
    shared.versions.forget(parent);
    shared.managed.forget(parent);
    let mut found = false;
    let mut deletable = Some(query::managed(settings, parent));
    while let Some(filter) = deletable {
        found = delete_one(shared, filter, session.as_deref_mut()).await?;
        deletable = match found {
            true => None,
            false => unmanaged::deletable(shared, parent, session.as_deref_mut()).await?,
        };
    }
    let in_transaction = is_in_transaction(session.as_deref());
    let mut deleted = DeletedParent { found, children: 0 };
    loop {
        let filter = query::children_of(settings, parent);
        let options = options::delete_children(settings);
        let result = send::delete_many(session.as_deref_mut(), &shared.children, filter, options).await;
        let result = result.map_err(|error| match is_bad_hint(&error) {
            true if found && !in_transaction => index_missing(&settings.child_index).with_text(
                "the parent is deleted, but not all of its children, because an index is missing: call ensure_indexes(), then delete_parent(..) again",
            ),
            true => index_missing(&settings.child_index),
            false => Error::from(error),
        })?;
        deleted.children += result.deleted_count;
        if in_transaction || result.deleted_count == 0 {
            return Ok(deleted);
        }
    }
}

async fn delete_one(shared: &Shared, filter: Document, session: Option<&mut Session<'_>>) -> Result<bool> {
    let deleted = send::delete_one(session, &shared.parents, filter, None).await?;
    Ok(deleted.deleted_count > 0)
}
