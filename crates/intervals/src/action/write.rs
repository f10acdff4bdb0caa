//! The calls that write.

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::error::ErrorKind::{
    AlreadyExists, Corrupt, DuplicateKey, InvalidArgument, NotFound, NotMigrated, RevisionMismatch,
};
use mongo_patterns_core::new_document::NewDocument;
use mongo_patterns_core::update::{DocumentUpdate, Fixed, failed};
use mongo_patterns_core::{DocumentId, IntoId, Result, action};
use mongodb::bson::{Bson, DateTime, Document};
use mongodb::options::UpdateModifications;
use serde::Serialize;

use crate::query::Change;
use crate::repository::{IntervalRepository, Shared};
use crate::results::{Begun, Ended};
use crate::settings::Settings;
use crate::write::change::{Request, change};
use crate::write::end::end;
use crate::write::insert::insert;

const OWN: &str = "the update changes the interval, or the mark of a valid document, which the repository writes itself, nothing was sent: omit it";
const ID: &str = "the update changes the id of the document, nothing was sent: insert a document with the other id";
const OWN_ID: &str = "the update changes the `_id` of the document, which is immutable, nothing was sent: omit it";

impl<D: Serialize> IntervalRepository<D> {
    /// Inserts a document of an id that has no valid one, from now, or from a [start](Insert::from) in the past or the
    /// future.
    ///
    /// It is valid until the next interval of the id begins, if there is one.
    ///
    /// The repository sets the interval, whatever the document has in these fields.
    ///
    /// ```no_run
    /// # use mongo_patterns::intervals::IntervalRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(prices: IntervalRepository<Document>) -> mongo_patterns::Result<()> {
    /// let begun = prices.insert(&doc! { "item": "pants", "price": 5 }).await?;
    /// println!("5 from {}", begun.valid_from);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// Three round trips. Each examines at most one document. One more with a chosen start, and two if intervals begin later
    /// than the new one. The first write of a repository has two more.
    ///
    /// # Cancel safety
    /// It has an effect as a whole or not at all. Call it again: `AlreadyExists` means that a document is valid.
    ///
    /// # Errors
    /// - [`AlreadyExists`]: a document of the id is valid at its start.
    /// - [`NotMigrated`]: a document of the id has no interval.
    /// - [`DuplicateKey`]: its `_id` is used, also by an earlier interval, or a unique index of the application refuses it.
    /// - [`InvalidArgument`]: the document has no valid id, or the start is not before 9999-01-01.
    /// - [`Corrupt`]: the newest interval is not complete: call [`verify`](Self::verify).
    pub fn insert(&self, document: &D) -> Insert<'_> {
        let shared: &Shared = self.shared();
        Insert::create(shared, NewDocument::encode(&shared.settings.id, document), None)
    }

    /// Replaces the content of the valid document, from now, or from a [start](Replace::from) in the past or the future.
    ///
    /// The previous content stays as an interval that has ended, also if it is the same. The document keeps its id, its
    /// `_id`, and the fields that other repositories [own](mongo_patterns_core::catalog#owners). The repository sets the
    /// interval.
    // proof: together::replaced::each_call_keeps_what_each_other_repository_owns
    ///
    /// ```no_run
    /// # use mongo_patterns::intervals::IntervalRepository;
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Price { price: i32 }
    /// # async fn f(prices: IntervalRepository<Price>) -> mongo_patterns::Result<()> {
    /// if let Some(mut now) = prices.get("pants").await? {
    ///     now.document.price += 1;
    ///     // An error if somebody else has changed it since the read.
    ///     prices.replace("pants", &now.document).expecting(now.valid_from).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// As [`update`](Self::update). A repository whose `ensure_indexes()` was not called needs one more once.
    ///
    /// # Cancel safety
    /// As [`update`](Self::update).
    ///
    /// # Errors
    /// - The errors of [`update`](Self::update).
    /// - [`InvalidArgument`]: the document has another id.
    pub fn replace(&self, id: impl IntoId, document: &D) -> Replace<'_> {
        let shared = self.shared();
        let replacement = DocumentId::new(id).and_then(|id| {
            let new = NewDocument::encode(&shared.settings.id, document)?;
            let content = new.into_replacement(id.value())?;
            Ok((id.into_bson(), content))
        });
        Replace::create(shared, replacement, None, None)
    }
}

