//! Stores elements in overflow documents: fills the newest one, and opens new ones.
//!
//! # Design
//!
//! ## Why are overflow documents opened in one transaction with the flag?
//!
//! A push sees the flag, and a refresh may clear it before the push opens its overflow documents. If the flag were set after
//! them, another push could fill them first, and no reader would see its element. The transaction costs four round trips for
//! each overflow document.

use mongo_patterns_core::array::Encoded;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::error::{code, duplicate_key};
use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::{Error, ErrorKind, Result, measure, transaction};
use mongodb::bson::{Bson, RawBsonRef, RawDocument, RawDocumentBuf};
use mongodb::options::{FindOneAndUpdateOptions, FindOneOptions, Hint};

use crate::form::document::{id_of, integer, is_true};
use crate::form::layout::DOCUMENT_BYTES;
use crate::form::overflow::{new_documents, within};
use crate::query;
use crate::repository::Shared;
use crate::results::not_found;
use crate::write::retried::{projected, unknown_outcome};

/// The server's code for an array expression on a value that is not an array.
const ARRAY_EXPECTED: i32 = 28664;

/// The elements of a push for which the main document has no room.
#[derive(Clone, Copy)]
pub(crate) struct Rest<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) id: &'a Bson,
    pub(crate) elements: &'a [Encoded],
    /// Whether the one element is stored only if the list does not have it.
    pub(crate) once: bool,
}

/// The result of filling the newest overflow document.
pub(crate) enum Filled {
    /// It has this `_id`, is at this position, and took this many elements.
    Newest { id: Bson, seq: i32, taken: usize },
    /// There are no overflow documents.
    None,
    /// An overflow document has the element.
    Present,
}

/// The result of opening overflow documents in a transaction.
pub(crate) enum Opened {
    /// This many elements are stored. The newest overflow document has this `_id`.
    Stored { elements: usize, newest: Bson },
    /// Nothing is stored. Another writer was faster.
    Taken,
    /// Nothing is stored. Elements are unique, and another overflow document has the element.
    Present,
}

