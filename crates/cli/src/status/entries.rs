//! The catalog of the database, as a whole.

use futures::TryStreamExt;
use mongo_patterns_core::catalog::{COLLECTION, conflicts};
use mongo_patterns_core::migration::number;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::options::ReadPreference;
use mongodb::{Database, Namespace};

use crate::failure::Failure;

/// The format of the entries that this version writes.
const FORMAT: u64 = 1;

/// The documents of the catalog, but for those of migrations and files.
#[derive(Default)]
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
    pub(super) id: Document,
    pub(super) pattern: String,
    pub(super) collection: Namespace,
    /// The array field, if one of several can be managed.
    pub(super) field: Option<String>,
    /// Whether the pattern has no other entry of the collection.
    pub(super) is_only: bool,
    /// Its second collections.
    pub(super) related: Vec<Namespace>,
    pub(super) indexes: Vec<Index>,
    /// Whether its last `ensure_indexes()` has ended.
    pub(super) is_complete: bool,
    /// Whether a later version of the library wrote it.
    pub(super) is_later: bool,
    pub(super) settings: Document,
    pub(super) verified: Option<Verified>,
    /// Why a verification failed.
    pub(super) failed: Option<String>,
}

/// An index that an entry needs.
pub(super) struct Index {
    pub(super) namespace: Namespace,
    pub(super) name: String,
    /// Whether one with further fields does as well.
    pub(super) or_longer: bool,
}

/// The outcome of the last verification.
pub(super) struct Verified {
    pub(super) at: DateTime,
    pub(super) findings: u64,
    /// Whether it has stopped before the last finding.
    pub(super) at_least: bool,
}

pub(super) struct Follower {
    pub(super) name: String,
    pattern: String,
    pub(super) watched: Vec<String>,
    pub(super) updated: Option<DateTime>,
}

/// A lease that was held last by the holder since this time.
pub(super) struct Lease {
    pub(super) name: String,
    pub(super) holder: String,
    pub(super) since: Option<DateTime>,
    pub(super) until: Option<DateTime>,
}

/// The steps of a service.
pub(super) struct Steps {
    pub(super) name: String,
    /// Those that were applied, with their times.
    pub(super) applied: Vec<(String, DateTime)>,
    /// The step in which the last run failed.
    pub(super) failed: Option<String>,
}

