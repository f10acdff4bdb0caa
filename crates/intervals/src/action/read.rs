//! The calls that read.

use std::marker::PhantomData;

use mongo_patterns_core::action::Read;
#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::error::ErrorKind::IndexMissing;
use mongo_patterns_core::list::List;
use mongo_patterns_core::{DocumentId, IntoId};
use mongodb::bson::DateTime;
use serde::de::DeserializeOwned;

use crate::form::interval;
use crate::read::{Intervals, find_as_of, find_current};
use crate::repository::IntervalRepository;
use crate::results::Interval;
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
    /// It decides by the times, as [`as_of`](Self::as_of) does. A start up to a minute ahead of the server's clock counts as
    /// begun, so a call finds what an earlier one has written.
    ///
    /// # Cost
    /// One round trip, which examines one document.
    ///
    /// # Errors
    /// - [`IndexMissing`]: the collection exists.
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
    /// The answer for a time that is more than a second ago changes only by a write in a transaction that began before, or
    /// with a [chosen start](crate::action::Update::from). The answer for now can be older than the document that
    /// [`get`](Self::get) returns, by the difference of the clocks.
    ///
    /// # Cost
    /// One round trip, which examines one document, however many intervals there are.
    pub fn as_of(&self, id: impl IntoId, time: DateTime) -> Read<'_, Option<Interval<D>>> {
        let (shared, id) = (self.shared(), DocumentId::new(id));
        Read::new(shared.operation("as_of"), async move |mut conn| {
            let document = find_as_of(shared, id?.value(), time, &mut conn).await?;
            document
                .map(|document| interval(&shared.settings, &document))
                .transpose()
        })
    }

    /// Reads the intervals of an id, as a [list](List) in the order of their starts.
    ///
    /// ```no_run
    /// # use mongo_patterns::intervals::IntervalRepository;
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(prices: IntervalRepository<Document>) -> mongo_patterns::Result<()> {
    /// let first = prices.intervals("pants").newest_first().limit(20).page().await?;
    /// for interval in &first.items {
    ///     println!("{} from {} to {:?}", interval.document, interval.valid_from, interval.valid_to);
    /// }
    /// let second = prices.intervals("pants").newest_first().limit(20).after(first.next).page().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// While others write, two pages, or a stream, can have a document twice: as valid, and with its later interval.
    ///
    /// # Cost
    /// One round trip for each page, which examines one document more than the page has.
    pub fn intervals(&self, id: impl IntoId) -> List<'_, Interval<D>, IntervalToken> {
        let (shared, types) = (self.shared(), PhantomData);
        let intervals = DocumentId::new(id).map(|id| Intervals { shared, id, types });
        List::new(shared.operation("intervals"), intervals)
    }
}
