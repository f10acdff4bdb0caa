//! The check of existing shard keys.

use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf};

use super::choice::{ShardKeyChoice, Sharding, UnsuitableShardKey};
use super::cluster::{of_collections, unsuitable};
use super::commands;
use crate::error::Result;
use crate::migration::Steps;
use crate::topology::Topology;

crate::action! {
    /// Names the collections of a repository that are sharded by an unsuitable key; returned by its
    /// `verify_shard_keys()`.
    pub struct VerifyShardKeys<'a> {
        shared: Sharding<'a>,
    }
    "verify_shard_keys" => Vec<UnsuitableShardKey>
}

impl<'a> VerifyShardKeys<'a> {
    /// Creates the action.
    #[doc(hidden)]
    pub fn new(shared: Sharding<'a>) -> Self {
        Self::create(shared)
    }

    async fn execute(self) -> Result<Vec<UnsuitableShardKey>> {
        let steps = &mut Steps::run();
        let on = self.shared.ensure.collection;
        if Topology::read_in(on, steps).await? != Topology::Router {
            return Ok(Vec::new());
        }
        let choices = || self.shared.targets.iter().map(|target| &target.choice);
        let documents = read_collections(on, choices(), steps).await?;
        Ok(unsuitable(choices(), &documents))
    }
}

/// Reads the documents of all collections of a repository in `config.collections`, by one command.
pub(super) async fn read_collections<'c>(
    on: &Collection<RawDocumentBuf>,
    choices: impl IntoIterator<Item = &'c ShardKeyChoice>,
    steps: &mut Steps<'_, '_>,
) -> Result<Vec<Document>> {
    let filter = of_collections(choices.into_iter().map(|choice| &choice.namespace));
    let find = commands::find_collections("look for existing shard keys", on, filter);
    let reply = steps.read(find).await.map_err(commands::explained)?;
    Ok(reply.decoded()?)
}
