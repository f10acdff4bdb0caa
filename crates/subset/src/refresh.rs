//! Makes the subset of a parent anew, by compare and set.

use mongo_patterns_core::error::is_bad_hint;
use mongo_patterns_core::find::find_all;
use mongo_patterns_core::index::index_missing;
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::ClientSession;
use mongodb::bson::{self, Bson, Document, RawBsonRef, RawDocumentBuf};
use mongodb::options::{Hint, ReadConcern, ReadPreference, SelectionCriteria};

use crate::child::is_id;
use crate::repository::Shared;
use crate::settings::Settings;
use crate::{query, unwritten};

/// Three attempts suffice, unless the parent is deleted and inserted again in between.
const ATTEMPTS: usize = 16;

/// A parent as a refresh sees it.
#[derive(Debug)]
pub(crate) struct State {
    /// `None` where it was never written by a repository.
    version: Option<i64>,
    document: RawDocumentBuf,
}

/// What a refresh did.
#[derive(Debug)]
pub(crate) enum Refreshed {
    /// The parent was written, by it or by a later refresh of another writer, or need not be.
    Done {
        /// What the subset is, as it was last seen.
        top: Vec<RawDocumentBuf>,
        /// Whether this refresh wrote the parent.
        written: bool,
    },
    /// There is no such parent.
    NoParent,
}

/// The parent, as the primary has it.
pub(crate) async fn find_state(
    shared: &Shared,
    parent: &Bson,
    session: Option<&mut ClientSession>,
) -> Result<Option<State>> {
    let Shared { parents, settings, .. } = shared;
    let find = parents
        .find_one(query::by_id(parent))
        .projection(query::state(settings));
    let find = find.selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary));
    let find = find.read_concern(ReadConcern::local());
    let found = match session {
        Some(session) => find.session(session).await?,
        None => find.await?,
    };
    Ok(found.map(|document| State::of(settings, document)))
}

/// The first children, as they are embedded. In a transaction it reads the transaction's snapshot.
pub(crate) async fn top(
    shared: &Shared,
    parent: &Bson,
    in_transaction: bool,
    session: Option<&mut ClientSession>,
) -> Result<Vec<RawDocumentBuf>> {
    let Shared { children, settings, .. } = shared;
    let mut find = children
        .find(query::children_of(settings, parent))
        .sort(settings.sort())
        .limit(settings.size.into())
        .batch_size(settings.size)
        .projection(query::embedded(settings))
        .hint(Hint::Name(settings.order_index.clone()));
    if !in_transaction {
        let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
        find = find.selection_criteria(primary).read_concern(ReadConcern::local());
    }
    find_all(find, session).await.map_err(|error| {
        if is_bad_hint(&error) {
            // Without the driver's error, as a transaction passes on that one alone.
            return index_missing(&settings.order_index);
        }
        error.into()
    })
}

/// Documents as the elements of an array.
pub(crate) fn elements(top: &[RawDocumentBuf]) -> Result<Vec<Bson>> {
    let elements = top.iter().map(|child| Bson::try_from(RawBsonRef::Document(child)));
    let elements: bson::error::Result<Vec<Bson>> = elements.collect();
    Ok(elements.map_err(mongodb::error::Error::from)?)
}

/// Whether a child is among those that are embedded.
pub(crate) fn is_in(shared: &Shared, top: &[RawDocumentBuf], child: &Bson) -> bool {
    let field = shared.settings.child_id.as_str();
    top.iter()
        .any(|embedded| is_id(embedded.get(field).ok().flatten(), child))
}

impl State {
    pub(crate) fn of(settings: &Settings, document: RawDocumentBuf) -> Self {
        let version = match document.get(settings.version.as_str()) {
            Ok(Some(RawBsonRef::Int32(version))) => Some(version.into()),
            Ok(Some(RawBsonRef::Int64(version))) => Some(version),
            _ => None,
        };
        Self { version, document }
    }

