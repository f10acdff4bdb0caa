//! Writes to one parent: one command, and a read of the reason when it was refused.

use mongo_patterns_core::action::record_attempts;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::{CommandError, duplicate_key};
use mongo_patterns_core::{DocumentId, Error, ErrorKind, Result, send};
use mongodb::ClientSession;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::options::{FindOneAndUpdateOptions, FindOneOptions, UpdateModifications, UpdateOptions};
use tracing::Span;

use crate::form::child_id::ChildId;
use crate::form::document::{check_not_migrated, has_child, limit_reached};
use crate::form::grandchild::Grandchild;
use crate::query;
use crate::repository::Shared;
use crate::settings::Settings;

/// A write to one parent.
pub(crate) struct ChildWrite<'a> {
    shared: &'a Shared,
    parent: &'a DocumentId,
    needs: Needs<'a>,
}

/// What a write needs its parent to have.
#[derive(Clone, Copy)]
pub(crate) enum Needs<'a> {
    /// Room for this child, and no child with its id.
    Room(&'a ChildId),
    /// This child.
    Child(&'a ChildId),
    /// This child, or room for it.
    ChildOrRoom(&'a ChildId),
    /// This child, and this element in a list of it.
    Grandchild(&'a ChildId, &'a Grandchild),
    /// Exactly these children.
    Exactly(&'a [ChildId]),
}

impl Needs<'_> {
    /// Matches the parent if it has what the write needs, and is not migrated to a subset.
    fn filter(self, settings: &Settings, parent: &DocumentId) -> Document {
        let mut filter = match self {
            Self::Room(child) => query::parent_with_room(settings, parent, child),
            Self::Child(child) => query::parent_with(settings, parent, child),
            Self::ChildOrRoom(child) => query::upsert::parent_with_or_with_room(settings, parent, child),
            Self::Grandchild(child, grandchild) => query::grandchild::parent_with(settings, parent, child, grandchild),
            Self::Exactly(children) => query::parent_with_exactly(settings, parent, children),
        };
        filter.insert(settings.version().as_str(), doc! { "$exists": false });
        filter
    }

    fn array_filters(self) -> Option<Vec<Document>> {
        match self {
            Self::Grandchild(_, grandchild) => Some(vec![query::grandchild::array_filter(grandchild)]),
            _ => None,
        }
    }
}

impl<'a> ChildWrite<'a> {
    pub(crate) fn new(shared: &'a Shared, parent: &'a DocumentId, needs: Needs<'a>) -> Self {
        Self { shared, parent, needs }
    }

    /// Writes. Returns whether that changed anything, or of an upsert, whether it inserted the child.
    pub(crate) async fn send(
        self,
        update: impl Into<UpdateModifications>,
        session: Option<&mut ClientSession>,
    ) -> Result<bool> {
        let settings = &self.shared.settings;
        let (filter, update) = (self.needs.filter(settings, self.parent), update.into());
        let mut conn = self.shared.enter(self.parent.value(), session).await?;
        let mut attempts = settings.retry.start();
        loop {
            record_attempts(&Span::current(), attempts.made());
            let written = self.send_once(&mut conn, filter.clone(), update.clone()).await;
            if let Some(written) = written.map_err(refused)? {
                return Ok(written);
            }
            if let Some(error) = self.reason(&mut conn).await? {
                return Err(error);
            }
            // Another writer has removed the reason in between.
            if conn.has_session() {
                return Err(Error::new(
                    ErrorKind::Contention,
                    "another writer changed the parent at the same moment, nothing was changed: run the transaction again",
                ));
            }
            attempts
                .next(CommandError::custom("the parent changed after the write"))
                .await?;
        }
    }

    /// Sends the command. `None` when no parent has what the write needs.
    async fn send_once(
        &self,
        conn: &mut Conn<'_>,
        filter: Document,
        update: UpdateModifications,
    ) -> send::Result<Option<bool>> {
        let (collection, settings) = (&self.shared.collection, &self.shared.settings);
        if let Needs::ChildOrRoom(child) = self.needs {
            let options = FindOneAndUpdateOptions::builder()
                .projection(query::only(settings, child))
                .collation(query::exact())
                .build();
            let before = conn.find_one_and_update(collection, filter, update, options).await?;
            return Ok(before.map(|before| !has_child(settings, &before, child)));
        }
        let options = UpdateOptions::builder()
            .collation(query::exact())
            .array_filters(self.needs.array_filters())
            .build();
        let updated = conn.update_one(collection, filter, update, options).await?;
        Ok((updated.matched_count > 0).then_some(updated.modified_count > 0))
    }

    /// Reads, on the primary, why the write was refused. `None` when it would not be any more.
    async fn reason(&self, conn: &mut Conn<'_>) -> Result<Option<Error>> {
        let (collection, settings) = (&self.shared.collection, &self.shared.settings);
        let (child, listed) = match self.needs {
            Needs::Room(child) | Needs::Child(child) | Needs::ChildOrRoom(child) | Needs::Grandchild(child, _) => {
                (Some(child), None)
            }
            Needs::Exactly(listed) => (None, Some(listed)),
        };
        let options = FindOneOptions::builder()
            .projection(query::summary(settings, child, listed))
            .collation(query::exact())
            .build();
        let parent = conn.find_one(collection, query::parent(self.parent), options).await?;
        Ok(match parent {
            Some(parent) => self.reason_in(&parent),
            None => Some(Error::new(
                ErrorKind::NotFound,
                "there is no parent with this `_id`, nothing was changed: insert it first",
            )),
        })
    }

    fn reason_in(&self, parent: &RawDocumentBuf) -> Option<Error> {
        let settings = &self.shared.settings;
        if let Err(migrated) = check_not_migrated(settings, parent) {
            return Some(migrated);
        }
        let children = settings.children.as_str();
        let summary = parent.get_document(query::summary_field(settings)).ok();
        let kind = summary.and_then(|summary| summary.get_str("type").ok());
        if !matches!(kind, Some("array" | "missing")) {
            return Some(Error::corrupt(
                self.parent.to_bson(),
                children,
                "the children of the parent are not an array, nothing was changed: correct the document by hand",
            ));
        }
        let has_child = || {
            let children = parent.get_array(children);
            children.is_ok_and(|children| children.into_iter().next().is_some())
        };
        match self.needs {
            Needs::Room(_) if has_child() => Some(Error::new(
                ErrorKind::AlreadyExists,
                "the parent has a child with this id already, nothing was changed: replace or update that child",
            )),
            Needs::ChildOrRoom(_) if has_child() => None,
            Needs::Room(_) | Needs::ChildOrRoom(_) => {
                let size = summary.and_then(|summary| summary.get_i32("size").ok()).unwrap_or(0);
                (size >= settings.max_bson()).then(|| limit_reached(settings))
            }
            Needs::Child(_) if has_child() => None,
            // If it was added after the write, the write found no element either.
            Needs::Grandchild(..) if has_child() => Some(Error::new(
                ErrorKind::GrandchildNotFound,
                "the child has no element with this id in the list, nothing was changed: add one by a $push with update_child()",
            )),
            Needs::Child(_) | Needs::Grandchild(..) => Some(Error::new(
                ErrorKind::ChildNotFound,
                "the parent has no child with this id, nothing was changed",
            )),
            Needs::Exactly(_) => {
                let exactly = summary.and_then(|summary| summary.get_bool("exactly").ok());
                (exactly != Some(true)).then(|| {
                    Error::new(
                        ErrorKind::ChildSetMismatch,
                        "the listed ids are not those of all children of the parent, each once, nothing was changed: read the children again, another writer may have added or removed one",
                    )
                })
            }
        }
    }
}

/// Converts the error of a write. No update changes the only unique index of the pattern, on `_id`.
pub(crate) fn refused(error: CommandError) -> Error {
    let Some(duplicate) = duplicate_key(&error) else {
        return error.into();
    };
    let name = duplicate.index.unwrap_or_default();
    Error::from_driver(
        ErrorKind::DuplicateKey,
        format!("the unique index `{name}`, which is not the pattern's, refused the write, which had no effect"),
        error,
    )
}
