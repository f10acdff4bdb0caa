//! What the server knows of a collection, by three commands.

use std::collections::{BTreeMap, BTreeSet};

use futures::TryStreamExt;
use mongo_patterns_core::migration::number;
use mongodb::bson::{DateTime, Document, doc};
use mongodb::results::{CollectionSpecification, CollectionType};
use mongodb::{Client, Collection, Namespace};

use super::entries::{Entry, Index};
use crate::analyze::size_of;
use crate::failure::Failure;

/// The number of documents of which the largest is looked for.
pub(super) const SAMPLE: i32 = 1_000;
/// How long after their time the server has deleted the entries of a trash, in milliseconds. It does so every minute.
const DELETED_AFTER_MILLIS: i64 = 60 * 60 * 1000;

/// The collections of each database, without those of the server.
pub(super) struct Listed(BTreeMap<String, BTreeMap<String, CollectionSpecification>>);

/// A collection that entries name.
#[derive(Default)]
pub(super) struct Facts {
    /// `None` if it does not exist.
    pub(super) size: Option<Size>,
    pub(super) is_view: bool,
    pub(super) has_validator: bool,
    indexes: Vec<String>,
    /// The most elements in the array fields of some documents.
    longest: BTreeMap<String, u64>,
    /// The versions of the documents, by an index. 0 stands for none.
    pub(super) versions: Vec<(u64, u64)>,
    /// The time of the oldest document, by the index of an archive.
    pub(super) oldest: Option<DateTime>,
    /// The number of entries that a trash has past their time, by its index.
    pub(super) expired: Option<u64>,
}

#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) documents: u64,
    /// The bytes of the largest of some documents.
    pub(super) largest: u64,
}

impl Listed {
    /// Lists those of a database, and of the databases that entries name. One command for each, and one for each hundred collections.
    pub(super) async fn read(client: &Client, database: &str, entries: &[Namespace]) -> Result<Self, Failure> {
        let others = entries.iter().map(|namespace| namespace.db.as_str());
        let names: BTreeSet<&str> = others.chain([database]).collect();
        let mut all = BTreeMap::new();
        for name in names {
            let on = || Failure::on(format!("`listCollections` on {name}"));
            let listed = client.database(name).list_collections().await.map_err(on())?;
            let listed: Vec<CollectionSpecification> = listed.try_collect().await.map_err(on())?;
            let listed = listed.into_iter().filter(|one| !one.name.starts_with("system."));
            all.insert(name.to_owned(), listed.map(|one| (one.name.clone(), one)).collect());
        }
        Ok(Self(all))
    }

    /// Returns the names of the collections of a database.
    pub(super) fn of(&self, database: &str) -> impl Iterator<Item = &str> {
        self.0
            .get(database)
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str())
    }
}

impl Facts {
    /// Reads what is known of a collection.
    pub(super) async fn read(
        client: &Client,
        namespace: &Namespace,
        listed: &Listed,
        entries: &[Entry],
    ) -> Result<Self, Failure> {
        let of_database = listed.0.get(&namespace.db);
        let Some(one) = of_database.and_then(|listed| listed.get(&namespace.coll)) else {
            return Ok(Self::default());
        };
        if one.collection_type == CollectionType::View {
            let is_view = true;
            return Ok(Self {
                is_view,
                ..Self::default()
            });
        }
        let collection = client.database(&namespace.db).collection::<Document>(&namespace.coll);
        let on = || Failure::on(namespace);
        let mut facts = Self {
            has_validator: one.options.validator.is_some(),
            indexes: collection.list_index_names().await.map_err(on())?,
            ..Self::default()
        };
        let largest = facts.measure(&collection, entries).await.map_err(on())?;
        let documents = collection.estimated_document_count().await.map_err(on())?;
        facts.size = Some(Size { documents, largest });
        Ok(facts)
    }

