//! Stores elements in a list: in the main document while it has room, then in overflow documents.

use mongo_patterns_core::array::{self, Encoded};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::settings::configuration;
use mongo_patterns_core::transaction::with_stored;
use mongo_patterns_core::{Error, ErrorKind, Result, measure};
use mongodb::bson::Bson;
use mongodb::options::FindOneAndUpdateOptions;

use crate::form::document::{integer, is_true};
use crate::form::equality;
use crate::form::overflow::next_position;
use crate::query;
use crate::read::exists;
use crate::repository::Shared;
use crate::results::{Pushed, PushedMany, not_found};
use crate::settings::Settings;
use crate::write::overflow::{Filled, Opened, Rest};
use crate::write::retried::{projected, unknown_outcome};

mod known;

/// The elements of a push to one document.
pub(crate) struct PushWrite<'a> {
    shared: &'a Shared,
    id: &'a Bson,
    elements: &'a [Encoded],
    /// Whether the one element is stored only if the list does not have it.
    once: bool,
    /// The number of elements that are stored in the main document.
    pub(crate) inline: usize,
    /// The number of elements that are stored in overflow documents.
    pub(crate) overflow: usize,
    /// Whether the list had the one element.
    pub(crate) is_present: bool,
    /// The newest overflow document of an outlier that the process knew, as it was before the call.
    known: Option<Bson>,
    /// The overflow document that took the last element.
    newest: Option<Bson>,
}

impl<'a> PushWrite<'a> {
    pub(crate) fn new(shared: &'a Shared, id: &'a Bson, elements: &'a [Encoded], once: bool) -> Self {
        Self {
            shared,
            id,
            elements,
            once,
            inline: 0,
            overflow: 0,
            is_present: false,
            known: None,
            newest: None,
        }
    }

    /// Returns the number of stored elements. They are a prefix of all elements, also after an error.
    pub(crate) fn stored(&self) -> usize {
        self.inline + self.overflow
    }

    /// Stores the elements.
    pub(crate) async fn push(&mut self, conn: &mut Conn<'_>) -> Result<()> {
        let outcome = if conn.has_session() {
            self.push_from_main(conn).await
        } else {
            let outcome = self.push_without_session(conn).await;
            self.remember(outcome.is_ok());
            outcome
        };
        measure::spilled(self.overflow);
        outcome
    }

    async fn push_without_session(&mut self, conn: &mut Conn<'_>) -> Result<()> {
        match self.push_to_known(conn).await? || self.push_to_room(conn).await? {
            true => Ok(()),
            false => self.push_from_main(conn).await,
        }
    }

    /// Stores the elements in the array, if it has room for all of them. Returns false, and stores nothing, if it does not.
    async fn push_to_room(&mut self, conn: &mut Conn<'_>) -> Result<bool> {
        let Shared { main, settings, .. } = self.shared;
        let Some(free) = (settings.threshold as usize).checked_sub(self.elements.len()) else {
            return Ok(false);
        };
        if self.once {
            return Ok(false);
        }
        let elements = self.elements.iter().map(Encoded::to_bson);
        let elements: Vec<Bson> = elements.collect::<mongodb::error::Result<_>>()?;
        let (filter, update) = (
            query::with_room(settings, self.id, free),
            query::push_all(settings, elements),
        );
        let pushed = conn.update_one(main, filter, update, None).await?;
        let is_stored = pushed.matched_count > 0;
        if is_stored {
            self.inline = self.elements.len();
        }
        Ok(is_stored)
    }

    /// Stores the elements, in the main document first.
    async fn push_from_main(&mut self, conn: &mut Conn<'_>) -> Result<()> {
        // A future that is dropped between two commands would leave the first one in the caller's transaction.
        if conn.is_in_transaction() {
            self.shared.check_indexes().await?;
        }
        self.push_to_main(conn).await?;
        if self.is_present || self.rest().elements.is_empty() {
            return Ok(());
        }
        self.push_to_overflow(conn).await
    }

