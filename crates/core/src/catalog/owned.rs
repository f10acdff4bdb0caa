//! What a repository owns: fields of documents, and second collections.

use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::{Collection, Namespace};

use super::COLLECTION;
use crate::error::{Error, ErrorKind, Remedy};

/// What the documents are that have children or other parts.
const PARENTS: &str = "parents";
/// What the documents are that are deleted with their parent.
const CHILDREN: &str = "children";
/// What the overflow documents of a list are.
const OVERFLOW: &str = "overflow documents";

/// A field that only one repository may write, or a second collection that has documents of one repository only.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Owned {
    namespace: Namespace,
    /// `None` for the collection itself.
    field: Option<String>,
    /// Two owners that share it by the same word do not conflict.
    shared: Option<String>,
    /// The call that chooses another name.
    method: &'static str,
    /// Whether the field belongs to the content of a document: one that replaces it can have another value.
    is_content: bool,
    /// Whether those that share the field only read it.
    is_written_alone: bool,
    /// What depends on the documents.
    dependents: Option<Dependents>,
}

/// What depends on documents: only this call deletes both.
#[derive(Clone, Debug)]
struct Dependents {
    /// The call of the repository, such as `delete_parent`.
    call: &'static str,
    /// The only collection of what depends on them. `None` if they are in several.
    collection: Option<Namespace>,
}

/// Returns the name of a collection in the catalog of a database.
pub(super) fn named(namespace: &Namespace, database: &str) -> Document {
    let mut stored = doc! { "collection": &namespace.coll };
    if namespace.db != database {
        stored.insert("database", &namespace.db);
    }
    stored
}

impl Owned {
    /// Creates it for a field, with the call that chooses another name.
    pub fn field(collection: &Collection<RawDocumentBuf>, field: &str, method: &'static str) -> Self {
        Self {
            field: Some(field.to_owned()),
            method,
            ..Self::collection(collection)
        }
    }

    /// Creates it for a second collection.
    pub fn collection(collection: &Collection<RawDocumentBuf>) -> Self {
        Self {
            namespace: collection.namespace(),
            field: None,
            shared: None,
            method: "",
            dependents: None,
            is_content: false,
            is_written_alone: false,
        }
    }

    /// Creates it for the documents of a collection that are parents. Only patterns with the same parents can share a
    /// collection.
    pub fn parents(collection: &Collection<RawDocumentBuf>) -> Self {
        Self::documents(collection, PARENTS)
    }

    /// Creates it for what a document of a collection is, such as an interval.
    pub fn documents(collection: &Collection<RawDocumentBuf>, are: &str) -> Self {
        Self::field(collection, "_id", "").shared_as(are)
    }

    /// Creates it for documents that are deleted with their parent, such as the children of a subset. Nothing else may
    /// depend on them.
    pub fn children(collection: &Collection<RawDocumentBuf>) -> Self {
        Self::documents(collection, CHILDREN)
    }

    /// Creates it for the overflow documents of a list, in which only an archive has a field, which it does not write.
    pub fn overflow(collection: &Collection<RawDocumentBuf>) -> Self {
        Self::documents(collection, OVERFLOW)
    }

    /// Creates it for the documents of a collection with all of their fields.
    pub fn whole_documents(collection: &Collection<RawDocumentBuf>) -> Self {
        Self::field(collection, "_id", "")
    }

    /// Lets it be shared with owners that use the same word.
    #[must_use]
    pub fn shared_as(self, word: &str) -> Self {
        let shared = Some(word.to_owned());
        Self { shared, ..self }
    }

    /// Adds the call that deletes a document with what depends on it, and the collection of what does, if there is only one.
    #[must_use]
    pub fn with_dependents(self, call: &'static str, collection: Option<&Collection<RawDocumentBuf>>) -> Self {
        let collection = collection.map(Collection::namespace);
        let dependents = Some(Dependents { call, collection });
        Self { dependents, ..self }
    }

    /// Tells that the field belongs to the content: a document that replaces another one has its own value, or keeps the
    /// stored one. All other owned fields keep their stored values.
    #[must_use]
    pub fn of_content(self) -> Self {
        let is_content = true;
        Self { is_content, ..self }
    }

    /// Tells that those that share the field may not write it, such as the revision of a history.
    #[must_use]
    pub fn written_alone(self) -> Self {
        let is_written_alone = true;
        Self {
            is_written_alone,
            ..self
        }
    }

    /// Returns the field, if it is one of a collection.
    pub(super) fn field_in(&self, collection: &Namespace) -> Option<&str> {
        self.field.as_deref().filter(|_| self.namespace == *collection)
    }

