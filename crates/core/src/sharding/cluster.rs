//! What a sharded cluster reports, and what follows from it. Pure.

use mongodb::Namespace;
use mongodb::bson::{Bson, Document, doc};

use crate::error::{CommandError, Error, ErrorKind, Result, code};
use crate::index::PlannedIndex;
use crate::retry::busy::is_busy;
use crate::shard_key::{ShardKeyChoice, UnsuitableShardKey, is_hashed};
use crate::value::same::same_fields;

/// A sharded collection, by its document in `config.collections`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Existing {
    pub(super) key: Document,
    pub(super) unique: bool,
}

impl Existing {
    /// Finds the document of a collection. `None` for a collection that is not sharded: MongoDB 8.0 has a document of a
    /// moved one.
    pub(super) fn find(namespace: &Namespace, documents: &[Document]) -> Option<Self> {
        let name = namespace.to_string();
        let is_set = |document: &Document, field: &str| document.get_bool(field).unwrap_or(false);
        let document = documents
            .iter()
            .find(|document| document.get_str("_id").is_ok_and(|id| id == name))?;
        if is_set(document, "unsplittable") {
            return None;
        }
        Some(Self {
            key: document.get_document("key").ok()?.clone(),
            unique: is_set(document, "unique"),
        })
    }
}

/// Returns the filter of the documents of collections in `config.collections`.
pub(super) fn of_collections<'a>(namespaces: impl IntoIterator<Item = &'a Namespace>) -> Document {
    let names: Vec<String> = namespaces.into_iter().map(Namespace::to_string).collect();
    doc! { "_id": { "$in": names } }
}

/// Returns the collections that are sharded by a key under which the pattern does not work.
pub(super) fn unsuitable<'a>(
    choices: impl IntoIterator<Item = &'a ShardKeyChoice>,
    documents: &[Document],
) -> Vec<UnsuitableShardKey> {
    let of_choice = |choice: &ShardKeyChoice| {
        let existing = Existing::find(&choice.namespace, documents)?;
        choice.check(&existing.key, existing.unique)
    };
    choices.into_iter().filter_map(of_choice).collect()
}

/// Checks the existing shard key of a collection.
///
/// # Errors
/// [`UnsuitableShardKey`](ErrorKind::UnsuitableShardKey).
pub(super) fn check_existing(choice: &ShardKeyChoice, existing: &Existing) -> Result<()> {
    match choice.check(&existing.key, existing.unique) {
        Some(unsuitable) => Err(Error::new(ErrorKind::UnsuitableShardKey, unsuitable.to_string())),
        None => Ok(()),
    }
}

/// What a refusal to shard a collection means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Refusal {
    /// Another client shards the collection, or has sharded it. If no shard key is stored, the command is repeated.
    Concurrent,
    /// Another client may have sharded the collection. If no shard key is stored, the refusal has another reason.
    Perhaps,
    /// No other client is the reason.
    Final,
}

impl Refusal {
    pub(super) fn of(error: &CommandError) -> Self {
        const ILLEGAL_OPERATION: i32 = 20;
        const ALREADY_INITIALIZED: i32 = 23;
        match code(error) {
            Some(ALREADY_INITIALIZED) => Self::Concurrent,
            _ if is_busy(error) => Self::Concurrent,
            Some(ILLEGAL_OPERATION) => Self::Perhaps,
            _ => Self::Final,
        }
    }
}

/// Checks that the unique indexes of a collection do not exclude a shard key: its fields must be the first ones of each.
/// MongoDB makes an exception for the `_id` index, whose ids are then unique on each shard only.
pub(super) fn check_unique_indexes(namespace: &Namespace, key: &Document, present: &[Document]) -> Result<()> {
    let excludes = |index: &&Document| {
        let Ok(fields) = index.get_document("key") else {
            return false;
        };
        let is_of_id = fields.keys().next().is_some_and(|first| first == "_id");
        let starts_with_key = fields.keys().take(key.len()).eq(key.keys());
        index.get_bool("unique").unwrap_or(false) && !is_of_id && !starts_with_key
    };
    let Some(index) = present.iter().find(excludes) else {
        return Ok(());
    };
    Err(Error::new(
        ErrorKind::UnsuitableShardKey,
        format!(
            "the unique index `{}` of `{namespace}` does not start with the shard key {}, so the server cannot keep it unique on several shards, nothing was changed: drop it, or make it an index that is not unique",
            index.get_str("name").unwrap_or_default(),
            Bson::Document(key.clone())
        ),
    ))
}