impl Rest<'_> {
    /// Returns the one element of a unique push.
    pub(crate) fn once(&self) -> mongodb::error::Result<Option<Bson>> {
        match self.elements {
            [element] if self.once => element.to_bson().map(Some),
            _ => Ok(None),
        }
    }

    /// Adds up to a document of elements to the newest overflow document.
    pub(crate) async fn fill(&self, conn: &mut Conn<'_>) -> Result<Filled> {
        let Shared { overflow, settings, .. } = self.shared;
        let offered = self.elements.iter().take(settings.max_overflow_elements as usize);
        let offered = within(offered, DOCUMENT_BYTES);
        let offered: Vec<Bson> = offered.map(Encoded::to_bson).collect::<mongodb::error::Result<_>>()?;
        let number = offered.len();
        let in_transaction = conn.is_in_transaction();
        let projection = query::overflow_before(settings, self.once()?.as_ref());
        let filter = query::overflow_of(settings, self.id);
        let update = query::fill(settings, offered, self.once).to_vec();
        let options = FindOneAndUpdateOptions::builder()
            .sort(query::newest_first(settings))
            .projection(projection.clone())
            .hint(self.seq_index())
            .build();
        let reply = conn.find_one_and_update(overflow, filter, update, options).await;
        let reply = match reply {
            Ok(Some(reply)) => reply,
            Ok(None) => return Ok(Filled::None),
            Err(error) if self.is_element(&error) && !in_transaction => return Ok(Filled::Present),
            Err(error) if !conn.has_session() && Error::from(error.clone()).kind() == ErrorKind::TooLarge => {
                return self.newest(conn).await;
            }
            Err(error) if code(&error) == Some(ARRAY_EXPECTED) => {
                return Err(Error::corrupt(
                    self.id.clone(),
                    "",
                    "the elements of the newest overflow document are not an array, the rest was not stored: correct the field by hand",
                ));
            }
            Err(error) => return Err(error.into()),
        };
        let any = query::overflow_of(settings, self.id);
        let before = projected(overflow, any, projection, settings.parent.as_str(), reply).await;
        let Some(before) = before.map_err(unknown_outcome)? else {
            return Ok(Filled::None);
        };
        let (id, seq) = (id_of(&before), self.position(&before)?);
        if is_true(&before, "has") {
            return Ok(Filled::Present);
        }
        let count = integer(&before, settings.count.as_str());
        let room = count.map(|count| i64::from(settings.max_overflow_elements) - count);
        let room = room.and_then(|room| usize::try_from(room).ok()).unwrap_or(0);
        let taken = room.min(number);
        Ok(Filled::Newest { id, seq, taken })
    }

    /// Reads the newest overflow document, which has too many bytes for another element.
    async fn newest(&self, conn: &mut Conn<'_>) -> Result<Filled> {
        let Shared { overflow, settings, .. } = self.shared;
        let options = FindOneOptions::builder()
            .sort(query::newest_first(settings))
            .projection(query::position(settings))
            .build();
        let newest = query::overflow_of(settings, self.id);
        let Some(newest) = conn.find_one(overflow, newest, options).await? else {
            return Ok(Filled::None);
        };
        let (id, seq) = (id_of(&newest), self.position(&newest)?);
        Ok(Filled::Newest { id, seq, taken: 0 })
    }

    /// Returns the position of an overflow document. In the manual's form it has none, and precedes all others.
    fn position(&self, document: &RawDocument) -> Result<i32> {
        let seq = self.shared.settings.seq.as_str();
        match document.get(seq).ok().flatten() {
            None | Some(RawBsonRef::Null) => Ok(-1),
            Some(value) => stored_integer(value)
                .and_then(|seq| seq.try_into().ok())
                .ok_or_else(|| {
                    Error::corrupt(
                    id_of(document),
                    seq,
                    "the position of an overflow document is not an integer, the rest was not stored: call repair()",
                )
                .of_collection(&self.shared.overflow)
                }),
        }
    }

    /// Opens overflow documents from a position on, in a transaction with the flag.
    pub(crate) async fn open_in_transaction(&self, seq: i32, conn: &mut Conn<'_>) -> Result<Opened> {
        let Shared { main, settings, .. } = self.shared;
        let (documents, counts) = new_documents(settings, self.id, seq, self.elements)?;
        let context = (self, documents.as_slice());
        let opened = transaction::run(main, &settings.retry, conn, context, |conn, (rest, documents)| {
            Box::pin(rest.open_in(documents, conn))
        });
        match opened.await {
            Ok(()) => {
                measure::overflow_documents(documents.len());
                let newest = documents.last().map_or(Bson::Null, |newest| id_of(newest));
                Ok(Opened::Stored {
                    elements: counts.iter().sum(),
                    newest,
                })
            }
            Err(error) if error.as_driver_error().is_some() => Err(error),
            Err(error) => match error.kind() {
                ErrorKind::Contention => Ok(Opened::Taken),
                ErrorKind::DuplicateKey => Ok(Opened::Present),
                _ => Err(error),
            },
        }
    }

    async fn open_in(&self, documents: &[RawDocumentBuf], conn: &mut Conn<'_>) -> Result<()> {
        if !set_flag_and_conflict(self.shared, self.id, conn).await? {
            return Err(not_found());
        }
        let inserted = conn.insert_many(&self.shared.overflow, documents, None).await;
        let Err(error) = inserted else { return Ok(()) };
        // Without the driver's error, by which the caller distinguishes them.
        Err(if self.is_element(&error) {
            Error::new(ErrorKind::DuplicateKey, "another overflow document has the element")
        } else if duplicate_key(&error).is_some() {
            Error::new(ErrorKind::Contention, "another writer opened the overflow document")
        } else {
            error.into()
        })
    }

    /// Returns whether a duplicate key is an element.
    fn is_element(&self, error: &CommandError) -> bool {
        let settings = &self.shared.settings;
        let Some(index) = settings.element_index().filter(|_| self.once) else {
            return false;
        };
        let Some(duplicate) = duplicate_key(error) else {
            return false;
        };
        match duplicate.index {
            Some(name) => name == index,
            None => {
                let field = duplicate.fields.get(1);
                field.is_some_and(|field| *field == *settings.extras.as_str())
            }
        }
    }

    fn seq_index(&self) -> Hint {
        Hint::Name(self.shared.settings.seq_index.clone())
    }
}

/// Sets the flag in a transaction, which then conflicts with other writes to the main document. Returns whether the document
/// exists.
async fn set_flag_and_conflict(shared: &Shared, id: &Bson, conn: &mut Conn<'_>) -> Result<bool> {
    let [set, unset] = query::set_flag_and_conflict(&shared.settings);
    let updated = conn.update_one(&shared.main, query::by_id(id), set, None).await?;
    conn.update_one(&shared.main, query::by_id(id), unset, None).await?;
    Ok(updated.matched_count > 0)
}
