//! Chunks of an empty collection, split at given keys and distributed over the shards.

use mongodb::bson::{Bson, Document, RawDocumentBuf};
use mongodb::{Collection, Namespace};

use super::choice::Target;
use super::cluster::{Existing, of_collections};
use super::commands::{self, explained, of_chunks};
use crate::error::Result;
use crate::migration::{Reply, Step, Steps};
use crate::same::same_value;

/// What a plan says instead of the name of a shard, if there is no cluster to ask.
const ANY_SHARD: &str = "(one of the shards in turn)";

/// Returns the first keys of the new chunks: the points, and the least values of further fields of the shard key.
pub(super) fn starts(key: &Document, points: &[Bson]) -> Vec<Document> {
    let mut starts: Vec<Document> = Vec::new();
    for point in points {
        let mut values = vec![point.clone()].into_iter();
        let value = |field: &String| (field.clone(), values.next().unwrap_or(Bson::MinKey));
        let start: Document = key.keys().map(value).collect();
        if !starts.iter().any(|other| is_same_start(other, &start)) {
            starts.push(start);
        }
    }
    starts
}

/// Returns the start of the first chunk.
fn least(key: &Document) -> Document {
    key.keys().map(|field| (field.clone(), Bson::MinKey)).collect()
}

fn is_same_start(a: &Document, b: &Document) -> bool {
    let integer = |value: &Bson| value.as_i64().or(value.as_i32().map(i64::from));
    let same = |a: &Bson, b: &Bson| match (integer(a), integer(b)) {
        // Not by way of a double, which does not distinguish large integers.
        (Some(a), Some(b)) => a == b,
        _ => same_value(a, b),
    };
    a.len() == b.len() && a.values().zip(b.values()).all(|(a, b)| same(a, b))
}

/// The shards, and the chunks that begin at the points.
struct Chunks {
    shards: Vec<String>,
    starts: Vec<(Document, String)>,
}

impl Chunks {
    fn shard_of(&self, start: &Document) -> Option<&str> {
        let chunk = self.starts.iter().find(|(other, _)| is_same_start(other, start));
        chunk.map(|(_, shard)| shard.as_str())
    }

    /// Returns the shard of the chunk at a point, in turn after the shard of the first chunk. `None` without other shards.
    fn target(&self, number: usize, key: &Document) -> Option<&str> {
        if self.shards.len() < 2 {
            return None;
        }
        let first = self.shard_of(&least(key)).unwrap_or_default();
        let home = self.shards.iter().position(|shard| shard == first).unwrap_or(0);
        Some(&self.shards[(home + 1 + number) % self.shards.len()])
    }
}

/// Returns the names of shards that take chunks, in order.
fn shards_of(reply: &Document) -> Vec<String> {
    let shards = reply.get_array("shards").into_iter().flatten();
    let shards = shards.filter_map(Bson::as_document);
    let live = shards.filter(|shard| !shard.get_bool("draining").unwrap_or(false));
    let mut names: Vec<String> = live
        .filter_map(|shard| shard.get_str("_id").ok().map(str::to_owned))
        .collect();
    names.sort();
    names
}

fn chunks_of(documents: &[Document]) -> Vec<(Document, String)> {
    let chunk = |document: &Document| {
        let shard = document.get_str("shard").ok()?;
        Some((document.get_document("min").ok()?.clone(), shard.to_owned()))
    };
    documents.iter().filter_map(chunk).collect()
}

