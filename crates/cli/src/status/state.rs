//! What is known of a database.

use std::collections::HashMap;

use mongo_patterns_core::catalog::{COLLECTION, MigrationRecord, migrations};
use mongodb::Namespace;
use mongodb::bson::{DateTime, Document, doc};

use super::entries::{Entries, Entry, Index};
use super::facts::{Facts, Listed, Size};
use crate::context::Context;
use crate::failure::Failure;

/// The catalog, and what the server knows of its collections.
pub(super) struct Status {
    pub(super) entries: Entries,
    pub(super) facts: HashMap<Namespace, Facts>,
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
        self.facts.get(namespace)?.size
    }

    pub(super) fn is_view(&self, namespace: &Namespace) -> bool {
        self.facts.get(namespace).is_some_and(|facts| facts.is_view)
    }

    /// Returns the bytes of the largest of some documents.
    pub(super) fn largest(&self, namespace: &Namespace) -> u64 {
        self.size_of(namespace).map_or(0, |size| size.largest)
    }

    /// Returns what is known of the collection of an entry of this pattern.
    pub(super) fn facts_of(&self, entry: &Entry, pattern: &str) -> Option<&Facts> {
        self.facts.get(&entry.collection).filter(|_| entry.pattern == pattern)
    }

    /// Returns the number of documents that a trash has past their time.
    pub(super) fn expired(&self, entry: &Entry) -> Option<u64> {
        let mut second = entry.related.iter().filter(|_| entry.pattern == "trash");
        second.find_map(|second| self.facts.get(second)?.expired)
    }

    /// Returns the indexes that an entry needs and that are missing.
    pub(super) fn missing_of<'e>(&self, entry: &'e Entry) -> impl Iterator<Item = &'e Index> {
        let facts = |index: &Index| self.facts.get(&index.namespace);
        let indexes = entry.indexes.iter();
        indexes.filter(move |index| !facts(index).is_some_and(|facts| facts.serves(index)))
    }

    /// Returns whether a migration of a collection of an entry has not finished.
    pub(super) fn is_being_migrated(&self, entry: &Entry) -> bool {
        let is_own = |name: &str| {
            let mut own = entry.collections().filter(|one| one.db == entry.collection.db);
            own.any(|one| one.coll == name)
        };
        let mut unfinished = self.migrations.iter().filter(|record| record.finished.is_none());
        unfinished.any(|record| is_own(&record.collection) || record.settings.get_str("source").is_ok_and(is_own))
    }

    /// Returns the record of the last migration to the pattern of an entry.
    pub(super) fn migration_of(&self, entry: &Entry) -> Option<&MigrationRecord> {
        self.migrations.iter().find(|record| is_of(record, entry))
    }

    /// Returns the records of migrations that no entry has, such as one that leaves the pattern.
    pub(super) fn other_migrations(&self) -> impl Iterator<Item = &MigrationRecord> {
        let is_other = |record: &&MigrationRecord| !self.entries.managed.iter().any(|entry| is_of(record, entry));
        self.migrations.iter().filter(is_other)
    }

    /// Returns how long ago a time was, in milliseconds.
    pub(super) fn millis_since(&self, time: DateTime) -> i64 {
        self.now.timestamp_millis() - time.timestamp_millis()
    }
}

fn is_of(record: &MigrationRecord, entry: &Entry) -> bool {
    let is_its = |namespace: &Namespace| namespace.coll == record.collection && namespace.db == entry.collection.db;
    record
        .settings
        .get_str("pattern")
        .is_ok_and(|pattern| pattern == entry.pattern)
        && entry.collections().any(is_its)
}

pub(super) async fn read(context: &Context) -> Result<Status, Failure> {
    let (database, client) = (&context.database, context.database.client());
    let entries = Entries::read(database).await?;
    let collections = entries.collections();
    let listed = Listed::read(client, database.name(), &collections).await?;
    if listed.of(database.name()).next().is_none() {
        return Err(Failure::usage(format!(
            "there is no database {}, or it has no collections: check --db",
            database.name()
        )));
    }
    let admin = client.database("admin");
    let hello = admin.run_command(doc! { "hello": 1 }).await?;
    let build: Document = admin.run_command(doc! { "buildInfo": 1 }).await?;
    let own = |name: &str| Namespace::new(database.name(), name);
    let unmanaged = listed
        .of(database.name())
        .filter(|name| !collections.contains(&own(name)) && *name != COLLECTION);
    let unmanaged = unmanaged.map(str::to_owned).collect();
    let mut facts = HashMap::new();
    for namespace in collections {
        let of_collection = Facts::read(client, &namespace, &listed, &entries.managed).await?;
        facts.insert(namespace, of_collection);
    }
    Ok(Status {
        unmanaged,
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
