//! The requirements of a follower.

use crate::prelude::*;
use crate::query::follow;
use crate::repository::{Shared, is_replicated};

/// The wire version of MongoDB 6.0.
const WIRE_VERSION: i32 = 17;

/// Checks that the server has change streams with pre-images.
///
/// # Errors
/// [`Unsupported`](ErrorKind::Unsupported).
pub(super) async fn check_server(shared: &Shared) -> Result<()> {
    let unsupported = |message: &'static str| Err(Error::new(ErrorKind::Unsupported, message));
    let hello = shared.hello().await?;
    if !is_replicated(&hello) {
        return unsupported(
            "a standalone server has no change streams: make it a replica set of one node, or call repair()",
        );
    }
    if hello
        .get_i32("maxWireVersion")
        .is_ok_and(|version| version < WIRE_VERSION)
    {
        return unsupported(
            "the server is older than MongoDB 6.0, and has no pre-images of deleted children: update it, or call repair()",
        );
    }
    Ok(())
}

/// Checks that pre-images of the children are enabled, or enables them.
///
/// # Errors
/// [`PreImagesDisabled`](ErrorKind::PreImagesDisabled).
pub(super) async fn check_pre_images(shared: &Shared, enable: bool) -> Result<()> {
    let children = &shared.children;
    let database = children.client().database(&children.namespace().db);
    let found = database.list_collections().filter(follow::options_of(children.name()));
    let mut found = found.await.map_err(CommandError::of_read)?;
    let found: Option<_> = found.try_next().await.map_err(CommandError::of_read)?;
    let images = found.and_then(|found| found.options.change_stream_pre_and_post_images);
    if images.is_some_and(|images| images.enabled) {
        return Ok(());
    }
    if !enable {
        return Err(Error::new(
            ErrorKind::PreImagesDisabled,
            "pre-images of the children are disabled, so the parent of a deleted or moved child would be unknown: call enable_pre_images() on this action, or set changeStreamPreAndPostImages of their collection",
        ));
    }
    database.run_command(follow::enable_pre_images(children.name())).await?;
    Ok(())
}
