//! Shards the collections of a pattern, and finds unsuitable shard keys.

use mongo_patterns_core::sharding::{EnsuredSharding, ShardKeyChoice};
use mongo_patterns_core::{ErrorKind, Repository};
use mongodb::bson::Document;
use serde_json::json;

use crate::confirm::{Confirmation, confirmed};
use crate::context::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Output, Record, Summary, to_json};
use crate::{plan, shell};

#[derive(Debug, clap::Args)]
pub(crate) struct ShardOptions {
    /// Prints the shard keys and every command, in order, and writes nothing. Works on every server.
    #[arg(long)]
    pub(crate) plan: bool,
    /// Uses the hashed form of the shard keys, for keys or ids that ascend.
    #[arg(long)]
    hashed: bool,
    #[command(flatten)]
    confirmation: Confirmation,
}

/// Shards the collections, or prints the plan.
pub(crate) async fn run(context: &Context, repository: &dyn Repository, options: &ShardOptions) -> Outcome {
    let (output, ensure) = (context.output, repository.ensure_sharded());
    let ensure = if options.hashed { ensure.hashed() } else { ensure };
    if options.plan {
        let commands = ensure.plan().await?;
        print_choices(output, &repository.shard_keys())?;
        return plan::print_of(output, &context.database, "shard", &commands);
    }
    let stays = "a collection that is sharded, as the output of --plan shows, stays sharded";
    confirmed(output, options.confirmation, stays).await?;
    print(output, repository, &ensure.await?)
}

fn print_choices(output: Output, choices: &[ShardKeyChoice]) -> std::io::Result<()> {
    for choice in choices {
        let others: Vec<String> = choice.others.iter().map(text).collect();
        output.text(&format!(
            "// {}: {}, or {}",
            choice.namespace,
            text(&choice.recommended),
            others.join(", or ")
        ))?;
        output.text(&format!("// The reason: {}.", choice.reason))?;
        for limit in &choice.limits {
            output.text(&format!("// A limit: {limit}"))?;
        }
        output.text("")?;
        output.object(&json!({
            "type": "shard_key",
            "collection": choice.namespace.coll,
            "recommended": json(&choice.recommended),
            "others": choice.others.iter().map(json).collect::<Vec<_>>(),
            "reason": choice.reason,
            "limits": choice.limits,
        }))?;
    }
    Ok(())
}

fn print(output: Output, repository: &dyn Repository, ensured: &EnsuredSharding) -> Outcome {
    let mut sharded = 0_u64;
    for collection in &ensured.collections {
        sharded += u64::from(collection.sharded);
        let now = if collection.sharded { "now" } else { "before" };
        output.record(Record {
            kind: "collection",
            collection: &collection.namespace.coll,
            id: None,
            text: format!("sharded by {}, {now}", text(&collection.key)),
            fields: json!({ "key": json(&collection.key), "sharded_now": collection.sharded }),
        })?;
    }
    let summary = Summary::of(repository, "shard")
        .row("sharded", sharded)
        .row("sharded_before", ensured.collections.len() as u64 - sharded)
        .row("created_indexes", ensured.indexes.created.len());
    output.summary(&summary, Exit::Success)?;
    Ok(Exit::Success)
}

/// Prints the collections with an unsuitable shard key. Returns their number.
pub(crate) async fn verify(output: Output, repository: &dyn Repository) -> Result<u64, Failure> {
    let unsuitable = match repository.verify_shard_keys().await {
        Ok(unsuitable) => unsuitable,
        Err(error) if error.kind() == ErrorKind::Unauthorized => {
            output.notice(
                "the shard keys are not checked, because the user may not read config.collections: grant `find` on it",
            );
            return Ok(0);
        }
        Err(error) => return Err(error.into()),
    };
    for found in &unsuitable {
        output.record(Record {
            kind: "finding",
            collection: &found.namespace.coll,
            id: None,
            text: found.to_string(),
            fields: json!({
                "problem": "UnsuitableShardKey",
                "key": json(&found.key),
                "suitable": found.suitable.iter().map(json).collect::<Vec<_>>(),
            }),
        })?;
    }
    Ok(unsuitable.len() as u64)
}

fn text(key: &Document) -> String {
    shell::pretty(&key.clone().into())
}

fn json(key: &Document) -> serde_json::Value {
    to_json(&key.clone().into())
}
