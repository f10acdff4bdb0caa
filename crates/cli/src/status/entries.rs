//! The catalog of the database, as a whole.

use std::collections::BTreeSet;

use futures::TryStreamExt;
use mongo_patterns_core::catalog::{COLLECTION, conflicts};
use mongodb::bson::{DateTime, Document, doc};
use mongodb::options::ReadPreference;
use mongodb::{Database, Namespace};

use crate::failure::Failure;

/// The documents of the catalog, but for those of migrations and files.
pub(super) struct Entries {
    pub(super) managed: Vec<Entry>,
    pub(super) followers: Vec<Follower>,
    pub(super) leases: Vec<Lease>,
    pub(super) steps: Vec<Steps>,
    /// What two entries own both: their positions in `managed`, and the collection or the field.
    pub(super) conflicts: Vec<(usize, usize, String)>,
}

/// The entry of a repository.
pub(super) struct Entry {
    pub(super) pattern: String,
    pub(super) collection: Namespace,
    /// The array field, if one of several can be managed.
    pub(super) field: Option<String>,
    /// Its second collections.
    pub(super) related: Vec<Namespace>,
    pub(super) indexes: Vec<(Namespace, String)>,
    /// Whether its last `ensure_indexes()` has ended.
    pub(super) is_complete: bool,
    pub(super) settings: Document,
}

pub(super) struct Follower {
    pub(super) name: String,
    pub(super) watched: Vec<String>,
    pub(super) updated: Option<DateTime>,
}

/// A lease that was held last by the holder since this time.
pub(super) struct Lease {
    pub(super) name: String,
    pub(super) since: Option<DateTime>,
    pub(super) until: Option<DateTime>,
}

/// The steps of a service.
pub(super) struct Steps {
    pub(super) name: String,
    pub(super) applied: usize,
    pub(super) last: Option<(String, DateTime)>,
}

impl Entries {
    pub(super) async fn read(database: &Database) -> Result<Self, Failure> {
        let catalog = database.collection::<Document>(COLLECTION);
        let others = doc! { "_id.kind": { "$nin": ["migration", "archive_file"] } };
        let find = catalog.find(others).sort(doc! { "_id": 1 });
        let find = find.selection_criteria(ReadPreference::Primary.into());
        let on = || Failure::on(catalog.namespace());
        let found: Vec<Document> = find.await.map_err(on())?.try_collect().await.map_err(on())?;
        let mut entries = Self {
            managed: Vec::new(),
            followers: Vec::new(),
            leases: Vec::new(),
            steps: Vec::new(),
            conflicts: Vec::new(),
        };
        let mut managed = Vec::new();
        for document in found {
            let id = document.get_document("_id").cloned().unwrap_or_default();
            let text = |name: &str| id.get_str(name).unwrap_or_default().to_owned();
            let time = |name: &str| document.get_datetime(name).ok().copied();
            match text("kind").as_str() {
                "follower" => entries.followers.push(Follower {
                    name: text("name"),
                    watched: texts(&document, "watched"),
                    updated: time("updated"),
                }),
                "lease" => entries.leases.push(Lease {
                    name: text("name"),
                    since: time("since"),
                    until: time("until"),
                }),
                "steps" => entries.steps.push(Steps::of(text("name"), &document)),
                pattern if document.contains_key("settings") => {
                    entries
                        .managed
                        .push(Entry::of(pattern, &id, &document, database.name()));
                    managed.push(document);
                }
                _ => {}
            }
        }
        entries.conflicts = conflicts(&managed, database.name());
        Ok(entries)
    }

    /// Returns all collections that entries name, each once, in the order of the entries.
    pub(super) fn collections(&self) -> Vec<Namespace> {
        let mut known = BTreeSet::new();
        let named = self.managed.iter();
        let named = named.flat_map(|entry| std::iter::once(&entry.collection).chain(&entry.related));
        let once = named.filter(|namespace| known.insert(namespace.to_string()));
        once.cloned().collect()
    }
}

impl Entry {
    fn of(pattern: &str, id: &Document, document: &Document, database: &str) -> Self {
        let own = Namespace::new(database, id.get_str("collection").unwrap_or_default());
        let mut related: Vec<Namespace> = Vec::new();
        let parts = ["owns", "indexes"].map(|field| document.get_array(field).into_iter().flatten());
        let [owns, indexes] = parts.map(|parts| parts.filter_map(|part| part.as_document()));
        let namespace_of = |part: &Document| {
            let database = part.get_str("database").unwrap_or(database);
            Namespace::new(database, part.get_str("collection").unwrap_or_default())
        };
        let indexes = indexes.map(|index| {
            (
                namespace_of(index),
                index.get_str("name").unwrap_or_default().to_owned(),
            )
        });
        let indexes: Vec<(Namespace, String)> = indexes.collect();
        let dependents = owns.clone().filter_map(|owned| owned.get_document("dependents").ok());
        let dependents = dependents.filter(|dependents| dependents.contains_key("collection"));
        let named = owns.clone().chain(dependents).map(namespace_of);
        for namespace in named.chain(indexes.iter().map(|(namespace, _)| namespace.clone())) {
            if namespace != own && !related.contains(&namespace) {
                related.push(namespace);
            }
        }
        Self {
            pattern: pattern.to_owned(),
            collection: own,
            field: id.get_str("field").ok().map(str::to_owned),
            related,
            indexes,
            is_complete: document.contains_key("indexes") && !document.contains_key("unconfirmed"),
            settings: document.get_document("settings").cloned().unwrap_or_default(),
        }
    }
}

impl Steps {
    fn of(name: String, document: &Document) -> Self {
        let steps = document.get_array("steps").into_iter().flatten();
        let steps: Vec<&Document> = steps.filter_map(|step| step.as_document()).collect();
        let last = steps.last().and_then(|step| {
            let applied = step.get_datetime("applied").ok()?;
            Some((step.get_str("name").ok()?.to_owned(), *applied))
        });
        let applied = steps.len();
        Self { name, applied, last }
    }
}

fn texts(document: &Document, field: &str) -> Vec<String> {
    let texts = document.get_array(field).into_iter().flatten();
    texts.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}
