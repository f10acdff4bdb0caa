use std::marker::PhantomData;

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Corrupt, Decode, IndexMissing, InvalidArgument};
use mongo_patterns_core::action::{ActionStream, check_stream};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::pages::{IdPage, in_pages};
use mongo_patterns_core::{DocumentId, IntoId, Result, action};
use mongodb::bson::Bson;
use serde::de::DeserializeOwned;

use crate::read::page;
use crate::repository::{HistoryRepository, Shared};
use crate::results::{Revision, RevisionPage};
use crate::token::RevisionToken;

impl<D: DeserializeOwned> HistoryRepository<D> {
    /// Reads the history of a document: a [page](Revisions::page), or all revisions as a [stream](Revisions::stream). From
    /// the oldest revision, or from the [newest](Revisions::newest_first). Empty if the document never existed.
    ///
    /// ```no_run
    /// # use mongo_patterns::history::{HistoryRepository, RevisionToken};
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(policies: HistoryRepository<Document>) -> mongo_patterns::Result<()> {
    /// let first = policies.revisions(1).newest_first().limit(20).page().await?;
    /// for revision in &first.revisions {
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
    /// One round trip for each page.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is
    /// aborted.
    ///
    /// # Errors
    /// Those of a [page](Revisions::page).
    pub fn revisions(&self, id: impl IntoId) -> Revisions<'_, D> {
        Revisions {
            shared: self.shared(),
            id: DocumentId::new(id),
            page: IdPage::first(),
            types: PhantomData,
            session: None,
            max_time: None,
        }
    }
}

action! {
    /// Reads the history of a document; returned by [`HistoryRepository::revisions`].
    pub struct Revisions<'a, D> {
        shared: &'a Shared,
        id: Result<DocumentId>,
        page: IdPage<RevisionToken>,
        types: PhantomData<fn() -> D>,
    }
    with session, max_time;

    /// Reads from the newest revision to the oldest.
    newest_first() => page.newest_first = true;

    /// Sets the maximum number of revisions of a page; 100 by default. A stream reads pages of this size.
    limit(revisions: u32) => page.limit = revisions;

    /// Reads the revisions after a position, in the order of the call. `None` means from the start.
    after(token: impl Into<Option<RevisionToken>>) => page.after = token.into();
}

/// A stream of revisions; returned by [`Revisions::stream`].
pub type RevisionStream<'a, D> = ActionStream<'a, Revision<D>>;

impl<'a, D: DeserializeOwned + Send + 'a> Revisions<'a, D> {
    /// Reads a page.
    ///
    /// # Cost
    /// One round trip, which examines one document more than the page has.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is
    /// aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`] for an invalid id and a limit of 0, [`IndexMissing`], [`Decode`], and [`Corrupt`].
    pub fn page(self) -> action::ActionFuture<'a, RevisionPage<D>> {
        let call = self.shared.operation("revisions");
        action::run(call, async move {
            let id = self.id?.into_bson();
            let mut conn = Conn::to_read(self.session, self.max_time.or(self.shared.settings.max_time)).await?;
            page(self.shared, &id, self.page, &mut conn).await
        })
    }

    /// Returns a stream of all revisions. It sends nothing before it is polled, and has no session: with one, it
    /// ends with [`InvalidArgument`], and reads nothing.
    ///
    /// # Cost
    /// That of [`page`](Self::page) for each page.
    ///
    /// # Cancel safety
    /// Cancel-safe: if the future of an item is dropped, the stream can be polled again, and loses no item.
    ///
    /// # Errors
    /// Those of [`page`](Self::page), as the last item of the stream.
    pub fn stream(self) -> RevisionStream<'a, D> {
        let (shared, max_time) = (self.shared, self.max_time.or(self.shared.settings.max_time));
        let read = move |id: Bson, at| async move {
            let mut conn = Conn::to_read(None, max_time).await?;
            let read = page::<D>(shared, &id, at, &mut conn).await?;
            Ok((read.revisions, read.next))
        };
        let id = check_stream(self.session.as_deref()).and(self.id);
        in_pages(shared.operation("revisions"), id, self.page, read)
    }
}
