//! Makes the subset of a parent anew, by compare and set.

use mongo_patterns_core::action::batch_size;
use mongo_patterns_core::error::is_bad_hint;
use mongo_patterns_core::index::index_missing;
use mongo_patterns_core::send::find_all;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{Error, ErrorKind, Result, send};
use mongodb::bson::{self, Bson, Document, RawBsonRef, RawDocumentBuf};
use mongodb::error::Error as DriverError;
use mongodb::options::{
    CountOptions, FindOneOptions, FindOptions, Hint, ReadConcern, ReadPreference, SelectionCriteria,
};

use crate::form::child::is_id;
use crate::query;
use crate::query::Shown;
use crate::repository::Shared;
use crate::settings::Settings;
use crate::write::error::of_parent;
use crate::write::unmanaged as unwritten;

/// Three attempts suffice, unless the parent is deleted and inserted again in between.
const ATTEMPTS: usize = 16;

/// A parent as a refresh sees it.
#[derive(Debug)]
pub(crate) struct State {
    /// `None` where it was never written by a repository.
    version: Option<i64>,
    /// `None` where it is a guess.
    document: Option<RawDocumentBuf>,
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
    session: Option<&mut Session<'_>>,
) -> Result<Option<State>> {
    let Shared { parents, settings, .. } = shared;
    let options = FindOneOptions::builder()
        .projection(query::state(settings))
        .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
        .read_concern(ReadConcern::local())
        .build();
    let found = send::find_one(session, parents, query::by_id(parent), options).await?;
    Ok(found.map(|document| State::of(settings, document)))
}

/// The first children, as they are embedded. In a transaction it reads the transaction's snapshot.
pub(crate) async fn top(
    shared: &Shared,
    parent: &Bson,
    in_transaction: bool,
    session: Option<&mut Session<'_>>,
) -> Result<Vec<RawDocumentBuf>> {
    let Shared { children, settings, .. } = shared;
    let mut options = FindOptions::builder()
        .sort(settings.sort())
        .limit(i64::from(settings.size))
        .batch_size(batch_size(settings.size))
        .projection(query::embedded(settings))
        .hint(Hint::Name(settings.order_index.clone()))
        .build();
    if !in_transaction {
        options.selection_criteria = Some(SelectionCriteria::ReadPreference(ReadPreference::Primary));
        options.read_concern = Some(ReadConcern::local());
    }
    let found = find_all(session, children, query::children_of(settings, parent), options).await;
    found.map_err(|error| without_index(error, &settings.order_index))
}

/// How many children there are, where the parent is to say so. In a transaction it reads the transaction's snapshot.
pub(crate) async fn total(
    shared: &Shared,
    parent: &Bson,
    in_transaction: bool,
    session: Option<&mut Session<'_>>,
) -> Result<Option<i64>> {
    let Shared { children, settings, .. } = shared;
    if settings.total.is_none() {
        return Ok(None);
    }
    let mut options = CountOptions::builder()
        .hint(Hint::Name(settings.child_index.clone()))
        .build();
    if !in_transaction {
        options.selection_criteria = Some(SelectionCriteria::ReadPreference(ReadPreference::Primary));
        options.read_concern = Some(ReadConcern::local());
    }
    let counted = send::count_documents(session, children, query::children_of(settings, parent), options).await;
    let counted = counted.map_err(|error| without_index(error, &settings.child_index))?;
    Ok(i64::try_from(counted).ok())
}

fn without_index(error: DriverError, index: &str) -> Error {
    if is_bad_hint(&error) {
        // Without the driver's error, as a transaction passes on that one alone.
        return index_missing(index);
    }
    error.into()
}

/// Documents as the elements of an array.
pub(crate) fn elements(top: &[RawDocumentBuf]) -> Result<Vec<Bson>> {
    let elements = top.iter().map(|child| Bson::try_from(RawBsonRef::Document(child)));
    let elements: bson::error::Result<Vec<Bson>> = elements.collect();
    Ok(elements.map_err(DriverError::from)?)
}

/// Whether a child is among those that are embedded.
pub(crate) fn is_in(shared: &Shared, top: &[RawDocumentBuf], child: &Bson) -> bool {
    let field = shared.settings.child_id.as_str();
    top.iter()
        .any(|embedded| is_id(embedded.get(field).ok().flatten(), child))
}

impl State {
    /// A parent that was not looked at, which is to have this version.
    pub(crate) fn guess(version: i64) -> Self {
        Self {
            version: Some(version),
            document: None,
        }
    }

    pub(crate) fn is_guess(&self) -> bool {
        self.document.is_none()
    }

    pub(crate) fn of(settings: &Settings, document: RawDocumentBuf) -> Self {
        let version = match document.get(settings.version.as_str()) {
            Ok(Some(RawBsonRef::Int32(version))) => Some(version.into()),
            Ok(Some(RawBsonRef::Int64(version))) => Some(version),
            _ => None,
        };
        Self {
            version,
            document: Some(document),
        }
    }

    /// The ids of what is embedded in a parent that no repository wrote, `None` for one that has a version. As
    /// [`query::embedded_ids`] gives them, but `null` for what is no array.
    pub(crate) fn first_ids(&self, settings: &Settings) -> Option<Bson> {
        let document = self.document.as_ref().filter(|_| self.version.is_none())?;
        let id = |child: bson::error::Result<RawBsonRef<'_>>| {
            let id = child.ok()?.as_document()?.get(settings.child_id.as_str()).ok()??;
            Bson::try_from(id).ok()
        };
        Some(match document.get(settings.subset.as_str()) {
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
        let Some(document) = &self.document else { return false };
        match document.get(subset) {
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
/// `before` is the parent as it was before a child was written: it does not count for that. It may be a guess, since a
/// version that is still the same when the parent is written was the same when the children were read. With `unless_in`,
/// the parent is not written where its subset is right already and does not have this child, which must be a new one:
/// nothing that another writer may still write to the parent can be wrong because of it. It is looked at for that where it
/// was a guess.
///
/// A parent that no repository wrote is refused where it holds children that the collection does not have.
pub(crate) async fn refresh(
    shared: &Shared,
    parent: &Bson,
    before: Option<State>,
    unless_in: Option<&Bson>,
    mut session: Option<&mut Session<'_>>,
) -> Result<Refreshed> {
    let Shared {
        parents,
        settings,
        known,
        ..
    } = shared;
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
        if unless_in.is_some_and(|child| !is_in(shared, &top, child)) {
            let looked_at;
            let found = if state.is_guess() {
                let Some(found) = find_state(shared, parent, session.as_deref_mut()).await? else {
                    known.forget(parent);
                    return Ok(Refreshed::NoParent);
                };
                looked_at = found;
                &looked_at
            } else {
                &state
            };
            if found.has(settings.subset.as_str(), &top) {
                return Ok(Refreshed::Done { top, written: false });
            }
        }
        let shown = Shown {
            subset: elements(&top)?,
            total: total(shared, parent, false, session.as_deref_mut()).await?,
        };
        let unchanged = state.unchanged(settings, parent);
        let update = query::replace_subset(settings, shown, state.version);
        let updated = send::update_one(session.as_deref_mut(), parents, unchanged, update, None).await;
        let updated = updated.map_err(|error| of_parent(error.into()))?;
        if updated.matched_count > 0 {
            known.wrote(parent, state.version.unwrap_or(0));
            return Ok(Refreshed::Done { top, written: true });
        }
        known.forget(parent);
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
        "there is no parent with this id, so none of its children was stored: insert it first",
    )
}
