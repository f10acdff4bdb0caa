//! What the server knows of a collection. Three commands, and one more in another database.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use mongodb::bson::{Bson, Document, doc};
use mongodb::results::CollectionSpecification;
use mongodb::{Database, Namespace};

use crate::context::Context;
use crate::failure::Failure;

/// The number of documents of which the largest is looked for.
pub(super) const SAMPLE: i32 = 1_000;

/// The collections of the database.
pub(super) struct Listed(BTreeMap<String, CollectionSpecification>);

/// A collection that entries name.
pub(super) struct Facts {
    pub(super) namespace: Namespace,
    /// `None` if it does not exist.
    pub(super) size: Option<Size>,
    pub(super) has_validator: bool,
    indexes: Vec<String>,
}

#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) documents: u64,
    /// The bytes of the largest of some documents.
    pub(super) largest: u64,
}

impl Listed {
    /// Lists them. One command, and one for each hundred collections.
    pub(super) async fn read(database: &Database) -> Result<Self, Failure> {
        let on = || Failure::on(database.name());
        let listed: Vec<_> = database
            .list_collections()
            .await
            .map_err(on())?
            .try_collect()
            .await
            .map_err(on())?;
        let listed = listed.into_iter().filter(|one| !one.name.starts_with("system."));
        Ok(Self(listed.map(|one| (one.name.clone(), one)).collect()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl Facts {
    /// Reads what is known of a collection, which can be in another database.
    pub(super) async fn read(context: &Context, namespace: &Namespace, listed: &Listed) -> Result<Self, Failure> {
        let is_own = namespace.db == context.database.name();
        let database = context.database.client().database(&namespace.db);
        let mut facts = Self {
            namespace: namespace.clone(),
            size: None,
            has_validator: false,
            indexes: Vec::new(),
        };
        match is_own {
            true => {
                let Some(one) = listed.0.get(&namespace.coll) else {
                    return Ok(facts);
                };
                facts.has_validator = one.options.validator.is_some();
            }
            false => {
                let named = database
                    .list_collection_names()
                    .filter(doc! { "name": &namespace.coll });
                if named.await.map_err(Failure::on(&namespace.db))?.is_empty() {
                    return Ok(facts);
                }
            }
        }
        let collection = database.collection::<Document>(&namespace.coll);
        let on = || Failure::on(namespace);
        let documents = collection.estimated_document_count().await.map_err(on())?;
        let largest = [
            doc! { "$sample": { "size": SAMPLE } },
            doc! { "$group": { "_id": null, "largest": { "$max": { "$bsonSize": "$$ROOT" } } } },
        ];
        let mut found = collection.aggregate(largest).await.map_err(on())?;
        let found = found.try_next().await.map_err(on())?;
        let largest = match found.as_ref().and_then(|found| found.get("largest")) {
            Some(Bson::Int32(bytes)) => u64::from(bytes.unsigned_abs()),
            _ => 0,
        };
        facts.size = Some(Size { documents, largest });
        facts.indexes = collection.list_index_names().await.map_err(on())?;
        Ok(facts)
    }

    pub(super) fn is(&self, database: &str, collection: &str) -> bool {
        self.namespace.db == database && self.namespace.coll == collection
    }

    pub(super) fn has_index(&self, name: &str) -> bool {
        self.indexes.iter().any(|index| index == name)
    }
}
