//! What all writes share: one command, and a look at the parent where it found no place.

use mongo_patterns_core::action::record_attempts;
use mongo_patterns_core::error::duplicate_key;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, Error, ErrorKind, Result, send};
use mongodb::bson::{Document, RawDocument, RawDocumentBuf};
use mongodb::error::Error as DriverError;
use mongodb::options::{
    Collation, FindOneOptions, ReadConcern, ReadPreference, SelectionCriteria, UpdateModifications, UpdateOptions,
};
use tracing::Span;

use crate::document::full;
use crate::ids::ChildId;
use crate::query;
use crate::repository::Shared;
use crate::settings::Settings;

/// A write to one parent.
pub(crate) struct Write<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) span: &'a Span,
    pub(crate) parent: &'a DocumentId,
    pub(crate) needs: Needs<'a>,
    /// Matches the parent when it has what is needed.
    pub(crate) filter: Document,
    pub(crate) update: UpdateModifications,
}

/// What a write needs its parent to have.
#[derive(Clone, Copy)]
pub(crate) enum Needs<'a> {
    /// Room for this child, which is not there.
    Room(&'a ChildId),
    /// This child.
    Child(&'a ChildId),
    /// Exactly these children.
    Exactly(&'a [ChildId]),
}

impl Needs<'_> {
    /// A server compares ids by the collection's collation in the expressions of an update, and not in those of its
    /// filter. With another than the simple one it would find two different children and then take one for both.
    fn collation(self) -> Option<Collation> {
        matches!(self, Self::Exactly(_)).then(|| Collation::builder().locale("simple").build())
    }
}

impl Write<'_> {
    /// Writes, and returns whether that made a difference.
    pub(crate) async fn run(self, mut session: Option<&mut Session<'_>>) -> Result<bool> {
        let mut attempts = self.shared.settings.retry.start();
        let mut made = 0;
        loop {
            made += 1;
            record_attempts(self.span, made);
            let (filter, update) = (self.filter.clone(), self.update.clone());
            let options = UpdateOptions::builder().collation(self.needs.collation()).build();
            let updated =
                send::update_one(session.as_deref_mut(), &self.shared.collection, filter, update, options).await;
            let updated = updated.map_err(refused)?;
            if updated.matched_count > 0 {
                return Ok(updated.modified_count > 0);
            }
            if let Some(error) = self.look(session.as_deref_mut()).await? {
                return Err(error);
            }
            // By now it has what is needed: another writer was here in between.
            if session.is_some() {
                return Err(Error::new(
                    ErrorKind::Contention,
                    "another writer changed the parent at the same moment, nothing was changed: run the operation again",
                ));
            }
            attempts
                .next(DriverError::custom("the parent changed after the write"))
                .await?;
        }
    }

    /// Why the write found no place; `None` when it would by now. As the primary has it, whatever the collection's reads
    /// are set to.
    async fn look(&self, session: Option<&mut Session<'_>>) -> Result<Option<Error>> {
        let Shared {
            collection, settings, ..
        } = self.shared;
        let (child, listed) = match self.needs {
            Needs::Room(child) | Needs::Child(child) => (Some(child), None),
            Needs::Exactly(listed) => (None, Some(listed)),
        };
        let options = FindOneOptions::builder()
            .projection(query::look(settings, child, listed))
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .read_concern(session.is_none().then(ReadConcern::local))
            .collation(self.needs.collation())
            .build();
        let found = send::find_one(session, collection, query::parent(self.parent), options).await?;
        Ok(match found {
            Some(found) => self.judge(&found),
            None => Some(Error::new(
                ErrorKind::NotFound,
                "there is no parent with this `_id`, nothing was changed: insert it first",
            )),
        })
    }

    fn judge(&self, found: &RawDocumentBuf) -> Option<Error> {
        let settings = &self.shared.settings;
        let look = found.get_document(query::look_field(settings)).ok();
        let kind = look.and_then(|look| look.get_str("type").ok()).unwrap_or_default();
        if kind != "array" && kind != "missing" {
            return Some(Error::corrupt(
                self.parent.to_bson(),
                settings.children.as_str(),
                "the children of the parent are no array, nothing was changed: correct it by hand",
            ));
        }
        let is_there = has_child(settings, found);
        match self.needs {
            Needs::Room(_) if is_there => Some(Error::new(
                ErrorKind::AlreadyExists,
                "the parent has a child with this id already, nothing was changed: replace or change that",
            )),
            Needs::Room(_) => {
                let size = look.and_then(|look| look.get_i32("size").ok()).unwrap_or(0);
                (size >= settings.max_bson()).then(|| full(settings))
            }
            Needs::Child(_) => (!is_there).then(|| {
                Error::new(
                    ErrorKind::ChildNotFound,
                    "the parent has no child with this id, nothing was changed",
                )
            }),
            Needs::Exactly(_) => {
                let exactly = look.and_then(|look| look.get_bool("exactly").ok()).unwrap_or(false);
                (!exactly).then(|| {
                    Error::new(
                        ErrorKind::ChildSetMismatch,
                        "the parent's children are not those that were listed, each once, nothing was changed: another writer added or removed one, or the list was never complete; read them again",
                    )
                })
            }
        }
    }
}

fn has_child(settings: &Settings, found: &RawDocument) -> bool {
    let children = found.get_array(settings.children.as_str());
    children.is_ok_and(|children| children.into_iter().next().is_some())
}

/// What an error of a write means. The pattern has no unique index but that of `_id`, which no update changes.
pub(crate) fn refused(error: DriverError) -> Error {
    let Some(duplicate) = duplicate_key(&error) else {
        return error.into();
    };
    let name = duplicate.index.unwrap_or_default();
    Error::from_driver(
        ErrorKind::DuplicateKey,
        format!("the unique index `{name}`, which is one of your own, refused the write; nothing was stored"),
        error,
    )
}