    /// The ids of what is embedded in a parent that no repository wrote, `None` for one that has a version. As
    /// [`query::embedded_ids`] gives them, but `null` for what is no array.
    pub(crate) fn first_ids(&self, settings: &Settings) -> Option<Bson> {
        if self.version.is_some() {
            return None;
        }
        let id = |child: bson::error::Result<RawBsonRef<'_>>| {
            let id = child.ok()?.as_document()?.get(settings.child_id.as_str()).ok()??;
            Bson::try_from(id).ok()
        };
        Some(match self.document.get(settings.subset.as_str()) {
            Ok(None | Some(RawBsonRef::Null | RawBsonRef::Undefined)) => Bson::Array(Vec::new()),
            Ok(Some(RawBsonRef::Array(stored))) => stored
                .into_iter()
                .map(|child| id(child).unwrap_or(Bson::Null))
                .collect(),
            _ => Bson::Null,
        })
    }

    /// Whether something is embedded in a parent that no repository wrote.
    pub(crate) fn is_unwritten(&self, settings: &Settings) -> bool {
        self.first_ids(settings)
            .is_some_and(|ids| ids != Bson::Array(Vec::new()))
    }

    /// The parent, as long as it is as it was seen.
    pub(crate) fn unchanged(&self, settings: &Settings, parent: &Bson) -> Document {
        match (self.version, self.first_ids(settings)) {
            (Some(version), _) => query::at_version(settings, parent, version),
            (None, ids) => query::at_first_write(settings, parent, &ids.unwrap_or(Bson::Null)),
        }
    }

    /// Whether the stored subset is this one, byte by byte.
    fn has(&self, subset: &str, top: &[RawDocumentBuf]) -> bool {
        match self.document.get(subset) {
            Ok(None | Some(RawBsonRef::Null)) => top.is_empty(),
            Ok(Some(RawBsonRef::Array(stored))) => {
                let mut stored = stored.into_iter();
                let same = |child: &RawDocumentBuf| {
                    let stored = stored.next().and_then(std::result::Result::ok);
                    stored
                        .and_then(RawBsonRef::as_document)
                        .map(mongodb::bson::RawDocument::as_bytes)
                        == Some(child.as_bytes())
                };
                top.iter().all(same) && stored.next().is_none()
            }
            _ => false,
        }
    }
}

/// Writes what the subset must be, unless another writer does.
///
/// The version is always read before the children: where it has not changed when the parent is written, nobody else has
/// written it since, and what was read of the children is not older than what the parent has. A refresh that lost against
/// two others is done: the second of them began after the first was written, so it read the children after this call had
/// looked at the version, which was after this call had written its child.
///
/// `before` is the parent as it was before a child was written: it does not count for that. With `unless_in`, the parent
/// is not written where its subset is right already and does not have this child, which must be a new one: nothing that
/// another writer may still write to the parent can be wrong because of it.
///
/// A parent that no repository wrote is refused where it holds children that the collection does not have.
pub(crate) async fn refresh(
    shared: &Shared,
    parent: &Bson,
    before: Option<State>,
    unless_in: Option<&Bson>,
    mut session: Option<&mut ClientSession>,
) -> Result<Refreshed> {
    let Shared { parents, settings, .. } = shared;
    let mut before = before;
    let mut first = None;
    let mut top = Vec::new();
    for _ in 0..ATTEMPTS {
        let state = match before.take() {
            Some(state) => state,
            None => {
                let Some(state) = find_state(shared, parent, session.as_deref_mut()).await? else {
                    return Ok(Refreshed::NoParent);
                };
                let version = state.version.unwrap_or(0);
                if version.wrapping_sub(*first.get_or_insert(version)) >= 2 {
                    return Ok(Refreshed::Done { top, written: false });
                }
                state
            }
        };
        unwritten::check(shared, parent, &state, false, session.as_deref_mut()).await?;
        top = self::top(shared, parent, false, session.as_deref_mut()).await?;
        if unless_in.is_some_and(|child| !is_in(shared, &top, child)) && state.has(settings.subset.as_str(), &top) {
            return Ok(Refreshed::Done { top, written: false });
        }
        let mut update = parents.update_one(
            state.unchanged(settings, parent),
            query::replace_subset(settings, elements(&top)?, state.version),
        );
        if let Some(session) = session.as_deref_mut() {
            update = update.session(session);
        }
        if update.await?.matched_count > 0 {
            return Ok(Refreshed::Done { top, written: true });
        }
    }
    Err(Error::new(
        ErrorKind::Contention,
        "the parent was deleted and inserted again each time, its subset may not be right: call rebuild(..)",
    ))
}

/// That there is no such parent.
pub(crate) fn no_parent() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "there is no parent with this id, nothing was stored: insert it first",
    )
}
