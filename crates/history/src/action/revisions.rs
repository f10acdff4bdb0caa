use std::marker::PhantomData;

use mongo_patterns_core::list::List;
use mongo_patterns_core::{DocumentId, IntoId};
use serde::de::DeserializeOwned;

use crate::read::Revisions;
use crate::repository::HistoryRepository;
use crate::results::Revision;
use crate::token::RevisionToken;

impl<D: DeserializeOwned> HistoryRepository<D> {
    /// Reads the revisions of a document, as a [list](List) in their order. Empty if the document never existed.
    ///
    /// ```no_run
    /// # use mongo_patterns::history::{HistoryRepository, RevisionToken};
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(policies: HistoryRepository<Document>) -> mongo_patterns::Result<()> {
    /// let first = policies.revisions(1).newest_first().limit(20).page().await?;
    /// for revision in &first.items {
    ///     println!("{} at {}", revision.revision, revision.time);
    /// }
    /// if let Some(next) = first.next {
    ///     let link = format!("/policies/1/revisions?after={next}");
    ///     let after: RevisionToken = next.to_string().parse()?; // from the link
    ///     let second = policies.revisions(1).newest_first().limit(20).after(after).page().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip for each page, which examines one document more than the page has.
    pub fn revisions(&self, id: impl IntoId) -> List<'_, Revision<D>, RevisionToken> {
        let (shared, types) = (self.shared(), PhantomData);
        let revisions = DocumentId::new(id).map(|id| Revisions { shared, id, types });
        List::new(shared.operation("revisions"), revisions)
    }
}
