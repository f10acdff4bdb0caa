use futures::stream::{iter, try_unfold};
use mongo_patterns_core::action::{ActionStream, Call};

use super::prelude::*;
use crate::read::{Page, page};
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
            page: Page {
                limit: 100,
                newest_first: false,
                after: None,
            },
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
        page: Page,
        types: PhantomData<fn() -> D>,
    }
    with session, max_time;
}

/// A stream of revisions; returned by [`Revisions::stream`].
pub type RevisionStream<'a, D> = Pin<Box<dyn Stream<Item = Result<Revision<D>>> + Send + 'a>>;

mongo_patterns_core::setters! {
    for Revisions<'a, D>:

    /// Reads from the newest revision to the oldest.
    newest_first() => page.newest_first = true;

    /// Sets the maximum number of revisions of a page; 100 by default. A stream reads pages of this size.
    limit(revisions: u32) => page.limit = revisions;

    /// Reads the revisions after a position, in the order of the call. `None` means from the start.
    after(token: impl Into<Option<RevisionToken>>) => page.after = token.into();
}

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

    /// Returns a stream of all revisions. It sends nothing before it is polled, and ignores the session.
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
        let Self {
            shared,
            id,
            page: start,
            max_time,
            ..
        } = self;
        let read = move |(id, at): (Result<DocumentId>, Page)| async move {
            let id = id?;
            let mut conn = Conn::to_read(None, max_time.or(shared.settings.max_time)).await?;
            let read = page::<D>(shared, id.value(), at, &mut conn).await?;
            let next = read.next.map(|token| Page {
                after: Some(token),
                ..at
            });
            Ok((read.revisions, next.map(|next| (Ok(id), next))))
        };
        in_pages(shared.operation("revisions"), (id, start), read)
    }
}

/// Returns a stream of the items of pages, each from the position after the last one.
pub(crate) fn in_pages<'a, P: Send + 'a, T: Send + 'a, F>(
    call: Call<'a>,
    start: P,
    page: impl Fn(P) -> F + Send + Sync + 'a,
) -> ActionStream<'a, T>
where
    F: Future<Output = Result<(Vec<T>, Option<P>)>> + Send + 'a,
{
    let pages = try_unfold((Some(start), page), |(position, page)| async move {
        let Some(position) = position else { return Ok(None) };
        let (items, next) = page(position).await?;
        Ok::<_, Error>(Some((iter(items.into_iter().map(Ok)), (next, page))))
    });
    Box::pin(pages.try_flatten().map_err(move |error: Error| call.name(error)))
}
