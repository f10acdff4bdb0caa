//! What is common to the checks of the stored documents.

use std::collections::HashMap;

use anyhow::{Context, Result};
use futures::TryStreamExt;
use mongodb::Database;
use mongodb::bson::{Bson, Document, doc};

use super::load::Ledger;

/// Returns all documents of a collection, by `_id`.
pub(super) async fn all(database: &Database, collection: &str) -> Result<Vec<Document>> {
    let collection = database.collection::<Document>(collection);
    let found = collection.find(doc! {}).sort(doc! { "_id": 1 }).await?;
    Ok(found.try_collect().await?)
}

/// Returns an integer of any type.
pub(super) fn integer(document: &Document, field: &str) -> Result<i64> {
    let value = document.get(field).and_then(|value| match value {
        Bson::Int32(value) => Some(i64::from(*value)),
        Bson::Int64(value) => Some(*value),
        _ => None,
    });
    value.with_context(|| format!("{field} is not an integer"))
}

/// Returns the elements of an array, or none if the document does not have it.
pub(super) fn elements<'a>(document: &'a Document, field: &str) -> Result<&'a [Bson]> {
    match document.get(field) {
        None => Ok(&[]),
        Some(Bson::Array(elements)) => Ok(elements),
        Some(_) => anyhow::bail!("{field} is not an array"),
    }
}

/// How often each operation is stored, by its number.
#[derive(Debug, Default)]
pub(super) struct Times(HashMap<i64, u64>);

impl Times {
    pub(super) fn add(&mut self, number: i64) {
        *self.0.entry(number).or_default() += 1;
    }

    pub(super) fn contains(&self, number: i64) -> bool {
        self.0.contains_key(&number)
    }

    /// Returns how many acknowledged operations that pass a filter are not stored.
    pub(super) fn lost(&self, ledger: &Ledger, is_counted: impl Fn(u64) -> bool) -> u64 {
        let counted = ledger.acknowledged().filter(|number| is_counted(*number));
        counted.filter(|number| !self.contains(*number as i64)).count() as u64
    }

    /// Returns how many operations are stored more than once, acknowledged or not.
    pub(super) fn doubled(&self) -> u64 {
        self.0.values().filter(|times| **times > 1).count() as u64
    }
}
