//! Stores elements: in the main document while there is room, then in the newest of the extras.

use mongo_patterns_core::array::Encoded;
use mongo_patterns_core::error::{code, duplicate_key, is_bad_hint, refused_document};
use mongo_patterns_core::index::index_missing;
use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{Error, ErrorKind, Result, document_id, send};
use mongodb::bson::{Bson, RawBsonRef, RawDocument, doc};
use mongodb::error::Error as DriverError;
use mongodb::options::{
    FindOneAndUpdateOptions, FindOneOptions, Hint, ReadConcern, ReadPreference, SelectionCriteria, UpdateOptions,
};
use tokio::sync::RwLockReadGuard;

use crate::form::document::id_of;
use crate::form::overflow::{DOCUMENT_BYTES, extras_documents, next_place, within};
use crate::query;
use crate::repository::Shared;
use crate::write::open::{Opened, hold_and_flag};
use crate::write::retried::{projected, stored_or_not};

/// The server's code for an array expression on what is no array.
const NO_ARRAY: i32 = 28664;

/// Elements on their way to one document.
pub(crate) struct Store<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) id: &'a Bson,
    pub(crate) elements: &'a [Encoded],
    /// Whether the one element is stored only if it is not there.
    pub(crate) once: bool,
    /// How many are stored in the main document.
    pub(crate) inline: usize,
    /// How many are stored in the extras.
    pub(crate) overflow: usize,
    /// Whether the one element was there already.
    pub(crate) is_there: bool,
    /// The ids of the extras documents that were opened.
    opened: Vec<Bson>,
    /// The lock of the document, while no transaction of this call is under way.
    locked: Option<RwLockReadGuard<'a, ()>>,
    /// The lock of a push, until it is done.
    push: Option<RwLockReadGuard<'a, ()>>,
}

/// The newest of the extras, as it was before elements went there.
struct Newest {
    seq: i32,
    taken: usize,
}

impl<'a> Store<'a> {
    pub(crate) fn new(shared: &'a Shared, id: &'a Bson, elements: &'a [Encoded], once: bool) -> Self {
        Self {
            shared,
            id,
            elements,
            once,
            inline: 0,
            overflow: 0,
            is_there: false,
            opened: Vec::new(),
            locked: None,
            push: None,
        }
    }

    /// Locks the document, for as long as it stores. Not in a caller's session.
    pub(crate) async fn locked(mut self) -> Self {
        let id = document_id::text(self.id);
        self.push = Some(self.shared.pushes.shared(&id).await);
        self.locked = Some(self.shared.locks.shared(&id).await);
        self
    }

    /// How many elements are stored: a prefix of them, also when a command fails.
    pub(crate) fn stored(&self) -> usize {
        self.inline + self.overflow
    }

