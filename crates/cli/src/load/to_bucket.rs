//! Loads items into buckets.

use std::marker::PhantomData;

use mongo_patterns_bucket::BucketRepository;
use mongo_patterns_core::{Error, ErrorKind, Key};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, RawBson, RawDocumentBuf, Uuid};

use super::dates;
use super::item::{Item, Prepared, Role, Shape, encode, remove};
use super::problem::{Problem, Reason};
use super::store::{Store, Tally};
use super::types::Type;
use crate::failure::Failure;

/// A key that is parsed from text.
pub(crate) trait FromText: Sized {
    fn from_text(text: &str) -> Option<Self>;
}

impl FromText for i64 {
    fn from_text(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }
}

impl FromText for String {
    fn from_text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

impl FromText for ObjectId {
    fn from_text(text: &str) -> Option<Self> {
        Self::parse_str(text.trim()).ok()
    }
}

impl FromText for Uuid {
    fn from_text(text: &str) -> Option<Self> {
        Self::parse_str(text.trim()).ok()
    }
}

/// The fields of an item.
pub(crate) struct BucketShape<K> {
    key: Role,
    time: Role,
    item_id: Option<Role>,
    keys: PhantomData<fn() -> K>,
}

impl<K> BucketShape<K> {
    pub(crate) fn new(key: &str, time: &str, item_id: Option<&str>) -> Self {
        let role = |field: &str, text, of| Role {
            field: field.to_owned(),
            text,
            of,
        };
        Self {
            // The key has the type of --key-type.
            key: role(key, "is the key", Some(Type::String)),
            time: role(time, "is the time of the item", Some(Type::Date)),
            item_id: item_id.map(|field| role(field, "identifies the item", None)),
            keys: PhantomData,
        }
    }
}

impl<K: Key + FromText> Shape for BucketShape<K> {
    fn roles(&self) -> Vec<Role> {
        [&self.key, &self.time]
            .into_iter()
            .chain(&self.item_id)
            .cloned()
            .collect()
    }

    fn prepare(&self, mut document: Document) -> Result<Prepared, Problem> {
        let invalid =
            |role: &Role, what: &str| Problem::new(Reason::Invalid, format!("the field `{}` {what}", role.field));
        let key = remove(&mut document, &self.key)?;
        let key: K =
            key_of(&key).ok_or_else(|| invalid(&self.key, "is not a key of the expected type: check --key-type"))?;
        let key = key
            .encode_key()
            .map_err(|error| invalid(&self.key, &format!("cannot be a key: {error}")))?;
        let time = match document.get(&self.time.field) {
            None | Some(Bson::Null) => return Err(Problem::missing(&self.time.field, self.time.text)),
            Some(Bson::DateTime(time)) => Some(*time),
            Some(Bson::String(text)) => dates::iso(text),
            Some(_) => None,
        };
        let time = time.ok_or_else(|| invalid(&self.time, "is not a date, such as 2023-10-26T15:47:03Z"))?;
        document.insert(&self.time.field, time);
        if let Some(id) = self.item_id.as_ref().filter(|id| !document.contains_key(&id.field)) {
            return Err(Problem::missing(&id.field, id.text));
        }
        // The bucket's _id, key, count and array.
        let around = 100 + 2 * key.text().len();
        Ok(Prepared {
            owner: key.value().clone(),
            body: encode(&document, around)?.into(),
            has_id: self.item_id.is_some(),
        })
    }
}

fn key_of<K: Key + FromText>(value: &Bson) -> Option<K> {
    if let Ok(raw) = RawBson::try_from(value.clone())
        && let Some(key) = K::from_stored(raw.as_raw_bson_ref())
    {
        return Some(key);
    }
    value.as_str().and_then(K::from_text)
}

impl<K: Key + FromText> Store for BucketRepository<K, RawDocumentBuf> {
    const COMMANDS: [&'static str; 2] = ["bucket load", "bucket load --dry-run"];
    const WRITTEN: Option<&'static str> = Some("buckets_opened");

    fn namespace(&self) -> String {
        self.collection().namespace().to_string()
    }

    fn advice(&self) -> &'static str {
        "pass --item-id with the field that identifies an item"
    }

    async fn begin(&self) -> Result<(), Failure> {
        self.ensure_indexes().await?;
        Ok(())
    }

    async fn store(&self, items: &[Item]) -> Result<Tally, Error> {
        let Some(key) = items.first().and_then(|item| key_of::<K>(&item.owner)) else {
            return Err(Error::new(
                ErrorKind::InvalidKey,
                "the rows have no key, nothing was stored",
            ));
        };
        let bodies: Vec<RawDocumentBuf> = items.iter().map(Item::document).collect();
        let appended = self.append_many(&key, &bodies).await?;
        Ok(Tally {
            items: appended.items,
            stored_before: appended.already_there,
            written: appended.opened,
            refused: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{DateTime, doc};

    use super::*;

    #[test]
    fn a_key_is_parsed_from_text_and_from_values() {
        assert_eq!(key_of::<i64>(&"12".into()), Some(12));
        assert_eq!(key_of::<i64>(&Bson::Double(12.0)), Some(12));
        assert_eq!(key_of::<i64>(&"twelve".into()), None);
        assert_eq!(key_of::<String>(&"a_b".into()), Some("a_b".to_owned()));
    }

    #[test]
    fn an_item_is_its_row_without_the_key() {
        let shape = BucketShape::<i64>::new("k", "t", Some("i"));
        let prepared = shape.prepare(doc! { "k": "7", "t": "2023-10-26", "i": 1 }).unwrap();
        assert_eq!((prepared.owner, prepared.has_id), (Bson::Int32(7), true));
        let item: Document = prepared.body.as_document().unwrap().try_into().unwrap();
        assert_eq!(item, doc! { "t": DateTime::from_millis(1_698_278_400_000), "i": 1 });
        for (row, reason) in [
            (doc! { "t": "2023-10-26", "i": 1 }, Reason::Missing),
            (doc! { "k": 7, "i": 1 }, Reason::Missing),
            (doc! { "k": 7, "t": "2023-10-26" }, Reason::Missing),
            (doc! { "k": "x", "t": "2023-10-26", "i": 1 }, Reason::Invalid),
            (doc! { "k": 7, "t": 5, "i": 1 }, Reason::Invalid),
        ] {
            assert_eq!(shape.prepare(row.clone()).unwrap_err().reason, reason, "{row}");
        }
    }
}
