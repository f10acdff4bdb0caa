use std::borrow::Borrow;
use std::time::Duration;

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Configuration, InvalidArgument};
use mongo_patterns_core::action::aggregate_batch_size;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::settings::configuration;
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, Key, Result};
use mongodb::bson::{DateTime, Document};
use mongodb::options::{AggregateOptions, Hint};

use crate::query::buckets::by_id;
use crate::query::totals::{totals, totals_by};
use crate::read::time_range::TimeRange;
use crate::repository::{BucketRepository, Shared};
use crate::results::Totals;
use crate::settings::figures::Figures;
use crate::settings::window::TimeUnit;

impl<K: Key, T> BucketRepository<K, T> {
    /// Adds the [figures](crate::BucketRepositoryBuilder::sum) of the buckets of a key: of all items, or of a range of time.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::{BucketRepository, TimeUnit};
    /// # use mongo_patterns::mongodb::bson::DateTime;
    /// # async fn f(trades: BucketRepository<u32, i32>, start: DateTime, end: DateTime) -> mongo_patterns::Result<()> {
    /// let totals = trades.totals(&123).await?;
    /// println!("{} trades of {:?} stocks", totals.items, totals.sum("qty"));
    ///
    /// let of_october = trades.totals(&123).from(start).until(end).await?;
    /// for (ticker, trades) in of_october.counts("ticker") {
    ///     println!("{ticker}: {trades}");
    /// }
    ///
    /// for (month, of_month) in trades.totals(&123).from(start).by(TimeUnit::Month).await? {
    ///     println!("{month}: {} trades", of_month.items);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The totals are exact, and no item is sent. A bucket whose figures are of another number of items, because another
    /// program wrote it, contributes the figures of its items. A change of an item by a program without the figures is not
    /// recognised: [`verify`](Self::verify) finds it, and [`repair`](Self::repair) or
    /// [`refresh_figures`](Self::refresh_figures) corrects it.
    ///
    /// # Cost
    /// One round trip, and one for each further 16 MB of a result [by time](ReadTotals::by). The server reads every bucket
    /// of the key, or of the [windows](crate::BucketRepositoryBuilder::window) that a range overlaps.
    ///
    /// # Errors
    /// - [`Configuration`]: the repository has no figures, or a range or a unit needs
    ///   [`first_and_last`](crate::BucketRepositoryBuilder::first_and_last).
    /// - [`InvalidArgument`]: an empty range.
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

impl<'a> ReadTotals<'a> {
    mongo_patterns_core::setters! {
        /// Adds the figures of items from this time on, by their time field. Items in any order are found.
        from(time: DateTime) => from = Some(time);
        /// Adds the figures of items before this time.
        until(time: DateTime) => until = Some(time);
    }

    /// Adds the figures of each hour, day or month of UTC. Returns the start of each that has items, in order, with its
    /// totals. The last option of the call.
    ///
    /// If all items of a bucket are in one period, the server adds the figures of the bucket. Otherwise it computes the
    /// figures of each period from the items.
    pub fn by(self, unit: TimeUnit) -> ReadTotalsBy<'a> {
        ReadTotalsBy {
            shared: self.shared,
            totals: self,
            unit,
        }
    }

    async fn execute(self) -> Result<Totals> {
        let (figures, rows) = self.read(None).await?;
        let found = rows.into_iter().next().unwrap_or_default();
        Ok(Totals::from_row(figures, &found))
    }

    /// Returns the rows of the pipeline.
    async fn read(self, unit: Option<TimeUnit>) -> Result<(&'a Figures, Vec<Document>)> {
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
            bounds = Some((self.from, self.until));
        }
        if (bounds.is_some() || unit.is_some()) && figures.times().is_none() {
            return Err(configuration(
                "the buckets have no first and last times, which totals of a range of time or by time need: call first_and_last() on the builder",
            ));
        }
        let pipeline = match unit {
            None => totals(settings, figures, &key, bounds),
            Some(unit) => totals_by(settings, figures, &key, bounds, unit),
        };
        let mut conn = Conn::to_read(self.session, self.max_time.or(self.shared.settings.max_time)).await?;
        // The range of `_id` is that of the windows.
        let hint = bounds
            .filter(|_| settings.windows.is_some())
            .map(|_| Hint::Keys(by_id(false)));
        let options = AggregateOptions::builder()
            .hint(hint)
            .batch_size(unit.map(|_| aggregate_batch_size(u32::MAX)))
            .build();
        let found = conn.aggregate_all(collection, pipeline, options).await?;
        let rows = found.iter().map(|row| Document::try_from(row.as_ref()));
        Ok((
            figures,
            rows.collect::<std::result::Result<_, _>>()
                .map_err(CommandError::from)?,
        ))
    }
}

mongo_patterns_core::action! {
    /// Adds figures by time; returned by [`ReadTotals::by`].
    pub struct ReadTotalsBy<'a> {
        shared: &'a Shared,
        totals: ReadTotals<'a>,
        unit: TimeUnit,
    }
    "totals" => Vec<(DateTime, Totals)>
}

impl ReadTotalsBy<'_> {
    async fn execute(self) -> Result<Vec<(DateTime, Totals)>> {
        let (figures, rows) = self.totals.read(Some(self.unit)).await?;
        Ok(Totals::of_periods(figures, &rows))
    }
}
