//! Changes of children.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::{CommandError, code, duplicate_key};
use mongo_patterns_core::stored::value;
use mongo_patterns_core::{Error, ErrorKind, Result, document_id};
use mongodb::bson::{Bson, RawDocument, RawDocumentBuf};
use mongodb::options::{
    FindOneAndDeleteOptions, FindOneAndReplaceOptions, FindOneAndUpdateOptions, ReplaceOptions, ReturnDocument,
    UpdateModifications, UpdateOptions,
};

use crate::form::parent::Embedded;
use crate::query::{self, options};
use crate::repository::Shared;

/// The server's code for a replacement that would change `_id`.
const IMMUTABLE_FIELD: i32 = 66;

#[derive(Debug)]
pub(crate) enum Change {
    Insert(Vec<RawDocumentBuf>),
    Update(UpdateModifications),
    Replace(RawDocumentBuf),
    Delete,
    /// Only the parent is written.
    Nothing,
}

/// A change of children and the write of their parents.
pub(crate) struct ParentWrite<'a> {
    pub(super) shared: &'a Shared,
    /// The parents of the children. Only an insert of many children has more than one.
    pub(super) parents: Vec<Bson>,
    /// The child, if it is only one.
    pub(super) child: Option<Bson>,
    /// The children for which the caller must learn whether a subset has them.
    pub(super) asked: Vec<Bson>,
    pub(super) change: Change,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    /// Whether the child existed. Only a delete continues if it did not.
    pub(crate) found: bool,
    pub(crate) modified: bool,
    /// Whether a subset has each child that was [asked](ParentWrite::asked) for, in their order.
    pub(crate) included: Vec<bool>,
    /// The number of embedded children.
    pub(crate) embedded: u64,
}

impl<'a> ParentWrite<'a> {
    pub(crate) fn of_child(shared: &'a Shared, parent: Bson, id: Bson, change: Change) -> Self {
        Self {
            asked: vec![id.clone()],
            child: Some(id),
            ..Self::of_parents(shared, vec![parent], change)
        }
    }

    /// Inserts children, or changes none.
    pub(crate) fn of_parents(shared: &'a Shared, parents: Vec<Bson>, change: Change) -> Self {
        Self {
            shared,
            parents,
            child: None,
            asked: Vec::new(),
            change,
        }
    }

    /// Inserts children of one parent, for a call each.
    pub(crate) fn of_calls(shared: &'a Shared, parent: Bson, children: &[(Bson, RawDocumentBuf)]) -> Self {
        let (asked, documents) = children.iter().cloned().unzip();
        Self {
            asked,
            ..Self::of_parents(shared, vec![parent], Change::Insert(documents))
        }
    }

    pub(super) fn included(&self, embedded: &Embedded) -> Vec<bool> {
        let settings = &self.shared.settings;
        let asked = self.asked.iter();
        asked.map(|child| embedded.includes(settings, child)).collect()
    }

    /// Returns how many children the change adds to a parent; `None` if they must be counted.
    pub(super) fn added_to(&self, parent: &Bson, found: bool) -> Option<i64> {
        match &self.change {
            Change::Insert(inserted) => {
                let of_parent = self.of_parent(inserted, parent);
                i64::try_from(of_parent.count()).ok()
            }
            Change::Delete => Some(-i64::from(found)),
            Change::Update(_) | Change::Replace(_) => Some(0),
            Change::Nothing => None,
        }
    }

