//! What other repositories own in the documents of a collection.
//!
//! # Design
//!
//! ## Why does a call that replaces a document not read the catalog each time?
//!
//! `ensure_indexes()` reads the entries of the others with its own, at no cost. It reads again when this process has written
//! an entry that owns something in the collection since, because a service sets up its repositories in any order. Another
//! process knows a new repository after its restart.
//!
//! ## Why does the server merge the documents?
//!
//! Others write their fields at any time. One command takes the stored values and writes the new document.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mongodb::Namespace;
use mongodb::bson::{Bson, Document, doc};

use super::owned::{field_of, namespace_of};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::update::Fixed;

/// The text about a field of another repository in an update.
const FIXED: &str = "the update changes a field of another repository of the collection, nothing was sent: use the calls of that repository";

/// What other entries of the catalog own in the documents of one collection.
#[doc(hidden)]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Others {
    /// Fields whose stored values stay when a document is replaced.
    kept: Vec<String>,
    /// Fields that belong to the content: the stored value stays if the new document has none.
    with_content: Vec<String>,
    /// Fields that the repository shares, and that another repository alone writes.
    written_alone: Vec<String>,
    dependents: Vec<Dependents>,
}

/// When a repository has its part in the deletion of a document.
///
/// A history records what the document is without its parts, and a trash keeps it so.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A repository of references looks for those that would be left, before anything is deleted.
    References,
    /// One of children, overflow documents, and other parts.
    Parts,
    History,
    Trash,
}

/// Documents of another repository that must not stay without their document of the collection.
#[derive(Clone, Debug, PartialEq)]
struct Dependents {
    /// The pattern of the repository.
    pattern: String,
    /// The call that deletes a document with them, or looks for them first.
    call: String,
    /// `None` if they are in several.
    collection: Option<Namespace>,
}

impl Others {
    /// Reads it in entries of the catalog of a database. Fields that the repository owns itself are left out.
    pub(super) fn of<'e>(
        entries: impl IntoIterator<Item = &'e Document>,
        collection: &Namespace,
        own: &[&str],
        database: &str,
    ) -> Self {
        let mut others = Self::default();
        for entry in entries {
            let pattern = entry
                .get_document("_id")
                .and_then(|id| id.get_str("kind"))
                .unwrap_or_default();
            let owns = entry.get_array("owns").into_iter().flatten();
            let owns = owns.filter_map(Bson::as_document);
            for owned in owns.filter(|owned| namespace_of(owned, database).as_ref() == Some(collection)) {
                others.add(owned, pattern, own, database);
            }
        }
        others
    }

    fn add(&mut self, owned: &Document, pattern: &str, own: &[&str], database: &str) {
        if owned.get_bool("alone").unwrap_or(false) {
            self.written_alone.extend(field_of(owned).map(str::to_owned));
        }
        if let Some(field) = field_of(owned).filter(|field| *field != "_id" && !own.contains(field)) {
            let fields = match owned.get_bool("content") {
                Ok(true) => &mut self.with_content,
                _ => &mut self.kept,
            };
            if !fields.iter().any(|known| known == field) {
                fields.push(field.to_owned());
            }
        }
        if let Ok(dependents) = owned.get_document("dependents") {
            self.dependents.push(Dependents {
                pattern: pattern.to_owned(),
                call: dependents.get_str("call").unwrap_or_default().to_owned(),
                collection: namespace_of(dependents, database),
            });
        }
    }

    /// Returns whether others own fields of the documents.
    pub fn own_fields(&self) -> bool {
        !(self.kept.is_empty() && self.with_content.is_empty())
    }

    /// Returns whether another repository alone writes a field that the repository shares.
    pub fn write_alone(&self, field: &str) -> bool {
        self.written_alone.iter().any(|written| written == field)
    }

    /// Returns the fields whose stored values stay, whatever a new document has.
    pub fn kept(&self) -> &[String] {
        &self.kept
    }

    /// Returns the same for a document that is whole: it has all of its content, such as a stored revision.
    #[must_use]
    pub fn of_whole(&self) -> Self {
        Self {
            with_content: Vec::new(),
            ..self.clone()
        }
    }

    /// Returns the update that replaces a document: by the first fields, the content, the fields that others own, and the
    /// caller's own fields. A later one wins. All except the content are expressions.
    pub fn replace(&self, first: Document, content: Document, own: Document) -> Vec<Document> {
        let (mut first, mut content) = (first, content);
        first.extend(stored(&self.with_content));
        for field in &self.kept {
            content.remove(field);
        }
        let merged = [first, doc! { "$literal": content }, stored(&self.kept).collect(), own];
        let merged: Vec<Document> = merged.into_iter().filter(|part| !part.is_empty()).collect();
        vec![doc! { "$replaceWith": { "$mergeObjects": merged } }]
    }

    /// Returns the fields that an update of another repository does not change, for [`Operators`](crate::update::Operators).
    pub fn fixed(&self) -> impl Iterator<Item = Fixed<'_>> {
        self.kept.iter().map(|field| (field.as_str(), FIXED))
    }

    /// Refuses to delete a document where documents of others depend on it. Documents that are deleted with it do not count.
    /// `own` is the place of a call that can be a part of another repository's deletion.
    pub fn check_delete(&self, own: Option<Place>, is_related: impl Fn(&Namespace) -> bool) -> Result<()> {
        let left = self.dependents.iter();
        let left = left.filter(|one| !one.collection.as_ref().is_some_and(&is_related));
        let Some(left) = left.min_by_key(|one| one.place()) else {
            return Ok(());
        };
        let call = &left.call;
        Err(left.refused(&match own {
            None => format!("call {call}(..) of its repository"),
            Some(own) if own > left.place() => {
                format!("call {call}(..) of its repository, and pass this one to through(..)")
            }
            Some(Place::References) if left.place() == Place::References => {
                "use one repository with all references to these sources".to_owned()
            }
            Some(_) => "pass its repository to through(..)".to_owned(),
        }))
    }
}