    pub(crate) fn rest(&self) -> &'a [Encoded] {
        &self.elements[self.stored()..]
    }

    /// The first of the elements, where it must not be stored twice.
    fn once(&self) -> mongodb::error::Result<Option<Bson>> {
        match self.elements {
            [element] if self.once => element.to_bson().map(Some),
            _ => Ok(None),
        }
    }

    pub(crate) async fn run(&mut self, mut session: Option<&mut Session<'_>>) -> Result<()> {
        // A future that is dropped between two commands would leave the first one in the caller's transaction.
        if session.as_deref().is_some_and(Session::is_in_transaction) {
            self.shared.check_indexes().await?;
        }
        self.main(session.as_deref_mut()).await?;
        if self.is_there || self.rest().is_empty() {
            return Ok(());
        }
        self.extras(session).await
    }

    /// To the main document, which gets the flag first when some are left: a reader that finds the flag looks for
    /// extras, and a writer that dies here leaves a flag that says too much, and no element that nobody sees.
    async fn main(&mut self, mut session: Option<&mut Session<'_>>) -> Result<()> {
        let Shared { main, settings, .. } = self.shared;
        let offered = self.elements.iter().take(settings.threshold as usize);
        let offered: Vec<Bson> = offered.map(Encoded::to_bson).collect::<mongodb::error::Result<_>>()?;
        let projection = query::main_before(settings, self.once()?.as_ref());
        let filter = query::with_array(settings, self.id);
        let update = query::push(settings, offered, self.elements.len(), self.once).to_vec();
        let options = FindOneAndUpdateOptions::builder()
            .projection(projection.clone())
            .build();
        let answer = send::find_one_and_update(session.as_deref_mut(), main, filter, update, options).await?;
        let Some(answer) = answer else {
            return Err(self.not_found(session).await?);
        };
        let before = projected(main, query::by_id(self.id), projection, "_id", answer).await;
        let Some(before) = before.map_err(stored_or_not)? else {
            return Err(not_found());
        };
        if is_true(&before, "has") {
            self.is_there = true;
        } else if !is_true(&before, "flagged") {
            let room = i64::from(settings.threshold) - integer(&before, "size").unwrap_or(0);
            self.inline = usize::try_from(room).unwrap_or(0).min(self.elements.len());
        }
        Ok(())
    }

    /// Why no document was found that can be pushed to.
    async fn not_found(&self, session: Option<&mut Session<'_>>) -> Result<Error> {
        let Shared { main, settings, .. } = self.shared;
        let options = FindOneOptions::builder()
            .projection(doc! { "_id": 1 })
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .read_concern(session.is_none().then(ReadConcern::local))
            .build();
        let found = send::find_one(session, main, query::without_array(settings, self.id), options).await?;
        Ok(match found {
            // Also where it was inserted just now.
            None => not_found(),
            Some(_) => Error::corrupt(
                self.id.clone(),
                settings.array.as_str(),
                "the array field of the document is not an array, nothing was stored: correct it by hand",
            ),
        })
    }

    /// To the newest of the extras, and to new ones. Repeats what another writer got in the way of.
    async fn extras(&mut self, mut session: Option<&mut Session<'_>>) -> Result<()> {
        let mut attempts = self.shared.settings.retry.start();
        let in_transaction = session.as_deref().is_some_and(Session::is_in_transaction);
        if self.once {
            self.shared.check_indexes().await?;
        }
        // The unique index would end the caller's transaction.
        if self.once && in_transaction && self.is_in_extras(session.as_deref_mut()).await? {
            self.is_there = true;
            return Ok(());
        }
        while !self.rest().is_empty() {
            let newest = self.fill(session.as_deref_mut()).await?;
            if self.is_there {
                break;
            }
            let next = match newest {
                Some(newest) => {
                    self.overflow += newest.taken;
                    next_place(self.id, newest.seq)?
                }
                None => 0,
            };
            if self.rest().is_empty() {
                break;
            }
            self.shared.check_indexes().await?;
            if session.is_none() {
                let had_locked = self.locked.take().is_some();
                let opened = self.open_with_flag(next, had_locked).await?;
                if had_locked {
                    self.locked = Some(self.shared.locks.shared(&document_id::text(self.id)).await);
                }
                match opened {
                    Opened::Stored(elements) => {
                        self.overflow += elements;
                        continue;
                    }
                    Opened::Waited => continue,
                    Opened::Taken => {
                        attempts
                            .next(DriverError::custom("another writer opened the extras"))
                            .await?;
                        continue;
                    }
                    Opened::IsThere => {
                        self.is_there = true;
                        break;
                    }
                    Opened::Standalone => {}
                }
            }
            if let Some(session) = session.as_deref_mut() {
                // In the caller's transaction, a rebalance must conflict with it.
                hold_and_flag(self.shared, self.id, session).await?;
            }
            let Err(error) = self.open(next, session.as_deref_mut()).await else {
                continue;
            };
            if self.is_element(&error) && !in_transaction {
                self.is_there = true;
            } else if session.is_none() && duplicate_key(&error).is_some() {
                attempts.next(error).await?;
            } else {
                return Err(self.failed(error));
            }
        }
        if !self.opened.is_empty() {
            self.flag_again(session.as_deref_mut()).await?;
        }
        // A transaction reads one snapshot, in which the array did not have it.
        if self.once && !self.is_there && !in_transaction {
            self.check_once(session).await?;
        }
        Ok(())
    }

    /// Up to a document of elements to the newest of the extras. `None` when there are none yet.
    async fn fill(&mut self, mut session: Option<&mut Session<'_>>) -> Result<Option<Newest>> {
        let Shared { overflow, settings, .. } = self.shared;
        let offered = self.rest().iter().take(settings.max_extras_elements as usize);
        let offered = within(offered, DOCUMENT_BYTES);
        let offered: Vec<Bson> = offered.map(Encoded::to_bson).collect::<mongodb::error::Result<_>>()?;
        let number = offered.len();
        let in_transaction = session.as_deref().is_some_and(Session::is_in_transaction);
        let projection = query::extras_before(settings, self.once()?.as_ref());
        let filter = query::extras_of(settings, self.id);
        let update = query::fill(settings, offered, self.once).to_vec();
        let options = FindOneAndUpdateOptions::builder()
            .sort(doc! { settings.seq.as_str(): -1 })
            .projection(projection.clone())
            .hint(Hint::Name(settings.seq_index.clone()))
            .build();
        let before = match send::find_one_and_update(session.as_deref_mut(), overflow, filter, update, options).await {
            Ok(Some(before)) => before,
            Ok(None) => return Ok(None),
            Err(error) if self.is_element(&error) && !in_transaction => {
                self.is_there = true;
                return Ok(None);
            }
            Err(error) if session.is_none() && Error::from(error.clone()).kind() == ErrorKind::TooLarge => {
                return self.newest().await;
            }
            Err(error) if code(&error) == Some(NO_ARRAY) => {
                return Err(Error::corrupt(
                    self.id.clone(),
                    settings.extras.as_str(),
                    "the elements of the newest extras of the document are not an array, the rest was not stored: correct it by hand",
                ));
            }
            Err(error) => return Err(self.failed(error)),
        };
        let extras = query::extras_of(settings, self.id);
        let before = projected(overflow, extras, projection, settings.parent.as_str(), before).await;
        let Some(before) = before.map_err(stored_or_not)? else {
            return Ok(None);
        };
        if is_true(&before, "has") {
            self.is_there = true;
        }
        let room =
            integer(&before, settings.count.as_str()).map(|count| i64::from(settings.max_extras_elements) - count);
        let room = room.and_then(|room| usize::try_from(room).ok()).unwrap_or(0);
        Ok(Some(Newest {
            seq: self.place(&before)?,
            taken: room.min(number),
        }))
    }

    /// The newest of the extras, to which nothing more fits.
    async fn newest(&self) -> Result<Option<Newest>> {
        let Shared { overflow, settings, .. } = self.shared;
        let find = overflow
            .find_one(query::extras_of(settings, self.id))
            .sort(doc! { settings.seq.as_str(): -1 })
            .projection(doc! { settings.seq.as_str(): 1 })
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary));
        let Some(newest) = find.read_concern(ReadConcern::local()).await? else {
            return Ok(None);
        };
        let seq = self.place(&newest)?;
        Ok(Some(Newest { seq, taken: 0 }))
    }

    /// The place of an extras document. One of the manual's form has none, and comes before all others.
    fn place(&self, extras: &RawDocument) -> Result<i32> {
        match extras.get(self.shared.settings.seq.as_str()).ok().flatten() {
            None | Some(RawBsonRef::Null) => Ok(-1),
            Some(seq) => stored_integer(seq).and_then(|seq| seq.try_into().ok()).ok_or_else(|| {
                Error::corrupt(
                    id_of(extras),
                    self.shared.settings.seq.as_str(),
                    "the place of an extras document is not a number, the rest was not stored: repair it",
                )
            }),
        }
    }

    /// Opens the extras at a place. One element goes by an upsert, so that it goes to the document of another writer who
    /// opens it at the same moment.
    async fn open(&mut self, seq: i32, session: Option<&mut Session<'_>>) -> mongodb::error::Result<()> {
        let Shared { overflow, settings, .. } = self.shared;
        if let [element] = self.rest() {
            let element = element.to_bson()?;
            let once = self.once.then_some(&element);
            let filter = query::extras_at(settings, self.id, seq, once);
            let update = query::push_extra(settings, element.clone());
            let options = UpdateOptions::builder()
                .upsert(true)
                .hint(Hint::Name(settings.seq_index.clone()))
                .build();
            let updated = send::update_one(session, overflow, filter, update, options).await?;
            self.opened.extend(updated.upserted_id);
            self.overflow += 1;
            return Ok(());
        }
        let (documents, elements) = extras_documents(self.shared, self.id, seq, self.rest())?;
        let outcome = send::insert_many(session, overflow, &documents, None).await;
        let inserted = match &outcome {
            Ok(_) => documents.len(),
            Err(error) => refused_document(error).unwrap_or(0),
        };
        self.overflow += elements[..inserted].iter().sum::<usize>();
        self.opened
            .extend(documents[..inserted].iter().map(|document| id_of(document)));
        outcome.map(drop)
    }

    /// After extras were opened without a transaction of ours: the flag once more. A repair may have cleared it after we
    /// saw it, and a delete may have taken the document.
    async fn flag_again(&self, mut session: Option<&mut Session<'_>>) -> Result<()> {
        let Shared {
            main,
            overflow,
            settings,
            ..
        } = self.shared;
        let flag = doc! { "$set": { settings.flag.as_str(): true } };
        let flagged = send::update_one(session.as_deref_mut(), main, query::by_id(self.id), flag, None).await?;
        if flagged.matched_count > 0 {
            return Ok(());
        }
        let mut orphaned = query::extras_of(settings, self.id);
        orphaned.insert("_id", doc! { "$in": &self.opened });
        send::delete_many(session, overflow, orphaned, None).await?;
        Err(not_found())
    }

    /// Returns whether the one element is in the extras.
    async fn is_in_extras(&self, session: Option<&mut Session<'_>>) -> Result<bool> {
        let Shared { overflow, settings, .. } = self.shared;
        let Some(element) = self.once()? else { return Ok(false) };
        let options = FindOneOptions::builder()
            .projection(doc! { "_id": 1 })
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .build();
        let filter = query::extras_with(settings, self.id, &element);
        Ok(send::find_one(session, overflow, filter, options).await?.is_some())
    }

    /// After an element that must be there once went to the extras: a rebalance may have moved an equal one from the
    /// extras to the main document after we looked there.
    async fn check_once(&mut self, mut session: Option<&mut Session<'_>>) -> Result<()> {
        let Shared {
            main,
            overflow,
            settings,
            ..
        } = self.shared;
        let Some(element) = self.once()? else { return Ok(()) };
        let mut filter = query::by_id(self.id);
        filter.insert(settings.array.as_str(), query::has(&element));
        let options = FindOneOptions::builder()
            .projection(doc! { "_id": 1 })
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .read_concern(session.is_none().then(ReadConcern::local))
            .build();
        let found = send::find_one(session.as_deref_mut(), main, filter, options).await?;
        if found.is_none() {
            return Ok(());
        }
        let filter = query::extras_with(settings, self.id, &element);
        let update = query::remove_extra(settings, &element).to_vec();
        send::update_many(session, overflow, filter, update).await?;
        self.is_there = true;
        self.overflow = 0;
        Ok(())
    }

    /// Whether a duplicate key is that of an element.
    pub(crate) fn is_element(&self, error: &DriverError) -> bool {
        let Some(index) = self.shared.settings.element_index().filter(|_| self.once) else {
            return false;
        };
        let Some(duplicate) = duplicate_key(error) else {
            return false;
        };
        match duplicate.index {
            Some(name) => name == index,
            None => duplicate
                .fields
                .get(1)
                .is_some_and(|field| *field == *self.shared.settings.extras.as_str()),
        }
    }

    fn failed(&self, error: DriverError) -> Error {
        if is_bad_hint(&error) {
            return index_missing(&self.shared.settings.seq_index).caused_by(error);
        }
        error.into()
    }
}

pub(crate) fn not_found() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "there is no document with this id, nothing was stored: insert it first",
    )
}

pub(crate) fn is_true(document: &RawDocument, field: &str) -> bool {
    matches!(document.get(field), Ok(Some(RawBsonRef::Boolean(true))))
}

pub(crate) fn integer(document: &RawDocument, field: &str) -> Option<i64> {
    stored_integer(document.get(field).ok().flatten()?)
}