impl<D> IntervalRepository<D> {
    /// Updates the valid document by operators or a pipeline, from now, or from a [start](Update::from) in the past or the
    /// future.
    ///
    /// The previous content stays as an interval that has ended, also if the update changes nothing. The new interval ends
    /// where the divided one did. Later intervals stay as they are.
    ///
    /// ```no_run
    /// # use mongo_patterns::ErrorKind;
    /// # use mongo_patterns::mongodb::bson::doc;
    /// # async fn f(prices: mongo_patterns::intervals::IntervalRepository<()>) -> mongo_patterns::Result<()> {
    /// let begun = prices.update("pants", doc! { "$set": { "price": 7 } }).await?;
    /// // Only if the document has not been changed since:
    /// match prices.update("pants", doc! { "$inc": { "price": 1 } }).expecting(begun.valid_from).await {
    ///     Err(error) if error.kind() == ErrorKind::RevisionMismatch => println!("it was changed, decide again"),
    ///     done => drop(done?),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// Three round trips. Each examines at most one document. With a start four to seven. Two more if the client's clock is
    /// not within a second of the server's, or not after the start of the interval. Three more in the first change after a
    /// scheduled one has begun, and two in the first write of a repository.
    ///
    /// # Cancel safety
    /// It has an effect as a whole or not at all. With [`expecting`](Update::expecting) or [`from`](Update::from) it is safe
    /// to retry: an update that took effect is not repeated.
    ///
    /// # Errors
    /// - [`NotFound`]: no document of the id is valid.
    /// - [`RevisionMismatch`]: the document does not begin at the expected time.
    /// - [`AlreadyExists`]: another interval begins at the chosen start.
    /// - [`NotMigrated`]: the document has no interval.
    /// - [`InvalidArgument`]: an invalid update, an update of an id or of the interval, or one that does not suit the stored
    ///   document. Or the start is not before 9999-01-01.
    /// - [`Corrupt`]: its interval is not complete.
    pub fn update(&self, id: impl IntoId, update: impl Into<UpdateModifications>) -> Update<'_> {
        Update::create(self.shared(), DocumentId::new(id), update.into(), None, None)
    }

    /// Ends the interval of the valid document, now. Then no document of the id is valid until an [`insert`](Self::insert),
    /// or until a scheduled interval begins.
    ///
    /// ```no_run
    /// # async fn f(prices: mongo_patterns::intervals::IntervalRepository<()>) -> mongo_patterns::Result<()> {
    /// if let Some(time) = prices.end("pants").await?.valid_to {
    ///     println!("sold until {time}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, two more if no document is valid, and five if a scheduled interval has begun since the last write.
    /// The first write of a repository has two more.
    ///
    /// # Cancel safety
    /// It has an effect or not. Call it again: it finds nothing if it took effect.
    ///
    /// # Errors
    /// - The errors of [`update`](Self::update), but no [`NotFound`]: [`found`](Ended::found) is `false`.
    pub fn end(&self, id: impl IntoId) -> End<'_> {
        End::create(self.shared(), DocumentId::new(id), None)
    }
}

action! {
    /// Inserts a document; returned by [`IntervalRepository::insert`].
    pub struct Insert<'a> {
        shared: &'a Shared,
        new: Result<NewDocument>,
        from: Option<DateTime>,
    }
    with session;

    /// Inserts the document with this start, in the past or the future, if no document of the id is valid at this time.
    from(time: DateTime) => from = Some(time);

    "insert" => Begun
}

action! {
    /// Updates the valid document; returned by [`IntervalRepository::update`].
    pub struct Update<'a> {
        shared: &'a Shared,
        id: Result<DocumentId>,
        update: UpdateModifications,
        expected: Option<DateTime>,
        from: Option<DateTime>,
    }
    with session;

    /// Updates the document only if its interval begins at this time (optimistic locking).
    expecting(valid_from: DateTime) => expected = Some(valid_from);

    /// Changes the interval that contains this time, from this time. In the future, it schedules the change.
    from(time: DateTime) => from = Some(time);

    "update" => Begun
}

action! {
    /// Replaces the valid document; returned by [`IntervalRepository::replace`].
    pub struct Replace<'a> {
        shared: &'a Shared,
        replacement: Result<(Bson, Document)>,
        expected: Option<DateTime>,
        from: Option<DateTime>,
    }
    with session;

    /// Replaces the document only if its interval begins at this time (optimistic locking).
    expecting(valid_from: DateTime) => expected = Some(valid_from);

    /// Changes the interval that contains this time, from this time. In the future, it schedules the change.
    from(time: DateTime) => from = Some(time);

    "replace" => Begun
}

action! {
    /// Ends the interval of the valid document; returned by [`IntervalRepository::end`].
    pub struct End<'a> {
        shared: &'a Shared,
        id: Result<DocumentId>,
        expected: Option<DateTime>,
    }
    with session;

    /// Ends the interval only if it begins at this time (optimistic locking).
    expecting(valid_from: DateTime) => expected = Some(valid_from);

    "end" => Ended
}

/// Returns the fields that no update can change.
fn fixed(settings: &Settings) -> [Fixed<'_>; 5] {
    let [from, to, valid] = [&settings.from, &settings.to, &settings.valid].map(|field| (field.as_str(), OWN));
    [from, to, valid, (settings.id.as_str(), ID), ("_id", OWN_ID)]
}

impl Insert<'_> {
    async fn execute(self) -> Result<Begun> {
        insert(self.shared, &self.new?, self.from, self.session).await
    }
}

impl Update<'_> {
    async fn execute(self) -> Result<Begun> {
        let id = self.id?.into_bson();
        let (others, mut fixed) = (
            self.shared.others_of_update().await?,
            fixed(&self.shared.settings).to_vec(),
        );
        fixed.extend(others.fixed());
        let update = DocumentUpdate::new(self.update, &fixed)?;
        let request = Request {
            change: Change::Update(update),
            expected: self.expected,
            from: self.from,
        };
        let begun = change(self.shared, &id, request, self.session).await;
        begun.map_err(failed)
    }
}

impl Replace<'_> {
    async fn execute(self) -> Result<Begun> {
        let (id, document) = self.replacement?;
        let request = Request {
            change: Change::Replace(document),
            expected: self.expected,
            from: self.from,
        };
        change(self.shared, &id, request, self.session).await
    }
}

impl End<'_> {
    async fn execute(self) -> Result<Ended> {
        let id = self.id?.into_bson();
        end(self.shared, &id, self.expected, self.session).await
    }
}