/// Splits the chunks of one collection. Returns how many it has split. In a plan of a collection that is not sharded yet,
/// all points.
pub(super) async fn split(
    target: &Target<'_>,
    (key, existing): (&Document, Option<&Existing>),
    points: &[Bson],
    has_router: bool,
    steps: &mut Steps<'_, '_>,
) -> Result<u64> {
    let (on, namespace) = (target.collection, target.choice.namespace.clone());
    let starts = starts(key, points);
    let shards = read(commands::list_shards(on), has_router, steps).await?;
    let shards = shards.map(|reply| reply.first()).transpose()?;
    let mut chunks = Chunks {
        shards: shards.map_or_else(|| vec![ANY_SHARD.to_owned(); 2], |reply| shards_of(&reply)),
        starts: Vec::new(),
    };
    let uuid = uuid_of(on, &namespace, existing, steps).await?;
    let mut bounds = starts.clone();
    bounds.push(least(key));
    let filter = of_chunks(&namespace, uuid.as_ref(), &bounds);
    let find = commands::find_chunks("look for chunks at the split points", on, filter);
    if let Some(reply) = read(find, existing.is_some(), steps).await? {
        chunks.starts = chunks_of(&reply.decoded()?);
    }
    let mut splits = 0;
    for (number, start) in starts.iter().enumerate() {
        if chunks.shard_of(start).is_some() {
            continue;
        }
        steps.write(commands::split(on, start)).await.map_err(explained)?;
        splits += 1;
        let Some(to) = chunks.target(number, key) else { continue };
        let filter = of_chunks(&namespace, uuid.as_ref(), std::slice::from_ref(start));
        let find = commands::find_chunks("look for the shard of the new chunk", on, filter);
        if let Some(reply) = steps.read_written(find).await.map_err(explained)? {
            let is_there = chunks_of(&reply.decoded()?).iter().all(|(_, shard)| shard == to);
            if is_there {
                continue;
            }
        }
        let moved = steps.write(commands::move_chunk(on, start, to)).await;
        moved.map_err(explained)?;
    }
    Ok(splits)
}

/// Executes a read, in a plan only if there is something to read.
async fn read(step: Step, in_plan: bool, steps: &mut Steps<'_, '_>) -> Result<Option<Reply>> {
    let reply = match in_plan {
        true => steps.read(step).await.map(Some),
        false => steps.read_written(step).await,
    };
    reply.map_err(explained)
}

/// Returns the id of a collection, which one that was just sharded got by that.
async fn uuid_of(
    on: &Collection<RawDocumentBuf>,
    namespace: &Namespace,
    existing: Option<&Existing>,
    steps: &mut Steps<'_, '_>,
) -> Result<Option<Bson>> {
    if let Some(existing) = existing {
        return Ok(existing.uuid.clone());
    }
    let filter = of_collections([namespace]);
    let find = commands::find_collections("look for the id of the collection", on, filter);
    let Some(reply) = steps.read_written(find).await.map_err(explained)? else {
        return Ok(None);
    };
    Ok(Existing::find(namespace, &reply.decoded()?).and_then(|existing| existing.uuid))
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn a_start_has_a_value_for_each_field_of_the_shard_key() {
        let points = [Bson::Int32(5), Bson::Int64(5), Bson::from("a")];
        assert_eq!(starts(&doc! { "k": 1 }, &points), [doc! { "k": 5 }, doc! { "k": "a" }]);
        let [start, _] = &starts(&doc! { "k": 1, "seq": 1 }, &points)[..] else {
            panic!("the equal numbers are one point");
        };
        assert_eq!(start, &doc! { "k": 5, "seq": Bson::MinKey });
        let large = [i64::MAX, i64::MAX - 1].map(Bson::Int64);
        assert_eq!(starts(&doc! { "k": 1 }, &large).len(), 2);
    }

    /// As mongos 5.0 replies.
    #[test]
    fn new_chunks_go_to_the_shards_in_turn() {
        let reply = doc! { "shards": [
            { "_id": "b", "host": "b/localhost:1", "state": 1 },
            { "_id": "a", "host": "a/localhost:2", "state": 1 },
            { "_id": "c", "host": "c/localhost:3", "state": 1, "draining": true },
        ], "ok": 1.0 };
        let key = doc! { "k": 1 };
        let mut chunks = Chunks {
            shards: shards_of(&reply),
            starts: chunks_of(&[
                doc! { "min": { "k": Bson::MinKey }, "shard": "b" },
                doc! { "min": { "k": 5_i64 }, "shard": "a" },
            ]),
        };
        assert_eq!(chunks.shards, ["a", "b"]);
        assert_eq!(chunks.shard_of(&doc! { "k": 5 }), Some("a"));
        assert_eq!(chunks.shard_of(&doc! { "k": 6 }), None);
        let targets: Vec<_> = (0..3).map(|number| chunks.target(number, &key)).collect();
        assert_eq!(targets, [Some("a"), Some("b"), Some("a")]);
        chunks.shards.pop();
        assert_eq!(chunks.target(0, &key), None);
    }
}
