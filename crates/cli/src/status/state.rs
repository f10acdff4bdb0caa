//! What is known of a database.

use mongo_patterns_core::catalog::{COLLECTION, MigrationRecord, migrations};
use mongodb::Namespace;
use mongodb::bson::{DateTime, Document, doc};

use super::entries::{Entries, Entry};
use super::facts::{Facts, Listed, Size};
use crate::context::Context;
use crate::failure::Failure;

/// The catalog, and what the server knows of its collections.
pub(super) struct Status {
    pub(super) entries: Entries,
    pub(super) facts: Vec<Facts>,
    pub(super) migrations: Vec<MigrationRecord>,
    /// The collections that no entry names.
    pub(super) unmanaged: Vec<String>,
    /// The time of the server.
    pub(super) now: DateTime,
    pub(super) server: String,
}

impl Status {
    /// Returns what is known of a collection, if it exists.
    pub(super) fn size_of(&self, namespace: &Namespace) -> Option<Size> {
        self.facts_of(namespace)?.size
    }

    pub(super) fn facts_of(&self, namespace: &Namespace) -> Option<&Facts> {
        self.facts.iter().find(|facts| facts.namespace == *namespace)
    }

    /// Returns the collections and names of the indexes that an entry needs and that are missing.
    pub(super) fn missing_of<'e>(&self, entry: &'e Entry) -> impl Iterator<Item = &'e (Namespace, String)> {
        let has = |namespace, name: &str| self.facts_of(namespace).is_some_and(|facts| facts.has_index(name));
        entry
            .indexes
            .iter()
            .filter(move |(namespace, name)| !has(namespace, name))
    }
}

pub(super) async fn read(context: &Context) -> Result<Status, Failure> {
    let database = &context.database;
    let listed = Listed::read(database).await?;
    if listed.is_empty() {
        return Err(Failure::usage(format!(
            "there is no database {}, or it has no collections: check --db",
            database.name()
        )));
    }
    let entries = Entries::read(database).await?;
    let admin = database.client().database("admin");
    let hello = admin.run_command(doc! { "hello": 1 }).await?;
    let build: Document = admin.run_command(doc! { "buildInfo": 1 }).await?;
    let mut facts = Vec::new();
    for collection in entries.collections() {
        facts.push(Facts::read(context, &collection, &listed).await?);
    }
    let unmanaged = listed.names().filter(|name| {
        let is_known = facts.iter().any(|facts| facts.is(database.name(), name));
        !is_known && *name != COLLECTION
    });
    Ok(Status {
        unmanaged: unmanaged.map(str::to_owned).collect(),
        migrations: migrations(database).await?,
        now: hello
            .get_datetime("localTime")
            .copied()
            .unwrap_or_else(|_| DateTime::now()),
        server: build.get_str("version").unwrap_or("?").to_owned(),
        entries,
        facts,
    })
}
