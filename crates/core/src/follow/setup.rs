//! The requirements of a follower.

use futures::TryStreamExt;

use super::{Target, commands};
use crate::error::{CommandError, Error, ErrorKind, Result};

/// Checks that the server has change streams.
///
/// # Errors
/// [`Unsupported`](ErrorKind::Unsupported).
pub(super) async fn check_server(target: &impl Target) -> Result<()> {
    let admin = target.watched().client().database("admin");
    let hello = admin
        .run_command(commands::hello())
        .await
        .map_err(CommandError::of_read)?;
    let is_replicated = hello.contains_key("setName") || hello.get_str("msg").is_ok_and(|msg| msg == "isdbgrid");
    if is_replicated {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        "a standalone server has no change streams: make it a replica set of one node, or call repair()",
    ))
}

/// Checks that pre-images of the collection are enabled, or enables them. Does nothing for a target that needs none.
///
/// # Errors
/// [`PreImagesDisabled`](ErrorKind::PreImagesDisabled).
pub(super) async fn check_pre_images(target: &impl Target, enable: bool) -> Result<()> {
    let Some(disabled) = target.texts().pre_images_disabled else {
        return Ok(());
    };
    let watched = target.watched();
    let database = watched.client().database(&watched.namespace().db);
    let found = database.list_collections().filter(commands::options_of(watched.name()));
    let mut found = found.await.map_err(CommandError::of_read)?;
    let found: Option<_> = found.try_next().await.map_err(CommandError::of_read)?;
    let images = found.and_then(|found| found.options.change_stream_pre_and_post_images);
    if images.is_some_and(|images| images.enabled) {
        return Ok(());
    }
    if !enable {
        return Err(Error::new(ErrorKind::PreImagesDisabled, disabled));
    }
    database
        .run_command(commands::enable_pre_images(watched.name()))
        .await?;
    Ok(())
}
