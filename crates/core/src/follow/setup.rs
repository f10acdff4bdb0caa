//! The pre-images that a follower requires.

use super::{Target, commands};
use crate::conn::Conn;
use crate::error::{Error, ErrorKind, Result};
use crate::send;

/// Checks that pre-images of the collection are enabled, or enables them. Does nothing for a target that needs none.
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
    Conn::new()
        .run_command(&database, commands::enable_pre_images(watched.name()))
        .await?;
    Ok(())
}
