//! Shards the collections of a pattern, and finds unsuitable shard keys.

use std::fs;
use std::path::PathBuf;

use mongo_patterns_core::sharding::{EnsureSharded, EnsuredSharding, Ids, ShardKeyChoice, VerifyShardKeys};
use mongo_patterns_core::{ErrorKind, Key};
use mongodb::bson::{Bson, Document};
use serde_json::json;

use crate::Context;
use crate::confirm::confirm;
use crate::failure::{Exit, Failure, Outcome};
use crate::load::FromText;
use crate::output::{Output, Record, Summary, to_json};
use crate::selection::id;
use crate::{plan, shell};

#[derive(Debug, clap::Args)]
pub(crate) struct ShardOptions {
    /// Prints the shard keys and every command, in order, and writes nothing. Works on every server.
    #[arg(long)]
    pub(crate) plan: bool,
    /// Uses the hashed form of the shard keys, for keys or ids that ascend.
    #[arg(long, conflicts_with_all = ["presplit", "presplit_file"])]
    pub(crate) hashed: bool,
    /// Splits the chunks of an empty collection at these keys or ids, separated by commas, and distributes them over the
    /// shards. Ids are MongoDB extended JSON, such as 5 or {"$oid": ".."}; other text is a string.
    #[arg(long, value_name = "VALUES", value_delimiter = ',', allow_hyphen_values = true)]
    presplit: Vec<String>,
    /// The same with the lines of a file.
    #[arg(long, value_name = "FILE")]
    presplit_file: Option<PathBuf>,
    /// Confirms that the collections are sharded, which the program cannot undo.
    #[arg(long)]
    yes: bool,
}

impl ShardOptions {
    /// Returns the split points, as text.
    fn points(&self) -> Result<Vec<String>, Failure> {
        let mut points = self.presplit.clone();
        if let Some(file) = &self.presplit_file {
            let failed = |error| Failure::usage(format!("--presplit-file {}: {error}", file.display()));
            let text = fs::read_to_string(file).map_err(failed)?;
            points.extend(text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned));
        }
        Ok(points)
    }

    /// Returns the split points as keys of buckets.
    pub(crate) fn keys<K: Key + FromText>(&self) -> Result<Vec<K>, Failure> {
        let key = |text: &String| {
            // The text is a user value, which errors do not quote.
            K::from_text(text).ok_or_else(|| {
                Failure::usage(
                    "a value of --presplit or --presplit-file does not have the type of the keys: check --key-type",
                )
            })
        };
        self.points()?.iter().map(key).collect()
    }

    /// Sets the options of a call whose split points are ids.
    pub(crate) fn ids<'a>(&self, ensure: EnsureSharded<'a, Ids>) -> Result<EnsureSharded<'a, Ids>, Failure> {
        let ids: Vec<Bson> = self.points()?.iter().map(|text| id(text)).collect();
        let ensure = ensure.presplit(ids);
        Ok(if self.hashed { ensure.hashed() } else { ensure })
    }
}

/// Shards the collections, or prints the plan.
pub(crate) async fn run<P>(
    context: &Context,
    (command, namespace): (&'static str, String),
    ensure: EnsureSharded<'_, P>,
    choices: &[ShardKeyChoice],
    options: &ShardOptions,
) -> Outcome {
    let output = context.output;
    if options.plan {
        let commands = ensure.plan().await?;
        print_choices(output, choices)?;
        return plan::print_of(output, &context.database, "shard", &commands);
    }
    if !options.yes {
        let stays = "a collection that is sharded stays sharded";
        let reason = format!("{stays}, nothing was changed: read the output of --plan, then pass --yes");
        confirm(output, &format!("{stays}: shard the collections?"), reason).await?;
    }
    let ensured = ensure.await?;
    print(output, command, namespace, &ensured)
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

fn print(output: Output, command: &'static str, namespace: String, ensured: &EnsuredSharding) -> Outcome {
    let (mut sharded, mut splits) = (0_u64, 0);
    for collection in &ensured.collections {
        sharded += u64::from(collection.sharded);
        splits += collection.splits;
        let now = if collection.sharded { "now" } else { "before" };
        output.record(Record {
            kind: "collection",
            collection: &collection.namespace.coll,
            id: None,
            text: format!("sharded by {}, {now}", text(&collection.key)),
            fields: vec![
                ("key", json(&collection.key)),
                ("sharded_now", json!(collection.sharded)),
                ("splits", json!(collection.splits)),
            ],
        })?;
    }
    let summary = Summary::new(command, namespace)
        .row("sharded", sharded)
        .row("sharded_before", ensured.collections.len() as u64 - sharded)
        .row("splits", splits)
        .row("indexes_created", ensured.indexes.created.len());
    output.summary(&summary, Exit::Success)?;
    Ok(Exit::Success)
}

/// Prints the collections with an unsuitable shard key. Returns their number.
pub(crate) async fn verify(output: Output, check: VerifyShardKeys<'_>) -> Result<u64, Failure> {
    let unsuitable = match check.await {
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
            fields: vec![
                ("problem", json!("UnsuitableShardKey")),
                ("key", json(&found.key)),
                ("suitable", found.suitable.iter().map(json).collect()),
            ],
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