    pub(super) fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    pub(super) fn collection_name(&self) -> &str {
        &self.namespace.coll
    }

    /// Returns its form in the catalog of a database.
    pub(super) fn stored_form(&self, database: &str) -> Document {
        let named = |namespace| named(namespace, database);
        let mut stored = named(&self.namespace);
        let options = [("field", &self.field), ("shared", &self.shared)];
        stored.extend(
            options
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value.as_ref()?.into()))),
        );
        if let Some(Dependents { call, collection }) = &self.dependents {
            let mut dependents = doc! { "call": call };
            dependents.extend(collection.as_ref().map(named).unwrap_or_default());
            stored.insert("dependents", dependents);
        }
        let flags = [("content", self.is_content), ("alone", self.is_written_alone)];
        let flags = flags.into_iter().filter(|(_, is_set)| *is_set);
        stored.extend(flags.map(|(name, is_set)| (name.to_owned(), is_set.into())));
        stored
    }

    /// Returns whether another owner has it, as the catalog of a database stores it.
    pub(super) fn is_of(&self, other: &Document, database: &str) -> bool {
        is_same(&self.stored_form(database), other, database)
    }

    fn is_whole(&self) -> bool {
        self.shared.is_none() && self.field.as_deref() == Some("_id")
    }

    /// Returns the error that another entry, with this `_id`, owns it.
    pub(super) fn refused(&self, id: &Document, other: &Document, effect: &str) -> Error {
        let Self { namespace, method, .. } = self;
        let kind = id.get_str("kind").unwrap_or_default();
        let owner = format!("the {kind} pattern, by its entry {id} in the catalog `{COLLECTION}`");
        let unused = "or delete that entry if its repository is no longer used";
        let of_documents = self.is_whole() || field_of(other) == Some("_id");
        let message = match self
            .field
            .as_deref()
            .map(|field| if of_documents { "_id" } else { field })
        {
            None => format!("the collection `{namespace}` belongs to {owner}, {effect}: use another one, {unused}"),
            Some("_id") => format!(
                "the documents of `{namespace}` belong to {owner}, beside which this pattern does not work, {effect}: use another collection, {unused}"
            ),
            Some(field) => format!(
                "the field `{field}` of `{namespace}` belongs to {owner}, {effect}: choose another name with {method}(..), {unused}"
            ),
        };
        Error::new(ErrorKind::SettingsMismatch, message).with_remedy(Remedy::CheckSettings)
    }
}

/// Returns whether two owners have the same, as the catalog of a database stores it.
fn is_same(one: &Document, other: &Document, database: &str) -> bool {
    let of_collection = namespace_of(one, database) == namespace_of(other, database);
    let [word, of_other] = [one, other].map(|owned| owned.get_str("shared").ok());
    let is_shared = word.is_some() && word == of_other;
    let overlaps = match (field_of(one), field_of(other)) {
        (None, None) => true,
        (Some(_), Some(_)) if is_whole(one) || is_whole(other) => true,
        (Some(_), Some(_)) if is_overflow(one) || is_overflow(other) => [one, other].iter().all(|one| !is_alone(one)),
        (Some(one), Some(other)) => one == other || is_below(one, other) || is_below(other, one),
        _ => false,
    };
    let of_documents = match (is_child(one), is_child(other)) {
        // Embedded children are deleted with a child, and nothing else depends on their parent.
        (true, _) => other.contains_key("dependents") || (overlaps && of_other != Some(PARENTS)),
        (_, true) => one.contains_key("dependents") || (overlaps && word != Some(PARENTS)),
        _ => overlaps,
    };
    of_collection && of_documents && !is_shared
}

/// Returns whether documents are those that a repository deletes with their parent, so nothing may depend on them.
fn is_child(stored: &Document) -> bool {
    field_of(stored) == Some("_id") && stored.get_str("shared").ok() == Some(CHILDREN)
}

/// Returns what two entries of a catalog own both: their positions, and the collection or the field.
#[doc(hidden)]
pub fn conflicts(entries: &[Document], database: &str) -> Vec<(usize, usize, String)> {
    let owns = |entry: &Document| entry.get_array("owns").cloned().unwrap_or_default();
    let mut conflicts = Vec::new();
    for (n, one) in entries.iter().enumerate() {
        for (m, other) in entries.iter().enumerate().skip(n + 1) {
            let others = owns(other);
            let others = others.iter().filter_map(Bson::as_document);
            let owned = owns(one);
            let is_owned_twice = |one: &&Document| others.clone().any(|other| is_same(one, other, database));
            let owned = owned.iter().filter_map(Bson::as_document).find(is_owned_twice);
            let Some(owned) = owned else { continue };
            let of = owned.get_str("collection").unwrap_or_default();
            let what = match field_of(owned) {
                None | Some("_id") => format!("`{of}`"),
                Some(field) => format!("the field `{field}` of `{of}`"),
            };
            conflicts.push((n, m, what));
        }
    }
    conflicts
}

