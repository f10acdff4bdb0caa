//! Changes of children.

use mongo_patterns_core::error::{code, duplicate_key};
use mongodb::options::UpdateModifications;

use crate::form::embedded::Embedded;
use crate::repository::prelude::*;
use crate::results::{Inserted, UpdatedChild};

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
pub(crate) struct Write<'a> {
    pub(super) shared: &'a Shared,
    /// The parents of the children. Only an insert of many children has more than one.
    pub(super) parents: Vec<Bson>,
    /// The child, if it is only one.
    pub(super) child: Option<Bson>,
    /// The children of which the caller must learn whether a subset has them.
    pub(super) asked: Vec<Bson>,
    pub(super) change: Change,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    /// Whether the child existed. Only a delete continues if it did not.
    pub(crate) found: bool,
    pub(crate) modified: bool,
    /// Whether a subset has each child that was [asked](Write::asked) for, in their order.
    pub(crate) included: Vec<bool>,
    pub(crate) parents: u64,
    pub(crate) embedded: u64,
}

impl<'a> Write<'a> {
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
        let (field, parent) = (&self.shared.settings.parent, document_id::text(parent));
        let is_of_parent = move |child: &&RawDocument| {
            let value = value(child, field);
            value.is_some_and(|value| document_id::text(&value) == parent)
        };
        children.iter().map(|child| &**child).filter(is_of_parent)
    }

    pub(super) async fn apply(&self, conn: &mut Conn<'_>) -> Result<Written> {
        let Shared { children, settings, .. } = self.shared;
        if let Change::Insert(documents) = &self.change {
            return match conn.insert_many(children, documents.as_slice(), None).await {
                Ok(_) => Ok(Written::child(1, 1)),
                Err(error) => Err(self.not_inserted(error)),
            };
        }
        let (Some(child), [parent]) = (&self.child, self.parents.as_slice()) else {
            return Ok(Written::child(1, 0));
        };
        let filter = query::child(settings, parent, child);
        let written = match &self.change {
            Change::Update(update) => {
                let options = options::update_child(settings);
                let updated = conn.update_one(children, filter, update.clone(), options).await;
                updated.map(|updated| Written::child(updated.matched_count, updated.modified_count))
            }
            Change::Replace(document) => {
                let options = options::replace_child(settings);
                let replaced = conn.replace_one(children, filter, document.clone(), options).await;
                replaced.map(|replaced| Written::child(replaced.matched_count, replaced.modified_count))
            }
            _ => {
                let options = options::delete_children(settings);
                let deleted = conn.delete_one(children, filter, options).await;
                deleted.map(|deleted| Written::child(deleted.deleted_count, deleted.deleted_count))
            }
        };
        match written {
            Ok(written) if !written.found && !matches!(self.change, Change::Delete) => Err(child_not_found()),
            Ok(written) => Ok(written),
            Err(error) => Err(self.not_written(error)),
        }
    }

    fn not_inserted(&self, error: CommandError) -> Error {
        let settings = &self.shared.settings;
        let Some(duplicate) = duplicate_key(&error) else {
            return error.into();
        };
        // Without the driver's error, by which the transaction distinguishes a refusal from a conflict.
        if is_child_id(settings, duplicate.index.as_deref()) {
            Error::new(
                ErrorKind::AlreadyExists,
                "a child with this id exists already, it was not changed: replace it, or use another id",
            )
        } else {
            Error::new(
                ErrorKind::DuplicateKey,
                "a unique index of the application refused a child, it was not stored: use other values",
            )
        }
    }

    pub(super) fn not_written(&self, error: CommandError) -> Error {
        if code(&error) == Some(IMMUTABLE_FIELD) {
            let message = "the `_id` of the child differs from the stored one, nothing was stored: omit it, or keep it";
            return Error::new(ErrorKind::InvalidArgument, message);
        }
        hinted(error, &self.shared.settings.child_index)
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

pub(super) fn child_not_found() -> Error {
    let message = "the parent has no child with this id, nothing was stored: insert it first";
    Error::new(ErrorKind::ChildNotFound, message)
}

fn is_child_id(settings: &Settings, index: Option<&str>) -> bool {
    index == Some(settings.child_index.as_str()) || index == Some("_id_") && settings.child_id.as_str() == "_id"
}

impl Written {
    pub(super) fn child(found: u64, modified: u64) -> Self {
        Self {
            found: found > 0,
            modified: modified > 0,
            ..Self::default()
        }
    }

    /// Returns whether a subset has the child of a write of one child.
    fn in_subset(&self) -> bool {
        self.included.contains(&true)
    }

    /// Counts the refreshes of a write.
    pub(super) fn counted(self) -> Self {
        measure::refreshed("written", self.parents);
        self
    }
}

impl From<Written> for Inserted {
    fn from(written: Written) -> Self {
        Self {
            in_subset: written.in_subset(),
        }
    }
}

impl From<Written> for UpdatedChild {
    fn from(written: Written) -> Self {
        Self {
            modified: written.modified,
            in_subset: written.in_subset(),
        }
    }
}