impl Entries {
    pub(super) async fn read(database: &Database) -> Result<Self, Failure> {
        let catalog = database.collection::<Document>(COLLECTION);
        let others = doc! { "_id.kind": { "$nin": ["migration", "archive_file"] } };
        let by_collection = doc! { "_id.collection": 1, "_id.kind": 1, "_id.field": 1, "_id.name": 1 };
        let find = catalog.find(others).sort(by_collection);
        let find = find.selection_criteria(ReadPreference::Primary.into());
        let on = || Failure::on(format!("`find` on {}", catalog.namespace()));
        let found: Vec<Document> = find.await.map_err(on())?.try_collect().await.map_err(on())?;
        let (mut entries, mut managed) = (Self::default(), Vec::new());
        for document in found {
            let id = document.get_document("_id").cloned().unwrap_or_default();
            let text = |name: &str| id.get_str(name).unwrap_or_default().to_owned();
            let time = |name: &str| document.get_datetime(name).ok().copied();
            match text("kind").as_str() {
                "follower" => entries.followers.push(Follower {
                    name: text("name"),
                    pattern: pattern_of(&document),
                    watched: texts(&document, "watched"),
                    updated: time("updated"),
                }),
                "lease" => entries.leases.push(Lease {
                    name: text("name"),
                    holder: document
                        .get_object_id("holder")
                        .map(ObjectId::to_hex)
                        .unwrap_or_default(),
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
        let ids: Vec<_> = entries.managed.iter().map(Entry::id_of_collection).collect();
        for (entry, id) in entries.managed.iter_mut().zip(&ids) {
            entry.is_only = ids.iter().filter(|other| *other == id).count() == 1;
        }
        Ok(entries)
    }

    /// Returns all collections that entries name, each once, in the order of the entries.
    pub(super) fn collections(&self) -> Vec<Namespace> {
        let mut known: Vec<Namespace> = Vec::new();
        for namespace in self.managed.iter().flat_map(Entry::collections) {
            if !known.contains(namespace) {
                known.push(namespace.clone());
            }
        }
        known
    }

    /// Returns the follower of an entry.
    pub(super) fn follower_of(&self, entry: &Entry) -> Option<&Follower> {
        let watches = |follower: &&Follower| {
            let is_own = |one: &Namespace| follower.watched.contains(&one.coll);
            follower.pattern == entry.pattern && entry.collections().any(is_own)
        };
        self.followers.iter().find(watches)
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
        let indexes = indexes.map(|index| Index {
            namespace: namespace_of(index),
            name: index.get_str("name").unwrap_or_default().to_owned(),
            or_longer: index.get_bool("or_longer").unwrap_or(false),
        });
        let indexes: Vec<Index> = indexes.collect();
        let settings = document.get_document("settings").cloned().unwrap_or_default();
        let dependents = owns.clone().filter_map(|owned| owned.get_document("dependents").ok());
        let dependents = dependents.filter(|dependents| dependents.contains_key("collection"));
        let named = owns.clone().chain(dependents).map(namespace_of);
        let of_indexes = indexes.iter().map(|index| index.namespace.clone());
        for namespace in named.chain(of_indexes).chain(in_settings(&settings, database)) {
            if namespace != own && !related.contains(&namespace) {
                related.push(namespace);
            }
        }
        let verified = document.get_document("verified").ok();
        Self {
            id: id.clone(),
            pattern: pattern.to_owned(),
            collection: own,
            field: id.get_str("field").ok().map(str::to_owned),
            is_only: true,
            related,
            indexes,
            is_complete: document.contains_key("indexes") && !document.contains_key("unconfirmed"),
            is_later: number(document, "format") > FORMAT,
            settings,
            failed: None,
            verified: verified.and_then(|verified| {
                Some(Verified {
                    at: *verified.get_datetime("at").ok()?,
                    findings: number(verified, "findings"),
                    at_least: verified.get_bool("at_least").unwrap_or(false),
                })
            }),
        }
    }

    fn id_of_collection(&self) -> (String, String) {
        (self.pattern.clone(), self.collection.coll.clone())
    }

    /// Returns its collection and its second ones.
    pub(super) fn collections(&self) -> impl Iterator<Item = &Namespace> {
        std::iter::once(&self.collection).chain(&self.related)
    }

    /// Returns the array field of the documents, and the most elements that the settings allow.
    pub(super) fn bound(&self) -> Option<(&str, u64)> {
        let [array, size] = match self.pattern.as_str() {
            "bucket" => ["items", "page_size"],
            "outlier" => ["array", "threshold"],
            "subset" => ["subset", "size"],
            "embedded" => ["children", "max_children"],
            _ => return None,
        };
        Some((self.setting(array)?, number(&self.settings, size)))
    }

    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get_str(name).ok()
    }

    /// Returns whether some of its copies must follow their sources.
    pub(super) fn needs_follower(&self) -> bool {
        let references = self.settings.get_array("references").into_iter().flatten();
        let mut references = references.filter_map(Bson::as_document);
        self.pattern == "reference" && references.any(|one| !one.get_bool("snapshot").unwrap_or(false))
    }
}

/// Returns the second collections that settings name. An entry that is not complete has no others.
fn in_settings(settings: &Document, database: &str) -> Vec<Namespace> {
    let second = settings.iter().filter_map(|(name, value)| {
        let database_of = settings.get_str(format!("{}_database", name.strip_suffix("_collection")?));
        Some(Namespace::new(database_of.unwrap_or(database), value.as_str()?))
    });
    let lists = ["references", "related"].map(|name| settings.get_array(name).into_iter().flatten());
    let [references, related] = lists.map(|list| list.filter_map(Bson::as_document));
    let references = references.filter_map(|one| Some(Namespace::new(database, one.get_str("collection").ok()?)));
    let related = related.flat_map(|one| ["collection", "archive"].map(|name| one.get_str(name).ok()?.parse().ok()));
    second.chain(references).chain(related.flatten()).collect()
}

impl Steps {
    fn of(name: String, document: &Document) -> Self {
        let steps = document.get_array("steps").into_iter().flatten();
        let applied = steps.filter_map(|step| {
            let step = step.as_document()?;
            Some((
                step.get_str("name").ok()?.to_owned(),
                *step.get_datetime("applied").ok()?,
            ))
        });
        Self {
            name,
            applied: applied.collect(),
            failed: document.get_str("failed").ok().map(str::to_owned),
        }
    }
}

fn pattern_of(record: &Document) -> String {
    let settings = record.get_document("settings").ok();
    let pattern = settings.and_then(|settings| settings.get_str("pattern").ok());
    pattern.unwrap_or_default().to_owned()
}

fn texts(document: &Document, field: &str) -> Vec<String> {
    let texts = document.get_array(field).into_iter().flatten();
    texts.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}