/// Returns the collection that a stored form names, in the catalog of a database.
pub(super) fn namespace_of(stored: &Document, database: &str) -> Option<Namespace> {
    let collection = stored.get_str("collection").ok()?;
    Some(Namespace::new(
        stored.get_str("database").unwrap_or(database),
        collection,
    ))
}

/// Returns the field that a stored form names.
pub(super) fn field_of(stored: &Document) -> Option<&str> {
    stored.get_str("field").ok()
}

fn is_whole(stored: &Document) -> bool {
    field_of(stored) == Some("_id") && !stored.contains_key("shared")
}

fn is_overflow(stored: &Document) -> bool {
    field_of(stored) == Some("_id") && stored.get_str("shared").ok() == Some(OVERFLOW)
}

fn is_alone(stored: &Document) -> bool {
    stored.get_bool("alone").unwrap_or(false)
}

fn is_below(path: &str, of: &str) -> bool {
    path.strip_prefix(of).is_some_and(|rest| rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_and_those_below_it_have_one_owner() {
        let collection = crate::offline::collection("orders");
        let field = |name: &str| Owned::field(&collection, name, "array_field");
        let is_refused = |one: &Owned, other: &Owned| one.is_of(&other.stored_form("shop"), "shop");
        for (one, other, refused) in [
            ("lines", "lines", true),
            ("lines", "lines.part", true),
            ("lines.part", "lines", true),
            ("lines", "lines_2", false),
        ] {
            assert_eq!(is_refused(&field(one), &field(other)), refused, "{one} {other}");
        }
        let second = Owned::collection(&collection);
        assert!(is_refused(&second, &second) && !is_refused(&second, &field("lines")));
        let [shared, other] = ["version", "count"].map(|word| field("v").shared_as(word));
        assert!(!is_refused(&shared, &shared) && is_refused(&shared, &other));
        assert!(is_refused(&shared, &field("v")) && is_refused(&field("v"), &shared));
        let whole = Owned::whole_documents(&collection);
        assert!(is_refused(&whole, &field("lines")) && is_refused(&field("lines"), &whole));
        assert!(!is_refused(&whole, &second) && !is_refused(&second, &whole));
        // An archive has a field in the overflow documents of a list over its collections.
        let overflow = Owned::overflow(&collection);
        let of_archive = || field("book").written_alone();
        for (other, refused) in [
            (field("book"), true),
            (Owned::parents(&collection), true),
            (of_archive(), false),
        ] {
            assert_eq!(is_refused(&overflow, &other), refused, "{other:?}");
            assert_eq!(is_refused(&other, &overflow), refused, "{other:?}");
        }
        let parents = Owned::parents(&collection).with_dependents("delete_parent", Some(&collection));
        let dependents = |database: &str| parents.stored_form(database).get("dependents").cloned();
        let here = doc! { "call": "delete_parent", "collection": "orders" };
        assert_eq!(dependents("shop"), Some(here.into()));
        let there = doc! { "call": "delete_parent", "collection": "orders", "database": "shop" };
        assert_eq!(dependents("archive"), Some(there.into()));
        let elsewhere = second.stored_form("archive");
        assert_eq!(elsewhere, doc! { "collection": "orders", "database": "shop" });
        assert!(second.is_of(&elsewhere, "archive") && !second.is_of(&second.stored_form("shop"), "archive"));
    }

    #[test]
    fn the_error_has_the_owner_and_the_call_that_names_another_one() {
        let collection = crate::offline::collection("orders");
        let other = doc! { "kind": "outlier", "collection": "orders", "field": "lines" };
        let error =
            Owned::field(&collection, "has_extras", "flag_field").refused(&other, &doc! {}, "nothing was written");
        assert_eq!(error.kind(), ErrorKind::SettingsMismatch);
        assert!(
            error.to_string().starts_with(
                "the field `has_extras` of `shop.orders` belongs to the outlier pattern, by its entry { \"kind\": \"outlier\""
            ),
            "{error}"
        );
        assert!(
            error.to_string().contains("choose another name with flag_field(..)"),
            "{error}"
        );
    }
}
