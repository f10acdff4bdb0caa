//! The check of existing shard keys.

use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf};

use super::cluster::{of_collections, unsuitable};
use super::commands;
use crate::conn::Conn;
use crate::error::Result;
use crate::index::Ensure;
use crate::shard_key::{ShardKeyChoice, UnsuitableShardKey};
use crate::topology::Topology;

crate::action! {
    /// Names the collections of a repository that are sharded by an unsuitable key; returned by
    /// [`Repository::verify_shard_keys`](crate::Repository::verify_shard_keys).
    pub struct VerifyShardKeys<'a> {
        shared: Ensure<'a>,
    }
    "verify_shard_keys" => Vec<UnsuitableShardKey>
}

impl<'a> VerifyShardKeys<'a> {
    /// Creates the action.
    #[doc(hidden)]
    pub fn new(shared: Ensure<'a>) -> Self {
        Self::create(shared)
    }

    async fn execute(self) -> Result<Vec<UnsuitableShardKey>> {
        let conn = &mut Conn::new();
        let on = self.shared.call.collection;
        if Topology::read(on, conn).await? != Topology::Router {
            return Ok(Vec::new());
        }
        let collections = self.shared.in_cluster();
        let choices = || collections.iter().map(|managed| &managed.shard_key);
        let documents = read_collections(on, choices(), conn).await?;
        Ok(unsuitable(choices(), &documents))
    }
}

/// Reads the documents of all collections of a repository in `config.collections`, by one command.
pub(super) async fn read_collections<'c>(
    on: &Collection<RawDocumentBuf>,
    choices: impl IntoIterator<Item = &'c ShardKeyChoice>,
    conn: &mut Conn<'_>,
) -> Result<Vec<Document>> {
    let filter = of_collections(choices.into_iter().map(|choice| &choice.namespace));
    let find = commands::find_collections("look for existing shard keys", on, filter);
    let reply = conn.read(find).await.map_err(commands::explained)?;
    Ok(reply.decoded()?)
}
