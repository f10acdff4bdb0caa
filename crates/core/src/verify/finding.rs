//! Findings, and what was done about them.

use std::fmt;

use mongodb::Namespace;
use mongodb::bson::Bson;
use serde::Serialize;

use crate::index::Duplicates;
use crate::transaction::rewrite::Changes;
use crate::value::stored::id_of;

/// A problem of a stored document. `P` is the enum of the problems of a pattern.
///
/// Its `Debug` output has no user values.
///
/// ```
/// use mongo_patterns::verify::Finding;
/// use mongo_patterns::mongodb::Namespace;
///
/// // For a fake of a repository in tests.
/// let mut finding = Finding::new(Namespace::new("shop", "orders"), 7, "Stale");
/// finding.fields = vec!["customer".to_owned()];
/// assert_eq!(finding.document_id, 7.into());
/// ```
#[derive(Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Finding<P> {
    /// The namespace of the document.
    pub namespace: Namespace,
    /// The id of the document: its `_id`, or the value of the id field of a history. If the problem is that it is missing,
    /// the document does not exist. A user value: take care where you log it.
    pub document_id: Bson,
    /// The key of a bucket, the `_id` of the main document of a list, the `_id` of the source of a copy, or the id with an
    /// interval. `None` in other patterns, and without such a value. A user value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub related_id: Option<Bson>,
    /// The names of the fields with the problem, if the document has several such fields.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// The `_id`s of documents that have the same values in a unique index, up to 100; empty for other problems. User
    /// values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub document_ids: Vec<Bson>,
    /// The problem.
    #[serde(flatten)]
    pub problem: P,
}

impl<P> Finding<P> {
    /// Creates the finding of a problem of one document.
    pub fn new(namespace: Namespace, document_id: impl Into<Bson>, problem: P) -> Self {
        Self {
            namespace,
            document_id: document_id.into(),
            related_id: None,
            fields: Vec::new(),
            document_ids: Vec::new(),
            problem,
        }
    }

    /// Creates the finding of documents with the same values, whose first value is the id of the document they belong to.
    #[doc(hidden)]
    pub fn of_duplicates(namespace: Namespace, found: Duplicates, problem: P) -> Self {
        let document_id = found.values.into_iter().next().unwrap_or(Bson::Null);
        Self {
            document_ids: found.ids,
            ..Self::new(namespace, document_id, problem)
        }
    }
}

impl<P: fmt::Debug> fmt::Debug for Finding<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Finding")
            .field("namespace", &format_args!("{}", self.namespace))
            .field("fields", &self.fields)
            .field("problem", &self.problem)
            .finish_non_exhaustive()
    }
}

/// A repair, or what a dry run would repair. `U` is the enum of the reasons for which a pattern leaves a problem.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Repaired<P, U> {
    /// The findings before the repair, at least one: all of a key or of a list. Other patterns repair each finding by
    /// itself.
    pub findings: Vec<Finding<P>>,
    /// The number of documents that a rewrite of a key or of a list wrote. 0 in other patterns, which write the documents of
    /// the finding.
    pub written: u64,
    /// The number of `_id`s that no longer exist after this rewrite. The written documents have the items or elements.
    pub deleted: u64,
    /// Why something was not repaired; `None` if all was.
    pub unrepaired: Option<U>,
}

impl<P, U> Repaired<P, U> {
    /// Creates the repair of findings.
    pub fn new(findings: Vec<Finding<P>>, unrepaired: Option<U>) -> Self {
        Self {
            findings,
            written: 0,
            deleted: 0,
            unrepaired,
        }
    }

    /// Creates the repair of findings by a rewrite.
    #[doc(hidden)]
    pub fn of_rewrite(findings: Vec<Finding<P>>, changes: &Changes, unrepaired: Option<U>) -> Self {
        let written: Vec<Bson> = changes.written.iter().map(|document| id_of(document)).collect();
        let deleted = changes.removed.iter().filter(|id| !written.contains(id));
        Self {
            deleted: deleted.count() as u64,
            written: written.len() as u64,
            ..Self::new(findings, unrepaired)
        }
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{doc, serialize_to_document};

    use super::*;

    #[derive(Debug, Serialize)]
    #[serde(tag = "problem")]
    enum Problem {
        Differs,
        Stale { version: u64 },
    }

    #[test]
    fn the_serialized_form_has_the_name_and_the_numbers_of_the_problem() {
        let mut finding = Finding::new(Namespace::new("shop", "orders"), 7, Problem::Stale { version: 1 });
        let form = doc! { "namespace": "shop.orders", "document_id": 7, "problem": "Stale", "version": 1_i64 };
        assert_eq!(serialize_to_document(&finding).unwrap(), form);
        finding.problem = Problem::Differs;
        finding.related_id = Some("alice".into());
        finding.fields.push("customer".to_owned());
        finding.document_ids.push(8.into());
        let form = doc! {
            "namespace": "shop.orders", "document_id": 7, "related_id": "alice", "fields": ["customer"],
            "document_ids": [8], "problem": "Differs",
        };
        assert_eq!(serialize_to_document(&finding).unwrap(), form);
        assert!(!format!("{finding:?}").contains("alice"));
        let repaired = Repaired::new(vec![finding], Some("NotMigrated"));
        let expected = doc! { "findings": [form], "written": 0_i64, "deleted": 0_i64, "unrepaired": "NotMigrated" };
        assert_eq!(serialize_to_document(&repaired).unwrap(), expected);
    }
}