/// Returns the index that is missing to support a shard key. `own` is an index of the pattern that supports the recommended
/// key.
pub(super) fn missing_support(
    key: &Document,
    own: Option<&PlannedIndex>,
    present: &[Document],
) -> Option<PlannedIndex> {
    let field = key.keys().next()?.as_str();
    let (name, accepted) = match (is_hashed(key), own) {
        (false, _) if field == "_id" => return None,
        (false, Some(own)) => return Some(own.clone()).filter(|own| !has_name(present, &own.name)),
        (false, None) => {
            let with_id = doc! { field: 1, "_id": 1 };
            (format!("{field}_1__id_1"), vec![with_id, key.clone()])
        }
        (true, _) => (format!("{field}_hashed"), vec![key.clone()]),
    };
    let supports = |index: &Document| {
        const PARTIAL: [&str; 4] = ["partialFilterExpression", "sparse", "collation", "hidden"];
        let of_key = |fields: &Document| accepted.iter().any(|accepted| same_fields(accepted, fields));
        index.get_document("key").is_ok_and(of_key) && !PARTIAL.iter().any(|option| index.contains_key(*option))
    };
    match present.iter().any(supports) {
        true => None,
        false => Some(PlannedIndex::new(name, accepted[0].clone())),
    }
}

/// A definition that differs is reported by the comparison of all planned indexes.
fn has_name(present: &[Document], name: &str) -> bool {
    present.iter().any(|index| index.get_str("name").ok() == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace() -> Namespace {
        Namespace::new("shop", "trades")
    }

    fn choice() -> ShardKeyChoice {
        ShardKeyChoice {
            namespace: namespace(),
            recommended: doc! { "customerId": 1 },
            others: vec![doc! { "customerId": "hashed" }, doc! { "customerId": 1, "seq": 1 }],
            reason: "",
            limits: Vec::new(),
        }
    }

    /// As mongos 6.0 stores it in `config.collections`.
    fn entry(key: Document) -> Document {
        doc! {
            "_id": "shop.trades",
            "lastmodEpoch": mongodb::bson::oid::ObjectId::new(),
            "uuid": mongodb::bson::Uuid::from_bytes([7; 16]),
            "key": key,
            "unique": false,
        }
    }

    #[test]
    fn the_existing_key_is_that_of_a_live_sharded_collection() {
        let found = |entry: Document| Existing::find(&namespace(), &[doc! { "_id": "shop.other", "key": {} }, entry]);
        let sharded = found(entry(doc! { "customerId": 1 })).unwrap();
        assert_eq!((sharded.key, sharded.unique), (doc! { "customerId": 1 }, false));
        let with = |field: &str, value: bool| {
            let mut entry = entry(doc! { "_id": 1 });
            entry.insert(field, value);
            found(entry)
        };
        assert!(with("unsplittable", false).is_some());
        assert!(with("unsplittable", true).is_none(), "MongoDB 8.0");
        assert_eq!(Existing::find(&namespace(), &[]), None);
        assert_eq!(
            of_collections([&namespace()]),
            doc! { "_id": { "$in": ["shop.trades"] } }
        );
    }

    #[test]
    fn a_key_is_suitable_if_it_is_one_of_the_choice() {
        let kind = |key: Document, unique: bool| {
            let mut entry = entry(key);
            entry.insert("unique", unique);
            let existing = Existing::find(&namespace(), &[entry]).unwrap();
            check_existing(&choice(), &existing).err().map(|error| error.kind())
        };
        let unsuitable = Some(ErrorKind::UnsuitableShardKey);
        for (key, expected) in [
            (doc! { "customerId": 1 }, None),
            (doc! { "customerId": 1.0 }, None),
            (doc! { "customerId": "hashed" }, None),
            (doc! { "customerId": 1_i64, "seq": 1 }, None),
            (doc! { "seq": 1, "customerId": 1 }, unsuitable),
            (doc! { "customerId": 1, "_id": 1 }, unsuitable),
            (doc! { "_id": 1 }, unsuitable),
            (doc! { "_id": "hashed" }, unsuitable),
            (doc! { "v": 1 }, unsuitable),
        ] {
            assert_eq!(kind(key.clone(), false), expected, "{key}");
        }
        assert_eq!(kind(doc! { "customerId": 1 }, true), unsuitable);
        assert_eq!(kind(doc! { "customerId": 1, "seq": 1 }, true), None);
    }

    #[test]
    fn a_refusal_is_that_of_a_concurrent_call_by_its_code() {
        let of = |code: i32| {
            let reply = doc! { "ok": 0, "code": code, "codeName": "Name", "errmsg": "" };
            let error = mongodb::error::ErrorKind::Command(mongodb::bson::deserialize_from_document(reply).unwrap());
            Refusal::of(&CommandError::from(mongodb::error::Error::from(error)))
        };
        assert_eq!([117, 12587, 23].map(of), [Refusal::Concurrent; 3]);
        assert_eq!(of(20), Refusal::Perhaps);
        // No privilege, an unsuitable index, another server.
        assert_eq!([13, 72, 59].map(of), [Refusal::Final; 3]);
    }

    #[test]
    fn the_text_names_the_existing_key_and_those_that_work() {
        let found = unsuitable([&choice()], &[entry(doc! { "customerId": 1, "_id": 1 })]);
        let [found] = &found[..] else { panic!("{found:?}") };
        let text = found.to_string();
        for part in [
            "`shop.trades` is sharded by { \"customerId\": 1, \"_id\": 1 }",
            "shard it by { \"customerId\": 1 } or { \"customerId\": \"hashed\" }",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(unsuitable([&choice()], &[entry(doc! { "customerId": 1 })]), []);
        assert_eq!(unsuitable([&choice()], &[]), []);
    }

    #[test]
    fn a_unique_index_must_start_with_the_shard_key() {
        let check = |keys: Document, unique: bool, key: Document| {
            let index = doc! { "v": 2, "key": keys, "name": "n", "unique": unique };
            let result = check_unique_indexes(&namespace(), &key, &[index]);
            result.err().map(|error| error.to_string())
        };
        let key = || doc! { "customerId": 1 };
        assert_eq!(check(doc! { "customerId": 1, "history.id": 1 }, true, key()), None);
        assert_eq!(
            check(doc! { "customerId": 1 }, true, doc! { "customerId": "hashed" }),
            None
        );
        assert_eq!(check(doc! { "_id": 1 }, true, key()), None);
        assert_eq!(check(doc! { "email": 1 }, false, key()), None);
        let refused = check(doc! { "email": 1 }, true, key()).unwrap();
        assert!(refused.contains("the unique index `n` of `shop.trades`"), "{refused}");
        let two = doc! { "customerId": 1, "seq": 1 };
        assert!(check(doc! { "customerId": 1 }, true, two).is_some());
    }

    #[test]
    fn the_supporting_index_has_all_documents_and_no_arrays() {
        let key = doc! { "customerId": 1 };
        let index = |keys: Document| doc! { "v": 2, "key": keys, "name": "n" };
        let with_id = PlannedIndex::new("customerId_1__id_1", doc! { "customerId": 1, "_id": 1 });
        assert_eq!(missing_support(&key, None, &[]), Some(with_id.clone()));
        let mut partial = index(key.clone());
        partial.insert("partialFilterExpression", doc! { "count": { "$lt": 10 } });
        let of_items = index(doc! { "customerId": 1, "history.id": 1 });
        assert_eq!(missing_support(&key, None, &[partial, of_items]), Some(with_id));
        for present in [key.clone(), doc! { "customerId": 1.0, "_id": 1 }] {
            assert_eq!(missing_support(&key, None, &[index(present)]), None);
        }

        let hashed = doc! { "customerId": "hashed" };
        let by_hash = PlannedIndex::new("customerId_hashed", hashed.clone());
        assert_eq!(missing_support(&hashed, None, &[index(key)]), Some(by_hash.clone()));
        assert_eq!(missing_support(&hashed, None, &[index(hashed.clone())]), None);

        assert_eq!(missing_support(&doc! { "_id": 1 }, None, &[]), None);
        let id = PlannedIndex::new("_id_hashed", doc! { "_id": "hashed" });
        assert_eq!(missing_support(&doc! { "_id": "hashed" }, None, &[]), Some(id));

        let own = PlannedIndex::new("parent_1_seq_1", doc! { "parent": 1, "seq": 1 }).unique();
        let key = doc! { "parent": 1 };
        assert_eq!(missing_support(&key, Some(&own), &[]), Some(own.clone()));
        let mut present = own.definition();
        present.insert("v", 2);
        assert_eq!(missing_support(&key, Some(&own), &[present]), None);
        let hashed = PlannedIndex::new("parent_hashed", doc! { "parent": "hashed" });
        assert_eq!(
            missing_support(&doc! { "parent": "hashed" }, Some(&own), &[]),
            Some(hashed)
        );
    }
}
