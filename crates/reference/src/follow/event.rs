//! The changes of sources and of referring documents, and what they require.

use mongo_patterns_core::stored::value;
use mongo_patterns_core::{DocumentId, follow};
use mongodb::bson::{Bson, RawDocument};

use crate::settings::Settings;

/// What the changes of a source require. Of several changes, the highest one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Check {
    /// The version was changed: older copies are updated.
    Version,
    /// Copied fields were changed without it, or the whole source: copies of the same version are compared too.
    Values,
    /// The source was inserted or deleted.
    Existence,
}

/// The effect of a change.
#[derive(Debug, PartialEq)]
pub(super) enum Effect {
    Source(Bson, Check),
    /// A document of the collection at this position may have other references or copies.
    Document(usize, Bson),
    None,
    Dropped,
}

impl Effect {
    /// Returns the effect of an event of the sources, or of a referring collection, whose position a function returns.
    pub(super) fn read(
        settings: &Settings,
        sources: &str,
        position: impl Fn(&str) -> Option<usize>,
        event: &RawDocument,
    ) -> Self {
        let operation = event.get_str("operationType").unwrap_or_default();
        if follow::Effect::is_drop(operation) {
            return Self::Dropped;
        }
        let collection = event.get_document("ns").and_then(|namespace| namespace.get_str("coll"));
        let id = event.get_document("documentKey").ok().and_then(|key| value(key, "_id"));
        let (Ok(collection), Some(id)) = (collection, id) else {
            return Self::None;
        };
        let changed = Changed(event);
        if collection == sources {
            // Nothing refers to such an id.
            let id = DocumentId::new(id).map(DocumentId::into_bson);
            return match (id, check(settings, operation, &changed)) {
                (Ok(id), Some(check)) => Self::Source(id, check),
                _ => Self::None,
            };
        }
        let Some(position) = position(collection) else {
            return Self::None;
        };
        let is_reference = |path: &str| {
            let first = path.split('.').next().unwrap_or_default();
            settings
                .of_collection(position)
                .any(|field| field.name.as_str() == first)
        };
        match operation {
            "insert" | "replace" => Self::Document(position, id),
            "update" if changed.any(is_reference) => Self::Document(position, id),
            _ => Self::None,
        }
    }
}

/// Returns what a change of a source requires. `None` for a change without effect on copies, such as the mark of a deletion.
fn check(settings: &Settings, operation: &str, changed: &Changed<'_>) -> Option<Check> {
    let is_version = |path: &str| path.split('.').next() == Some(settings.version.as_str());
    let is_copied = |path: &str| {
        let mut copied = settings.followed().flat_map(|field| &field.copied);
        copied.any(|copied| copied.source.is_reached_by(path))
    };
    match operation {
        "insert" | "delete" => Some(Check::Existence),
        "replace" => Some(Check::Values),
        "update" if changed.removed(is_version) => Some(Check::Values),
        "update" if changed.any(is_version) => Some(Check::Version),
        "update" if changed.any(is_copied) => Some(Check::Values),
        _ => None,
    }
}

/// The paths that an update has changed.
struct Changed<'a>(&'a RawDocument);

impl Changed<'_> {
    fn any(&self, is_searched: impl Fn(&str) -> bool) -> bool {
        ["updated", "removed", "truncated"]
            .iter()
            .any(|list| self.is_in(list, &is_searched))
    }

    fn removed(&self, is_searched: impl Fn(&str) -> bool) -> bool {
        self.is_in("removed", &is_searched)
    }

    fn is_in(&self, list: &str, is_searched: &impl Fn(&str) -> bool) -> bool {
        let Ok(paths) = self.0.get_array(list) else {
            return false;
        };
        let mut paths = paths.into_iter();
        paths.any(|path| path.is_ok_and(|path| path.as_str().is_some_and(is_searched)))
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{RawDocumentBuf, rawdoc};

    use mongodb::bson;
    use mongodb::bson::doc;

    use super::*;
    use crate::settings::MARK;
    use crate::settings::tests::example;

    fn effect(event: &RawDocumentBuf) -> Effect {
        Effect::read(&example(), "sources", |name| (name == "orders").then_some(0), event)
    }

    fn update(collection: &str, updated: &str, removed: &str) -> Effect {
        effect(&rawdoc! {
            "operationType": "update",
            "ns": { "coll": collection },
            "documentKey": { "_id": 1 },
            "updated": [updated],
            "removed": [removed],
        })
    }

    #[test]
    fn an_update_of_a_source_is_checked_if_it_changes_what_is_copied() {
        let source = |check: Check| Effect::Source(1.into(), check);
        for copied in ["name", "name.first", "address", "address.city", "address.city.0"] {
            assert_eq!(update("sources", copied, ""), source(Check::Values), "{copied}");
            assert_eq!(update("sources", "", copied), source(Check::Values), "{copied}");
        }
        for other in ["visits", "address.zip", "names", "nam", MARK, "addresses", "city"] {
            assert_eq!(update("sources", other, ""), Effect::None, "{other}");
            assert_eq!(update("sources", "", other), Effect::None, "{other}");
        }
        assert_eq!(update("sources", "v", ""), source(Check::Version));
        assert_eq!(update("sources", "v", "name"), source(Check::Version));
        assert_eq!(update("sources", "name", "v"), source(Check::Values));
        assert_eq!(update("elsewhere", "name", "v"), Effect::None);
    }

    #[test]
    fn an_update_of_a_document_is_checked_if_it_changes_a_reference() {
        for reference in ["customer", "customer.name", "products", "products.3.v"] {
            assert_eq!(
                update("orders", reference, ""),
                Effect::Document(0, 1.into()),
                "{reference}"
            );
            assert_eq!(
                update("orders", "", reference),
                Effect::Document(0, 1.into()),
                "{reference}"
            );
        }
        for other in ["total", "customers", "custom", "a.customer"] {
            assert_eq!(update("orders", other, ""), Effect::None, "{other}");
        }
        let truncated = rawdoc! {
            "operationType": "update",
            "ns": { "coll": "orders" },
            "documentKey": { "_id": 1 },
            "updated": null,
            "truncated": ["products"],
        };
        assert_eq!(effect(&truncated), Effect::Document(0, 1.into()));
    }

    #[test]
    fn whole_documents_are_checked() {
        let event = |operation: &str, collection: &str, id: Bson| {
            let id = bson::serialize_to_raw_document_buf(&doc! { "_id": id }).unwrap();
            effect(&rawdoc! { "operationType": operation, "ns": { "coll": collection }, "documentKey": id })
        };
        for (operation, check) in [
            ("insert", Check::Existence),
            ("delete", Check::Existence),
            ("replace", Check::Values),
        ] {
            assert_eq!(event(operation, "sources", 7.into()), Effect::Source(7.into(), check));
            assert_eq!(event(operation, "sources", Bson::Null), Effect::None);
        }
        for operation in ["insert", "replace"] {
            assert_eq!(event(operation, "orders", Bson::Null), Effect::Document(0, Bson::Null));
        }
        assert_eq!(event("delete", "orders", 7.into()), Effect::None);
        for operation in ["drop", "rename", "dropDatabase", "invalidate"] {
            assert_eq!(effect(&rawdoc! { "operationType": operation }), Effect::Dropped);
        }
        assert_eq!(event("of a later server", "orders", 7.into()), Effect::None);
        assert!(Check::Version < Check::Values && Check::Values < Check::Existence);
    }
}
