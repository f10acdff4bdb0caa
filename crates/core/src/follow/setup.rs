//! The requirements of a follower.

use super::{Target, commands};
use crate::error::{CommandError, Error, ErrorKind, Result};
use crate::send;

/// The wire version of MongoDB 6.0.
const WIRE_VERSION: i32 = 17;

/// Checks that the server has the change streams of MongoDB 6.0.
///
/// # Errors
/// [`Unsupported`](ErrorKind::Unsupported).
pub(super) async fn check_server(target: &dyn Target) -> Result<()> {
    let unsupported = |message: &'static str| Err(Error::new(ErrorKind::Unsupported, message));
    let admin = target.watched().client().database("admin");
    let hello = admin
        .run_command(commands::hello())
        .await
        .map_err(CommandError::of_read)?;
    let is_replicated = hello.contains_key("setName") || hello.get_str("msg").is_ok_and(|msg| msg == "isdbgrid");
    if !is_replicated {
        return unsupported(
            "a standalone server has no change streams: make it a replica set of one node, or call repair()",
        );
    }
    if hello
        .get_i32("maxWireVersion")
        .is_ok_and(|version| version < WIRE_VERSION)
    {
        return unsupported(target.texts().old_server);
    }
    Ok(())
}

/// Checks that pre-images of the collection are enabled, or enables them. Does nothing for a target that needs none.
///
/// # Errors
/// [`PreImagesDisabled`](ErrorKind::PreImagesDisabled).
pub(super) async fn check_pre_images(target: &dyn Target, enable: bool) -> Result<()> {
    let Some(disabled) = target.texts().pre_images_disabled else {
        return Ok(());
    };
    let watched = target.watched();
    let database = watched.client().database(&watched.namespace().db);
    let options = send::collection_options(&database, watched.name())
        .await?
        .unwrap_or_default();
    let images = options.get_document("changeStreamPreAndPostImages");
    if images.is_ok_and(|images| images.get_bool("enabled").unwrap_or(false)) {
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
