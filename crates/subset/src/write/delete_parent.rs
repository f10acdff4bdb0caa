//! The deletion of a parent with its children.
//!
//! # Design
//!
//! ## Why is an unmanaged parent checked before it is deleted?
//!
//! A migration that is running would insert its children again, as children without a parent.

use crate::read::unmanaged;
use crate::repository::prelude::*;
use crate::results::DeletedParent;

pub(crate) async fn delete_parent(shared: &Shared, parent: &Bson, conn: &mut Conn<'_>) -> Result<DeletedParent> {
    transaction::run(
        &shared.parents,
        &shared.settings.retry,
        conn,
        (shared, parent),
        |conn, (shared, parent)| Box::pin(delete(shared, parent, conn)),
    )
    .await
}

async fn delete(shared: &Shared, parent: &Bson, conn: &mut Conn<'_>) -> Result<DeletedParent> {
    let Shared { children, settings, .. } = shared;
    shared.managed.forget(parent);
    let mut found = false;
    let mut deletable = Some(query::managed(settings, parent));
    while let Some(filter) = deletable {
        let deleted = conn.delete_one(&shared.parents, filter, None).await?;
        found = deleted.deleted_count > 0;
        deletable = match found {
            true => None,
            false => unmanaged::deletable(shared, parent, conn).await?,
        };
    }
    let filter = query::children_of(settings, parent);
    let options = options::delete_children(settings);
    let deleted = conn.delete_many(children, filter, options).await;
    let deleted = deleted.map_err(|error| hinted(error, &settings.child_index))?;
    Ok(DeletedParent {
        found,
        children: deleted.deleted_count,
    })
}
