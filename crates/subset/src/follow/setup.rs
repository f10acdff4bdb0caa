//! Whether the server, and the collection of the children, can be followed.

use futures::TryStreamExt;
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::{Document, doc};

use crate::repository::Shared;

/// The wire version of MongoDB 6.0.
const WIRE_VERSION: i32 = 17;

/// Checks that the server has change streams that tell what a child was.
pub(crate) async fn check_server(shared: &Shared) -> Result<()> {
    let unsupported = |message: &'static str| Err(Error::new(ErrorKind::Unsupported, message));
    let admin = shared.children.client().database("admin");
    let hello: Document = admin.run_command(doc! { "hello": 1 }).await?;
    let is_cluster = hello.contains_key("setName") || hello.get_str("msg").is_ok_and(|msg| msg == "isdbgrid");
    if !is_cluster {
        return unsupported(
            "a standalone server has no change streams: make it a replica set, of one node if need be, or call repair()",
        );
    }
    if hello
        .get_i32("maxWireVersion")
        .is_ok_and(|version| version < WIRE_VERSION)
    {
        return unsupported(
            "to follow deleted children needs MongoDB 6.0, which keeps what they were: update it, or call repair()",
        );
    }
    Ok(())
}

/// Checks that the server keeps what the children were before each change, or makes it keep that from now on.
pub(crate) async fn check_pre_images(shared: &Shared, enable: bool) -> Result<()> {
    let children = &shared.children;
    let database = children.client().database(&children.namespace().db);
    let found = database.list_collections().filter(doc! { "name": children.name() });
    let found: Option<_> = found.await?.try_next().await?;
    let images = found.and_then(|found| found.options.change_stream_pre_and_post_images);
    if images.is_some_and(|images| images.enabled) {
        return Ok(());
    }
    if !enable {
        return Err(Error::new(
            ErrorKind::PreImagesDisabled,
            "the server does not keep what a deleted or moved child was, so its parent would not be known: call enable_pre_images() on this action, or set changeStreamPreAndPostImages of the children's collection",
        ));
    }
    let images = doc! { "enabled": true };
    database
        .run_command(doc! { "collMod": children.name(), "changeStreamPreAndPostImages": images })
        .await?;
    Ok(())
}
