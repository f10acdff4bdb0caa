//! The calls that read.

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::NotFound;
use mongo_patterns_core::action::{Find, Read};
use mongo_patterns_core::{DocumentId, IntoId};
use mongodb::bson::{DateTime, Document};
use serde::de::DeserializeOwned;

use crate::form::diff::diff;
use crate::read::{current_of, find_as_of, find_current, find_revision, revision_of};
use crate::repository::HistoryRepository;
use crate::results::{Current, Diff, Revision, no_revision};

impl<D: DeserializeOwned> HistoryRepository<D> {
    /// Reads the revision that a document had at a time: the newest one whose time is not later. `None` if the document did
    /// not exist yet, or if that revision was deleted by `delete_before`. A document that was deleted then has a revision
    /// without a document.
    ///
    /// ```no_run
    /// # use mongo_patterns::history::HistoryRepository;
    /// # use mongo_patterns::mongodb::bson::{DateTime, Document};
    /// # async fn f(policies: HistoryRepository<Document>, accident: DateTime) -> mongo_patterns::Result<()> {
    /// if let Some(valid) = policies.as_of(1, accident).await? {
    ///     println!("revision {}: {:?}", valid.revision, valid.document);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The times of a document strictly increase, whatever the clocks are, so the answer for a past time does not change.
    /// Several writes in one millisecond get times that are 1 ms apart. So `as_of(.., DateTime::now())` can be older than
    /// the newest revision, which [`get`](Self::get) returns.
    ///
    /// # Cost
    /// One round trip, which examines one document, however long the history is.
    pub fn as_of(&self, id: impl IntoId, time: DateTime) -> Read<'_, Option<Revision<D>>> {
        let (shared, id) = (self.shared(), DocumentId::new(id));
        Read::new(shared.operation("as_of"), async move |mut conn| {
            let (shared, id) = (shared, id?.into_bson());
            let stored = find_as_of(shared, &id, time, &mut conn).await?;
            stored.map(|stored| revision_of(shared, &stored)).transpose()
        })
    }
}

impl<D: DeserializeOwned> HistoryRepository<D> {
    /// Reads a revision of a document. `None` if the document never had it, or if it was deleted.
    ///
    /// ```no_run
    /// # use mongo_patterns::history::HistoryRepository;
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(policies: HistoryRepository<Document>) -> mongo_patterns::Result<()> {
    /// if let Some(second) = policies.at(1, 2).await? {
    ///     println!("since {}: {:?}", second.time, second.document);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, which examines at most one document.
    pub fn at(&self, id: impl IntoId, revision: u64) -> Read<'_, Option<Revision<D>>> {
        let (shared, id) = (self.shared(), DocumentId::new(id));
        Read::new(shared.operation("at"), async move |mut conn| {
            let (shared, id) = (shared, id?.into_bson());
            let stored = find_revision(shared, &id, revision, &mut conn).await?;
            stored.map(|stored| revision_of(shared, &stored)).transpose()
        })
    }
}

impl<D> HistoryRepository<D> {
    /// Returns the fields that differ between two revisions, in either order. Documents are compared field by field, and
    /// arrays element by element. The revision of a deletion has no fields.
    ///
    /// ```no_run
    /// # async fn f(policies: mongo_patterns::history::HistoryRepository<()>) -> mongo_patterns::Result<()> {
    /// for change in policies.diff(1, 2, 5).await?.changes {
    ///     println!("{}: {:?} -> {:?}", change.path, change.before, change.after);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// Two round trips. Each examines one document.
    ///
    /// # Errors
    /// - [`NotFound`]: the document does not have one of the revisions.
    pub fn diff(&self, id: impl IntoId, from: u64, to: u64) -> Read<'_, Diff> {
        let (shared, id, revisions) = (self.shared(), DocumentId::new(id), [from, to]);
        Read::new(shared.operation("diff"), async move |mut conn| {
            let (shared, id, [from, to]) = (shared, id?.into_bson(), revisions);
            let before = find_revision(shared, &id, from, &mut conn).await?;
            let after = find_revision(shared, &id, to, &mut conn).await?;
            match (before, after) {
                (Some(before), Some(after)) => diff(&shared.settings, &before, &after),
                _ => Err(no_revision()),
            }
        })
    }
}

impl<D: DeserializeOwned> HistoryRepository<D> {
    /// Reads the current document, with its revision. `None` if it does not exist.
    ///
    /// ```no_run
    /// # use mongo_patterns::history::HistoryRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(policies: HistoryRepository<Document>) -> mongo_patterns::Result<()> {
    /// if let Some(current) = policies.get(1).await? {
    ///     println!("{} at revision {}", current.document, current.revision);
    ///     let watch = doc! { "$push": { "itemsInsured": "watch" } };
    ///     policies.update(1, watch).expecting(current.revision).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, which examines one document.
    pub fn get(&self, id: impl IntoId) -> Read<'_, Option<Current<D>>> {
        let (shared, id) = (self.shared(), DocumentId::new(id));
        Read::new(shared.operation("get"), async move |mut conn| {
            let id = id?.into_bson();
            let stored = find_current(shared, &id, &mut conn).await?;
            stored.map(|stored| current_of(shared, &stored)).transpose()
        })
    }

    /// Finds current documents by a filter on any fields, and reads each as [`get`](Self::get) does, with its revision.
    /// Earlier revisions and deleted documents are not found.
    ///
    /// ```no_run
    /// # use mongo_patterns::history::HistoryRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(policies: HistoryRepository<Document>) -> mongo_patterns::Result<()> {
    /// for current in policies.find(doc! { "itemsInsured": "car" }).sort(doc! { "policyId": 1 }).limit(20).await? {
    ///     println!("{} at revision {}", current.document, current.revision);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip for each batch of the cursor. An index of your own serves the filter.
    pub fn find(&self, filter: Document) -> Find<'_, Current<D>> {
        let shared = self.shared();
        Find::new(shared.operation("find"), filter, |document| {
            current_of(shared, document)
        })
    }
}