    /// Reads the sizes of some documents, and what indexes know of all. Returns the bytes of the largest.
    async fn measure(&mut self, collection: &Collection<Document>, entries: &[Entry]) -> mongodb::error::Result<u64> {
        let namespace = collection.namespace();
        let arrays = entries.iter().filter(|entry| entry.collection == namespace);
        let arrays: Vec<&str> = arrays.filter_map(|entry| Some(entry.bound()?.0)).collect();
        let mut group = doc! { "_id": null, "largest": { "$max": { "$bsonSize": "$$ROOT" } } };
        let lengths = arrays.iter().enumerate();
        group.extend(lengths.map(|(n, array)| (n.to_string(), doc! { "$max": size_of(array) }.into())));
        let mut stages = vec![doc! { "$sample": { "size": SAMPLE } }, doc! { "$group": group }];
        let parts = entries.iter().filter_map(|entry| self.part(&namespace, entry));
        stages.extend(parts.map(|part| doc! { "$unionWith": { "coll": &namespace.coll, "pipeline": part } }));
        let rows: Vec<Document> = collection.aggregate(stages).await?.try_collect().await?;
        let mut largest = 0;
        for row in &rows {
            if row.contains_key("largest") {
                largest = number(row, "largest");
                let lengths = arrays.iter().enumerate();
                let lengths = lengths.map(|(n, array)| ((*array).to_owned(), number(row, &n.to_string())));
                self.longest = lengths.collect();
            }
            if row.contains_key("version") {
                self.versions.push((number(row, "version"), number(row, "documents")));
            }
            self.oldest = self.oldest.or(row.get_datetime("oldest").ok().copied());
            if row.contains_key("expired") {
                self.expired = Some(number(row, "expired"));
            }
        }
        Ok(largest)
    }

    /// Returns the stages for what the pattern of an entry knows of a collection by an index.
    fn part(&self, namespace: &Namespace, entry: &Entry) -> Option<Vec<Document>> {
        let is_own = entry.collection == *namespace;
        let by_field = |field: &str| is_own && self.has_index(&format!("{field}_1__id_1"));
        match entry.pattern.as_str() {
            "schema" => entry.setting("version").filter(|field| by_field(field)).map(versions),
            "archive" => entry.setting("age").filter(|field| by_field(field)).map(oldest),
            "trash" if entry.setting("trash_collection") == Some(&namespace.coll) => {
                self.has_index("expiresAt_1").then(expired)
            }
            _ => None,
        }
    }

    fn has_index(&self, name: &str) -> bool {
        self.indexes.iter().any(|index| index == name)
    }

    /// Returns whether it has an index that an entry needs.
    pub(super) fn serves(&self, needed: &Index) -> bool {
        let longer = format!("{}_", needed.name);
        let is_longer = |index: &String| needed.or_longer && index.starts_with(&longer);
        self.has_index(&needed.name) || self.indexes.iter().any(is_longer)
    }

    /// Returns the most elements that an array field of some documents has.
    pub(super) fn longest(&self, array: &str) -> u64 {
        self.longest.get(array).copied().unwrap_or(0)
    }
}

/// Counts the documents of each version. One without the field has version 1.
fn versions(field: &str) -> Vec<Document> {
    let path = format!("${field}");
    let number = doc! { "$cond": [{ "$isNumber": &path }, &path, 0] };
    let version = doc! { "$cond": [{ "$eq": [{ "$ifNull": [&path, null] }, null] }, 1, number] };
    vec![
        doc! { "$sort": { field: 1 } }, // by the index
        doc! { "$group": { "_id": version, "documents": { "$sum": 1_i64 } } },
        doc! { "$sort": { "_id": 1 } },
        doc! { "$project": { "_id": 0, "version": "$_id", "documents": 1 } },
    ]
}

fn oldest(field: &str) -> Vec<Document> {
    vec![
        doc! { "$match": { field: { "$type": "date" } } },
        doc! { "$sort": { field: 1 } },
        doc! { "$limit": 1 },
        doc! { "$project": { "_id": 0, "oldest": format!("${field}") } },
    ]
}

fn expired() -> Vec<Document> {
    let before = DateTime::from_millis(DateTime::now().timestamp_millis() - DELETED_AFTER_MILLIS);
    vec![
        doc! { "$match": { "expiresAt": { "$lt": before } } },
        doc! { "$group": { "_id": null, "expired": { "$sum": 1_i64 } } },
    ]
}