impl Dependents {
    /// Returns when its pattern deletes, of all that have a part in the deletion of a document.
    fn place(&self) -> Place {
        match self.pattern.as_str() {
            "reference" => Place::References,
            "history" => Place::History,
            _ => Place::Parts,
        }
    }

    fn refused(&self, remedy: &str) -> Error {
        let text = format!(
            "documents of the {} pattern depend on these, nothing was deleted: {remedy}",
            self.pattern
        );
        Error::new(ErrorKind::SettingsMismatch, text).with_remedy(Remedy::CheckSettings)
    }
}

impl Others {
    /// Refuses to move documents without their parts, which a pattern has in another collection. Parts that move with them
    /// do not count, nor do documents that refer to sources.
    pub fn check_move(&self, is_related: impl Fn(&Namespace) -> bool) -> Result<()> {
        let parts = self.dependents.iter().filter(|one| one.place() != Place::References);
        let mut parts = parts.filter_map(|one| Some((&one.pattern, one.collection.as_ref()?)));
        let Some((pattern, collection)) = parts.find(|(_, collection)| !is_related(collection)) else {
            return Ok(());
        };
        let text = format!(
            "the {pattern} pattern has parts of these documents in `{collection}`, nothing was moved: name this collection by related(..) of the builder"
        );
        Err(Error::new(ErrorKind::SettingsMismatch, text).with_remedy(Remedy::CheckSettings))
    }
}

fn stored(fields: &[String]) -> impl Iterator<Item = (String, Bson)> {
    fields.iter().map(|field| (field.clone(), format!("${field}").into()))
}

/// How many entries that own something in a collection this process has written or removed.
static WRITTEN: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it has the lock.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn written(collection: &Namespace) -> u64 {
    lock(&WRITTEN).get(&collection.to_string()).copied().unwrap_or(0)
}

/// Counts an entry that this process has written or removed, which owns something in these collections.
pub(super) fn count_written<'n>(collections: impl Iterator<Item = &'n Namespace>) {
    let collections: BTreeSet<String> = collections.map(Namespace::to_string).collect();
    for collection in collections {
        *lock(&WRITTEN).entry(collection).or_default() += 1;
    }
}

/// What a repository knows of others. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known(Arc<Mutex<Option<State>>>);

#[derive(Debug)]
struct State {
    read: Read,
    others: Arc<Others>,
}

/// A read of the catalog.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) collection: Namespace,
    /// How many entries were [written](WRITTEN) before.
    written: u64,
}

impl Read {
    /// Creates it for the entries that own something in a collection, before the read.
    pub(super) fn begin(collection: &Namespace) -> Self {
        Self {
            written: written(collection),
            collection: collection.clone(),
        }
    }
}

impl Known {
    /// Returns what it knew last.
    pub(crate) fn last(&self) -> Option<Arc<Others>> {
        Some(lock(&self.0).as_ref()?.others.clone())
    }

    /// Returns what it knows, if this process has written no entry since.
    pub(crate) fn current(&self) -> Option<Arc<Others>> {
        let state = lock(&self.0);
        let State { read, others } = state.as_ref()?;
        (read.written == written(&read.collection)).then(|| others.clone())
    }