    /// Returns the children of a parent among others.
    pub(super) fn of_parent<'d>(
        &self,
        children: &'d [RawDocumentBuf],
        parent: &Bson,
    ) -> impl Iterator<Item = &'d RawDocument> {
        let (field, parent) = (&self.shared.settings.parent, document_id::canonical(parent));
        let is_of_parent = move |child: &&RawDocument| {
            let value = value(child, field);
            value.is_some_and(|value| document_id::canonical(&value) == parent)
        };
        children.iter().map(|child| &**child).filter(is_of_parent)
    }

    /// Changes the children. Returns also the child before the change, if figures need it.
    pub(super) async fn apply(&self, conn: &mut Conn<'_>) -> Result<(Written, Option<RawDocumentBuf>)> {
        let Shared { children, settings, .. } = self.shared;
        if let Change::Insert(documents) = &self.change {
            let inserted = conn.insert_many(children, documents.as_slice(), None).await;
            inserted.map_err(|error| self.not_inserted(error))?;
            return Ok((Written::child(1, 1), None));
        }
        let (Some(child), [parent]) = (&self.child, self.parents.as_slice()) else {
            return Ok((Written::child(1, 0), None));
        };
        let filter = query::child(settings, parent, child);
        let hint = options::child_hint(settings);
        // A sum and a count change by the old value of a child.
        let needs_old = settings.computed().any(|computed| !computed.kind.is_extreme());
        let with_old = |old: Option<RawDocumentBuf>| (u64::from(old.is_some()), u64::from(old.is_some()), old);
        let done = match (&self.change, needs_old) {
            (Change::Update(update), false) => {
                let options = UpdateOptions::builder().hint(hint).build();
                let updated = conn.update_one(children, filter, update.clone(), options).await;
                updated.map(|updated| (updated.matched_count, updated.modified_count, None))
            }
            (Change::Update(update), true) => {
                let options = FindOneAndUpdateOptions::builder().hint(hint);
                let options = options.return_document(ReturnDocument::Before).build();
                let old = conn
                    .find_one_and_update(children, filter, update.clone(), options)
                    .await;
                old.map(with_old)
            }
            (Change::Replace(document), false) => {
                let options = ReplaceOptions::builder().hint(hint).build();
                let replaced = conn.replace_one(children, filter, document.clone(), options).await;
                replaced.map(|replaced| (replaced.matched_count, replaced.modified_count, None))
            }
            (Change::Replace(document), true) => {
                let options = FindOneAndReplaceOptions::builder().hint(hint);
                let options = options.return_document(ReturnDocument::Before).build();
                let old = conn
                    .find_one_and_replace(children, filter, document.clone(), options)
                    .await;
                old.map(with_old)
            }
            (_, false) => {
                let deleted = conn
                    .delete_one(children, filter, options::delete_children(settings))
                    .await;
                deleted.map(|deleted| (deleted.deleted_count, deleted.deleted_count, None))
            }
            (_, true) => {
                let options = FindOneAndDeleteOptions::builder().hint(hint).build();
                let old = conn.find_one_and_delete(children, filter, options).await;
                old.map(with_old)
            }
        };
        let (found, modified, old) = done.map_err(|error| self.not_written(error))?;
        if found == 0 && !matches!(self.change, Change::Delete) {
            let message = "the parent has no child with this id, nothing was stored: insert it first";
            return Err(Error::new(ErrorKind::ChildNotFound, message));
        }
        Ok((Written::child(found, modified), old))
    }

    fn not_inserted(&self, error: CommandError) -> Error {
        let settings = &self.shared.settings;
        let Some(duplicate) = duplicate_key(&error) else {
            return error.into();
        };
        let index = duplicate.index.as_deref();
        let is_child_id =
            index == Some(&settings.child_index) || index == Some("_id_") && settings.child_id.as_str() == "_id";
        let (kind, message) = match is_child_id {
            true => (
                ErrorKind::AlreadyExists,
                "a child with this id exists already, it was not changed: replace it, or use another id",
            ),
            false => (
                ErrorKind::DuplicateKey,
                "a unique index of the application refused a child, it was not stored: use other values",
            ),
        };
        // Without the driver's error, by which the transaction distinguishes a refusal from a conflict.
        Error::new(kind, message)
    }

    fn not_written(&self, error: CommandError) -> Error {
        if code(&error) == Some(IMMUTABLE_FIELD) {
            let message = "the `_id` of the child differs from the stored one, nothing was stored: omit it, or keep it";
            return Error::new(ErrorKind::InvalidArgument, message);
        }
        error.into()
    }
}

/// Names the parent in the server's error for a document that is too large.
pub(super) fn of_parent(error: Error) -> Error {
    match error.kind() {
        ErrorKind::TooLarge => error.with_text(
            "with the new subset the parent would exceed MongoDB's limit of 16 MiB, and it was not stored: reduce the subset size or the embedded fields",
        ),
        _ => error,
    }
}

pub(super) fn no_parent() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "the parent does not exist, and none of its children was stored: insert it first",
    )
}

impl Written {
    fn child(found: u64, modified: u64) -> Self {
        Self {
            found: found > 0,
            modified: modified > 0,
            ..Self::default()
        }
    }

    /// Returns the result for one of several children.
    pub(super) fn of_included(included: bool) -> Self {
        Self {
            included: vec![included],
            ..Self::child(1, 1)
        }
    }

    /// Returns whether a subset has the child of a write of one child.
    pub(crate) fn in_subset(&self) -> bool {
        self.included.contains(&true)
    }
}
