//! The calls that read.

use std::marker::PhantomData;

use mongo_patterns_core::action::{ActionFuture, ActionStream, Read, check_stream};
use mongo_patterns_core::conn::Conn;
#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::error::ErrorKind::{Corrupt, Decode, IndexMissing, InvalidArgument};
use mongo_patterns_core::pages::{IdPage, in_pages};
use mongo_patterns_core::{DocumentId, IntoId, Result, action};
use mongodb::bson::{Bson, DateTime};
use serde::de::DeserializeOwned;

use crate::form::interval;
use crate::read::{find_as_of, find_current, page};
use crate::repository::{IntervalRepository, Shared};
use crate::results::{Interval, IntervalPage};
use crate::token::IntervalToken;

impl<D: DeserializeOwned> IntervalRepository<D> {
    /// Reads the current document, with its interval, by the clock of the server. `None` if there is none.
    ///
    /// ```no_run
    /// # use mongo_patterns::intervals::IntervalRepository;
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(prices: IntervalRepository<Document>) -> mongo_patterns::Result<()> {
    /// if let Some(now) = prices.get("pants").await? {
    ///     println!("{} since {}", now.document, now.valid_from);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It decides by the times, as [`as_of`](Self::as_of) does. A start that was set by a clock up to a minute ahead of the server's counts
    /// as begun, so a call finds what an earlier one has written.
    ///
    /// # Cost
    /// One round trip, which examines one document.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is
    /// aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`] for an invalid id, [`IndexMissing`] when the collection exists, [`Decode`], and [`Corrupt`].
    pub fn get(&self, id: impl IntoId) -> Read<'_, Option<Interval<D>>> {
        let (shared, id) = (self.shared(), DocumentId::new(id));
        Read::new(shared.operation("get"), async move |mut conn| {
            let document = find_current(shared, id?.value(), &mut conn).await?;
            document
                .map(|document| interval(&shared.settings, &document))
                .transpose()
        })
    }

    /// Reads the document that was valid at a time. `None` if none was: before the first interval, or in a gap.
    ///
    /// ```no_run
    /// # use mongo_patterns::intervals::IntervalRepository;
    /// # use mongo_patterns::mongodb::bson::{DateTime, Document};
    /// # async fn f(prices: IntervalRepository<Document>, sale: DateTime) -> mongo_patterns::Result<()> {
    /// if let Some(sold) = prices.as_of("pants", sale).await? {
    ///     println!("sold for {:?}", sold.document.get("price"));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The answer for a time that is more than a second ago changes only by a write whose transaction began before, and by one whose
    /// start was [chosen](crate::action::Update::from). That for now can be older than what [`get`](Self::get) returns, by the difference of
    /// the clocks.
    ///
    /// # Cost
    /// One round trip, which examines one document, however many intervals there are.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is
    /// aborted.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn as_of(&self, id: impl IntoId, time: DateTime) -> Read<'_, Option<Interval<D>>> {
        let (shared, id) = (self.shared(), DocumentId::new(id));
        Read::new(shared.operation("as_of"), async move |mut conn| {
            let document = find_as_of(shared, id?.value(), time, &mut conn).await?;
            document
                .map(|document| interval(&shared.settings, &document))
                .transpose()
        })
    }

    /// Reads all intervals of an id: a [page](Intervals::page), or all as a [stream](Intervals::stream). From the first, or
    /// from the [newest](Intervals::newest_first).
    ///
    /// ```no_run
    /// # use mongo_patterns::intervals::IntervalRepository;
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(prices: IntervalRepository<Document>) -> mongo_patterns::Result<()> {
    /// let first = prices.intervals("pants").newest_first().limit(20).page().await?;
    /// for interval in &first.intervals {
    ///     println!("{} from {} to {:?}", interval.document, interval.valid_from, interval.valid_to);
    /// }
    /// let second = prices.intervals("pants").newest_first().limit(20).after(first.next).page().await?;
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
    /// Those of a [page](Intervals::page).
    pub fn intervals(&self, id: impl IntoId) -> Intervals<'_, D> {
        Intervals {
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
    /// Reads the intervals of an id; returned by [`IntervalRepository::intervals`].
    pub struct Intervals<'a, D> {
        shared: &'a Shared,
        id: Result<DocumentId>,
        page: IdPage<IntervalToken>,
        types: PhantomData<fn() -> D>,
    }
    with session, max_time;

    /// Reads from the newest interval to the first.
    newest_first() => page.newest_first = true;

    /// Sets the maximum number of intervals of a page; 100 by default. A stream reads pages of this size.
    limit(intervals: u32) => page.limit = intervals;

    /// Reads the intervals after a position, in the order of the call. `None` means from the start.
    after(token: impl Into<Option<IntervalToken>>) => page.after = token.into();
}

/// A stream of intervals; returned by [`Intervals::stream`].
pub type IntervalStream<'a, D> = ActionStream<'a, Interval<D>>;

impl<'a, D: DeserializeOwned + Send + 'a> Intervals<'a, D> {
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
    pub fn page(self) -> ActionFuture<'a, IntervalPage<D>> {
        let call = self.shared.operation("intervals");
        action::run(call, async move {
            let id = self.id?.into_bson();
            let mut conn = Conn::to_read(self.session, self.max_time.or(self.shared.settings.max_time)).await?;
            page(self.shared, &id, self.page, &mut conn).await
        })
    }

    /// Returns a stream of all intervals. It sends nothing before it is polled, and has no session: with one, it
    /// ends with [`InvalidArgument`], and reads nothing. While others write, it can
    /// return a document twice: valid, and then with its later interval.
    ///
    /// # Cost
    /// That of [`page`](Self::page) for each page.
    ///
    /// # Cancel safety
    /// Cancel-safe: if the future of an item is dropped, the stream can be polled again, and loses no item.
    ///
    /// # Errors
    /// Those of [`page`](Self::page), as the last item of the stream.
    pub fn stream(self) -> IntervalStream<'a, D> {
        let (shared, max_time) = (self.shared, self.max_time.or(self.shared.settings.max_time));
        let read = move |id: Bson, position| async move {
            let mut conn = Conn::to_read(None, max_time).await?;
            let read = page::<D>(shared, &id, position, &mut conn).await?;
            Ok((read.intervals, read.next))
        };
        let id = check_stream(self.session.as_deref()).and(self.id);
        in_pages(shared.operation("intervals"), id, self.page, read)
    }
}