    pub(super) fn set(&self, read: Read, others: Others) {
        let mut state = lock(&self.0);
        // Not by what an earlier read has found.
        if state.as_ref().is_none_or(|state| state.read.written <= read.written) {
            let others = Arc::new(others);
            *state = Some(State { read, others });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn others() -> Others {
        let of = |fields: Document| {
            let mut owned = doc! { "collection": "orders" };
            owned.extend(fields);
            owned
        };
        let entry = |kind: &str, owns: Vec<Document>| doc! { "_id": { "kind": kind }, "owns": owns };
        let lists = vec![
            of(doc! { "field": "_id", "dependents": { "call": "delete", "collection": "more" } }),
            of(doc! { "field": "lines" }),
            doc! { "collection": "more" },
            doc! { "collection": "orders", "database": "other", "field": "elsewhere" },
        ];
        let entries = [
            entry("outlier", lists),
            entry(
                "schema",
                vec![
                    of(doc! { "field": "v", "content": true }),
                    of(doc! { "field": "lines" }),
                ],
            ),
            entry("history", vec![of(doc! { "field": "revision", "alone": true })]),
            doc! { "_id": { "kind": "migration" } },
        ];
        let orders = Namespace::new("shop", "orders");
        Others::of(&entries, &orders, &["revision"], "shop")
    }

    #[test]
    fn the_stored_values_of_others_stay_and_own_fields_win() {
        let (others, first) = (others(), || doc! { "_id": "$_id" });
        assert_eq!(others.kept(), ["lines"]);
        assert!(others.own_fields());
        assert!(others.write_alone("revision") && !others.write_alone("lines"));
        let content = || doc! { "v": 2, "lines": [1], "name": "$name" };
        let own = || doc! { "revision": { "$add": ["$revision", 1] } };
        let merged = |others: &Others, own| {
            let stages = others.replace(first(), content(), own);
            let merge = stages[0].get_document("$replaceWith").unwrap();
            merge.get_array("$mergeObjects").unwrap().clone()
        };
        let literal = Bson::from(doc! { "$literal": { "v": 2, "name": "$name" } });
        let kept = Bson::from(doc! { "lines": "$lines" });
        let with_version = Bson::from(doc! { "_id": "$_id", "v": "$v" });
        assert_eq!(
            merged(&others, own()),
            [with_version.clone(), literal.clone(), kept.clone(), own().into()]
        );
        assert_eq!(merged(&others, doc! {}), [with_version, literal.clone(), kept.clone()]);
        let whole = merged(&others.of_whole(), own());
        assert_eq!(whole, [first().into(), literal, kept, own().into()]);
        let alone = Bson::from(doc! { "$literal": content() });
        assert_eq!(merged(&Others::default(), own()), [first().into(), alone, own().into()]);
        assert!(!Others::default().own_fields());
    }

    #[test]
    fn a_deletion_names_the_call_that_deletes_what_depends_on_it() {
        let others = others();
        let refused = |own| {
            let refused = others.check_delete(own, |_| false).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::SettingsMismatch);
            refused.to_string()
        };
        let text = "documents of the outlier pattern depend on these, nothing was deleted: ";
        for (own, remedy) in [
            (None, "call delete(..) of its repository"),
            (Some(Place::References), "pass its repository to through(..)"),
            (Some(Place::Parts), "pass its repository to through(..)"),
            (
                Some(Place::Trash),
                "call delete(..) of its repository, and pass this one to through(..)",
            ),
        ] {
            assert_eq!(refused(own), format!("{text}{remedy}"));
        }
        let more = Namespace::new("shop", "more");
        others.check_delete(None, |one| *one == more).unwrap();
        Others::default().check_delete(None, |_| false).unwrap();
    }

    #[test]
    fn documents_do_not_move_without_their_parts() {
        let refused = others().check_move(|_| false).unwrap_err();
        assert_eq!(
            (refused.kind(), refused.to_string().as_str()),
            (
                ErrorKind::SettingsMismatch,
                "the outlier pattern has parts of these documents in `shop.more`, nothing was moved: name this collection by related(..) of the builder"
            )
        );
        others().check_move(|one| one.coll == "more").unwrap();
        let owned = doc! {
            "collection": "orders", "field": "_id", "dependents": { "call": "delete_source", "collection": "bills" },
        };
        let entry = doc! { "_id": { "kind": "reference" }, "owns": [owned] };
        let sources = Others::of([&entry], &Namespace::new("shop", "orders"), &[], "shop");
        sources.check_move(|_| false).unwrap();
        sources.check_delete(None, |_| false).unwrap_err();
    }

    #[test]
    fn what_is_known_is_current_until_this_process_writes_an_entry_of_the_collection() {
        let [orders, lines] = ["orders", "lines"].map(|name| Namespace::new("known_others", name));
        let known = Known::default();
        assert!(known.current().is_none() && known.last().is_none());
        let before = Read::begin(&orders);
        known.set(Read::begin(&orders), others());
        count_written([&lines].into_iter());
        assert_eq!(*known.current().unwrap(), others());
        count_written([&lines, &orders].into_iter());
        assert!(known.current().is_none());
        assert_eq!(*known.last().unwrap(), others());
        known.set(Read::begin(&orders), Others::default());
        known.set(before, others());
        assert_eq!(*known.current().unwrap(), Others::default());
    }
}
