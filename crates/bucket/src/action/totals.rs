use std::time::Duration;

use mongo_patterns_core::settings::configuration;
use mongodb::options::AggregateOptions;

use crate::action::prelude::*;
use crate::query::buckets::by_id;
use crate::query::totals::totals;
use crate::read::time_range::TimeRange;
use crate::results::Totals;

impl<K: Key, T> BucketRepository<K, T> {
    /// Adds the [figures](crate::BucketRepositoryBuilder::sum) of the buckets of a key: of all items, or of those of a
    /// range of time.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::bson::DateTime;
    /// # async fn f(trades: BucketRepository<u32, i32>, start: DateTime, end: DateTime) -> mongo_patterns::Result<()> {
    /// let totals = trades.totals(&123).await?;
    /// println!("{} trades of {:?} stocks", totals.items, totals.sum("qty"));
    ///
    /// let of_october = trades.totals(&123).from(start).until(end).await?;
    /// for (ticker, trades) in of_october.counts("ticker") {
    ///     println!("{ticker}: {trades}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The totals are exact. A bucket whose figures are not those of all its items, because another program wrote it,
    /// contributes the figures of its items, as does a bucket at an end of the range. No item is sent. A change of an
    /// item by a program that does not know the figures is not recognised: [`verify`](Self::verify) finds it, and
    /// [`repair`](Self::repair) or [`rebuild_figures`](Self::rebuild_figures) corrects it.
    ///
    /// # Cost
    /// One round trip. The server reads every bucket of the key. With [windows](crate::BucketRepositoryBuilder::window), a
    /// range of time reads those of the windows that it overlaps only.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`InvalidKey`], [`Configuration`] without figures, or for a range without
    /// [`first_and_last`](crate::BucketRepositoryBuilder::first_and_last), [`InvalidArgument`] for an empty range, and
    /// those of the driver.
    pub fn totals<Q: EncodeKey + ?Sized>(&self, key: &Q) -> ReadTotals<'_>
    where
        K: Borrow<Q>,
    {
        ReadTotals {
            shared: self.shared(),
            key: key.encode_key().map_err(Error::from),
            from: None,
            until: None,
            session: None,
            max_time: None,
        }
    }
}

mongo_patterns_core::action! {
    /// Adds figures; returned by [`BucketRepository::totals`].
    pub struct ReadTotals<'a> {
        shared: &'a Shared,
        key: Result<EncodedKey>,
        from: Option<DateTime>,
        until: Option<DateTime>,
    }
    with session, max_time;
    "totals" => Totals
}

impl ReadTotals<'_> {
    mongo_patterns_core::setters! {
        /// Adds the figures of items from this time on, by their time field. Items in any order are found.
        from(time: DateTime) => from = Some(time);
        /// Adds the figures of items before this time.
        until(time: DateTime) => until = Some(time);
    }

    async fn execute(self) -> Result<Totals> {
        let key = self.key?;
        let (collection, settings) = self.shared.parts();
        let figures = settings.figures.as_ref().ok_or_else(|| {
            configuration("the repository has no figures: call sum(..), min(..), max(..), count_by(..) or first_and_last() on the builder")
        })?;
        let range = TimeRange {
            from: self.from,
            until: self.until,
            allowed_lateness: Duration::ZERO,
        };
        let mut bounds = None;
        if !range.is_unbounded() {
            range.check(settings)?;
            if figures.times().is_none() {
                return Err(configuration(
                    "the buckets have no first and last times, which totals of a range of time need: call first_and_last() on the builder",
                ));
            }
            bounds = Some((self.from, self.until));
        }
        let pipeline = totals(settings, figures, &key, bounds);
        let mut conn = Conn::to_read(self.session, self.max_time.or(self.shared.settings.max_time)).await?;
        // The range of `_id` is that of the windows.
        let hint = bounds
            .filter(|_| settings.windows.is_some())
            .map(|_| Hint::Keys(by_id(false)));
        let options = AggregateOptions::builder().hint(hint).build();
        let found = conn.aggregate_all(collection, pipeline, options).await?;
        let found = found.first().map(|found| Document::try_from(found.as_ref()));
        let found = found.transpose().map_err(CommandError::from)?;
        Ok(Totals::of(figures, &found.unwrap_or_default()))
    }
}