    fn rest(&self) -> Rest<'a> {
        Rest {
            shared: self.shared,
            id: self.id,
            elements: &self.elements[self.stored()..],
            once: self.once,
        }
    }

    async fn push_to_main(&mut self, conn: &mut Conn<'_>) -> Result<()> {
        let Shared { main, settings, .. } = self.shared;
        let offered = self.elements.iter().take(settings.threshold as usize);
        let offered: Vec<Bson> = offered.map(Encoded::to_bson).collect::<mongodb::error::Result<_>>()?;
        let projection = query::main_before(settings, self.rest().once()?.as_ref());
        let filter = query::with_array(settings, self.id);
        let update = query::push(settings, offered, self.elements.len(), self.once).to_vec();
        let options = FindOneAndUpdateOptions::builder()
            .projection(projection.clone())
            .build();
        let reply = conn.find_one_and_update(main, filter, update, options).await?;
        let Some(reply) = reply else {
            return Err(self.not_pushable(conn).await?);
        };
        let before = projected(main, query::by_id(self.id), projection, "_id", reply).await;
        let before = before.map_err(unknown_outcome)?.ok_or_else(not_found)?;
        if is_true(&before, "has") {
            self.is_present = true;
        } else if !is_true(&before, "flagged") {
            let room = i64::from(settings.threshold) - integer(&before, "size").unwrap_or(0);
            self.inline = usize::try_from(room).unwrap_or(0).min(self.elements.len());
        }
        Ok(())
    }

    /// Returns why no document matched.
    async fn not_pushable(&self, conn: &mut Conn<'_>) -> Result<Error> {
        let Shared { main, settings, .. } = self.shared;
        // Where there is no such document, one may have been inserted just now.
        Ok(
            match exists(conn, main, query::without_array(settings, self.id)).await? {
                false => not_found(),
                true => Error::corrupt(
                    self.id.clone(),
                    settings.array.as_str(),
                    "the array field of the document is not an array, nothing was stored: correct the field by hand",
                ),
            },
        )
    }

    /// Retries after conflicts with other writers.
    async fn push_to_overflow(&mut self, conn: &mut Conn<'_>) -> Result<()> {
        let mut attempts = self.shared.settings.retry.start();
        let in_transaction = conn.is_in_transaction();
        if self.once {
            self.shared.check_indexes().await?;
        }
        // A duplicate key in the unique index would end the caller's transaction.
        if in_transaction && let Some(element) = self.rest().once()? {
            let filter = query::overflow_with(&self.shared.settings, self.id, &element);
            if exists(conn, &self.shared.overflow, filter).await? {
                self.is_present = true;
                return Ok(());
            }
        }
        while !self.rest().elements.is_empty() {
            let filled = self.rest().fill(conn).await?;
            self.is_present |= matches!(filled, Filled::Present);
            if self.is_present {
                break;
            }
            let next = match filled {
                Filled::None if self.known.is_some() && self.stored() == 0 => return Ok(()),
                Filled::None | Filled::Present => 0,
                Filled::Newest { id, seq, taken } => {
                    self.overflow += taken;
                    self.newest = Some(id);
                    next_position(self.id, seq)?
                }
            };
            if self.rest().elements.is_empty() {
                break;
            }
            self.shared.check_indexes().await?;
            match self.rest().open_in_transaction(next, conn).await? {
                Opened::Stored { elements, newest } => {
                    self.overflow += elements;
                    self.newest = Some(newest);
                }
                Opened::Taken | Opened::Present if in_transaction => return Err(conflicting()),
                Opened::Taken => {
                    let cause = CommandError::custom("another writer opened the overflow document");
                    attempts.next(cause).await?;
                }
                Opened::Present => {
                    self.is_present = true;
                    break;
                }
            }
        }
        // A transaction reads one snapshot, in which the array did not have the element.
        if self.once && !self.is_present && !in_transaction && !self.is_unmoved() {
            self.remove_if_present(conn).await?;
        }
        Ok(())
    }

    /// Removes a unique element from the overflow documents again if the main document has it, because a refresh moved it.
    async fn remove_if_present(&mut self, conn: &mut Conn<'_>) -> Result<()> {
        let Shared { main, settings, .. } = self.shared;
        let [element] = self.elements else { return Ok(()) };
        let element = element.to_bson()?;
        let filter = query::with_element(settings, self.id, &element);
        if !exists(conn, main, filter).await? {
            return Ok(());
        }
        let filter = query::overflow_with(settings, self.id, &element);
        let update = query::remove_from_overflow(settings, &element).to_vec();
        conn.update_many(&self.shared.overflow, filter, update, None).await?;
        self.is_present = true;
        self.overflow = 0;
        Ok(())
    }
}

/// The error of a transaction of the caller, which the refused command has ended.
fn conflicting() -> Error {
    Error::new(
        ErrorKind::Contention,
        "another writer stored elements of the list, nothing was stored: run the transaction again",
    )
}

pub(crate) async fn push_one(
    shared: &Shared,
    id: &Bson,
    element: &Encoded,
    once: bool,
    conn: &mut Conn<'_>,
) -> Result<Pushed> {
    check_elements(shared, std::slice::from_ref(element))?;
    let mut push = PushWrite::new(shared, id, std::slice::from_ref(element), once);
    if let Err(error) = push.push(conn).await {
        return Err(match push.stored() {
            0 => error,
            stored => with_stored(error, stored, conn),
        });
    }
    Ok(match (push.is_present, push.inline) {
        (true, _) => Pushed::AlreadyThere,
        (false, 0) => Pushed::Overflow,
        (false, _) => Pushed::Inline,
    })
}

/// Stores several elements.
pub(crate) async fn push_many(
    shared: &Shared,
    id: &Bson,
    elements: &[Encoded],
    conn: &mut Conn<'_>,
) -> Result<PushedMany> {
    let mut push = PushWrite::new(shared, id, elements, false);
    if let Err(error) = push.push(conn).await {
        return Err(with_stored(error, push.stored(), conn));
    }
    Ok(PushedMany {
        inline: push.inline as u64,
        overflow: push.overflow as u64,
    })
}

/// Checks elements before anything is sent.
pub(crate) fn check_elements(shared: &Shared, elements: &[Encoded]) -> Result<()> {
    for element in elements {
        equality::check_element(&shared.settings, element.value())?;
    }
    array::check_sizes(1, elements.iter())
}

/// Refuses a push that does not look for an equal element, where elements are unique.
pub(crate) fn refuse_unique(settings: &Settings) -> Result<()> {
    if settings.unique {
        return Err(configuration(
            "the elements of this repository are unique, nothing was stored: call push_unique(..)",
        ));
    }
    Ok(())
}
