//! The builder of a repository.

use std::time::Duration;

use mongo_patterns_core::settings::{check_acknowledged, check_bound, configuration, required};
use mongo_patterns_core::{FieldName, Key, Result};
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;

use crate::repository::BucketRepository;
use crate::settings::figures::{GivenFigures, Kind};
use crate::settings::window::{Window, Windows};
use crate::settings::{self, Settings};

impl<K: Key, T> BucketRepository<K, T> {
    /// Creates a builder of a repository over a collection, whose read preference, read concern and write concern it
    /// uses.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::{Database, bson::Document};
    /// # struct Trade;
    /// # fn f(database: Database) -> mongo_patterns::Result<()> {
    /// let trades = BucketRepository::<u32, Trade>::builder(database.collection::<Document>("trades"))
    ///     .key_field("customerId")
    ///     .items_field("history")
    ///     .time_field("date")
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::needless_pass_by_value)] // the builder keeps the collection, with another type
    pub fn builder<C: Send + Sync>(collection: Collection<C>) -> BucketRepositoryBuilder<K, T> {
        BucketRepositoryBuilder::over(collection.clone_with_type())
    }
}

mongo_patterns_core::builder! {
    /// A builder of a [`BucketRepository`]: field names, page size and policies.
    ///
    /// ```no_run
    /// # use mongo_patterns::RetryPolicy;
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::{Collection, bson::Document};
    /// # use std::time::Duration;
    /// # async fn f(collection: Collection<Document>) -> mongo_patterns::Result<()> {
    /// let trades = BucketRepository::<u32, Document>::builder(collection)
    ///     .key_field("customerId")
    ///     .items_field("history")
    ///     .count_field("count")
    ///     .time_field("date")
    ///     .item_id_field("tradeId")
    ///     .page_size(50)
    ///     .retry(RetryPolicy::default().with_max_elapsed(Duration::from_secs(5)))
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub struct BucketRepositoryBuilder<K, T> over collection: Collection<RawDocumentBuf> {
        key: Option<String>,
        items: Option<String>,
        count: String = "count".to_owned(),
        time: Option<String>,
        item_id: Option<String>,
        figures: GivenFigures,
        window: Option<Window>,
        window_field: String = "window".to_owned(),
        expire_after: Option<Duration>,
        page_size: u32 = 10,
    }
    with retry, max_time;

    /// Sets the field of the key, such as `customerId`. Required.
    key_field(name: impl Into<String>) => key = Some(name.into());

    /// Sets the array field of the items, such as `history`. Required.
    items_field(name: impl Into<String>) => items = Some(name.into());

    /// Sets the field of the number of items; `count` by default.
    count_field(name: impl Into<String>) => count = name.into();

    /// Sets the field of an item that contains its time, a BSON date. Without it, the time of an item is the time of the
    /// call, by the clock of this machine. [`Append::at`](crate::action::Append::at) overrides both.
    time_field(name: impl Into<String>) => time = Some(name.into());

    /// Sets the field of an item that identifies it among the items of its key, such as `tradeId` or `_id`.
    ///
    /// Every item is then stored exactly once: a retry of an append stores nothing if the item is stored. Single items can
    /// be found, changed and removed by their ids.
    ///
    /// Every item must have the field, with a string, int32, int64, ObjectId, binary data such as a UUID, or a date. It
    /// needs a second [index](mongo_patterns_core::Repository::indexes), which has an entry for each item.
    item_id_field(name: impl Into<String>) => item_id = Some(name.into());

    /// Keeps the first and the last time of the items of a bucket, by the [time field](Self::time_field), in which every
    /// item must have a date. Totals of a [range of time](crate::action::ReadTotals::from) need them.
    first_and_last() => figures.first_and_last = true;

    /// Lets the server delete a bucket when its last item is older than this, by a TTL index on `figures.date.last`, for a
    /// time field `date`. It keeps the [first and the last time](Self::first_and_last) too.
    ///
    /// The server looks for expired buckets once a minute. A bucket that is not full expires in the same way. Items of a
    /// program that appends without the figures can expire too early. The age is in whole seconds, at most `i32::MAX`. To
    /// change it later, drop the index, and call [`ensure_indexes`](crate::Repository::ensure_indexes) with
    /// `replace_settings()`.
    expire_after(age: Duration) => expire_after = Some(age);

    /// Sets the field of a bucket that contains its figures; `figures` by default.
    figures_field(name: impl Into<String>) => figures.field = name.into();

    /// Sets the field of a bucket that contains the start of its [window](Self::window); `window` by default.
    window_field(name: impl Into<String>) => window_field = name.into();

    /// Sets the number of items of a full bucket; 10 by default. A full bucket must stay below 16 MiB.
    page_size(items: u32) => page_size = items;
}

impl<K: Key, T> BucketRepositoryBuilder<K, T> {
    /// Gives each window of time buckets of its own: a bucket ends when it is full, or when its window ends.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::{BucketRepository, Window};
    /// # use mongo_patterns::mongodb::{Collection, bson::Document};
    /// # fn f(collection: Collection<Document>) -> mongo_patterns::Result<()> {
    /// let readings = BucketRepository::<u32, Document>::builder(collection)
    ///     .key_field("sensorId")
    ///     .items_field("readings")
    ///     .time_field("date")
    ///     .page_size(200)
    ///     .window(Window::Hour)
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A bucket has the start of its window, in UTC, in a field beside the count. The second in its `_id` is in the window:
    ///
    /// ```text
    /// { _id: "7_1698335223", sensorId: 7, window: ISODate("2023-10-26T15:00:00Z"), count: 2, readings: [ {..}, {..} ] }
    /// ```
    ///
    /// - The [time field](Self::time_field) of an item decides, not the clock: a late item goes to its own window. Every
    ///   item must have a date in it, and an append [at](crate::action::Append::at) a time needs one of the same window.
    /// - A window of a key has at most one open bucket. So the last bucket of each window can be partly filled. Pages are
    ///   buckets in the order of their windows.
    /// - A range of time ([`items`](BucketRepository::items), [`totals`](BucketRepository::totals)) reads the buckets of the
    ///   windows that it overlaps. It finds every item, however late it was appended.
    /// - A removal moves items within a window only.
    /// - Late items do not go to buckets that an archive has moved, but open further buckets. Archive and restore buckets
    ///   [through](mongo_patterns_core::through::Restores) the repository of the target, which joins them.
    ///
    /// Writers with other windows, or with none, get [`IndexMissing`](mongo_patterns_core::ErrorKind::IndexMissing), and
    /// [`SettingsMismatch`](mongo_patterns_core::ErrorKind::SettingsMismatch) from
    /// [`ensure_indexes`](crate::Repository::ensure_indexes). To change windows, [migrate to a flat
    /// collection](BucketRepository::migrate_to_flat), and from it into a new collection of buckets.
    pub fn window(mut self, window: Window) -> Self {
        self.window = Some(window);
        self
    }

    /// Keeps the sum of a field of the items in each bucket. Every item must have a finite number in it.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::{Collection, bson::Document};
    /// # fn f(collection: Collection<Document>) -> mongo_patterns::Result<()> {
    /// let trades = BucketRepository::<u32, Document>::builder(collection)
    ///     .key_field("customerId")
    ///     .items_field("history")
    ///     .time_field("date")
    ///     .sum("qty")
    ///     .max("qty")
    ///     .count_by("ticker")
    ///     .first_and_last()
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The figures are stored beside the count, and every write keeps them in its own command:
    ///
    /// ```text
    /// { _id: "123_1698335223", customerId: 123, count: 2, history: [ {..}, {..} ], figures: {
    ///     date: { count: 2, first: ISODate("2023-10-26T15:47:03.434Z"), last: ISODate("2023-10-30T09:32:57.765Z") },
    ///     qty: { count: 2, max: 419, sum: 448 },
    ///     ticker: { count: 2, counts: [ { value: "MDB", count: 2 } ] } } }
    /// ```
    ///
    /// [`totals`](BucketRepository::totals) reads them without the items. A sum of integers is exact, and a sum of decimals
    /// to the 34 digits of a Decimal128. A sum of doubles is rounded. A number so large that the sum of a page could
    /// overflow is refused in an append. `$inc` is not checked for this: near the limit of an int64, a later append fails,
    /// with nothing stored.
    ///
    /// A collection that has buckets gets figures by [`refresh_figures`](BucketRepository::refresh_figures). Stop the
    /// programs that write without them first.
    pub fn sum(mut self, field: impl Into<String>) -> Self {
        self.figures.fields.push((Kind::Sum, field.into()));
        self
    }

    /// Keeps the least value of a field of the items in each bucket. Every item must have a finite number in it.
    pub fn min(mut self, field: impl Into<String>) -> Self {
        self.figures.fields.push((Kind::Min, field.into()));
        self
    }

    /// Keeps the greatest value of a field of the items in each bucket. Every item must have a finite number in it.
    pub fn max(mut self, field: impl Into<String>) -> Self {
        self.figures.fields.push((Kind::Max, field.into()));
        self
    }

    /// Keeps the number of items with each value of a field in each bucket. Every item must have a string, a bool, an int32
    /// or int64, an ObjectId, a date or binary data in it.
    ///
    /// The server counts the values of a bucket again with each append, which is expensive with hundreds of items and values
    /// in a page.
    pub fn count_by(mut self, field: impl Into<String>) -> Self {
        self.figures.fields.push((Kind::Counts, field.into()));
        self
    }

    /// Builds the repository. Sends nothing.
    ///
    /// # Errors
    /// [`Configuration`](mongo_patterns_core::ErrorKind::Configuration) in these cases:
    ///
    /// - A required field name is missing, a name is not the name of a plain field, or two names are equal.
    /// - The item id field, or a field with figures, is a number, which a path would take for a position in the array.
    /// - The first and last times are kept, buckets expire, or there are windows, and there is no time field.
    /// - The length of the windows is not one of [`Window::every`].
    /// - The expiry is below a second or above `i32::MAX` seconds.
    /// - The page size is 0 or above `i32::MAX`.
    /// - The write concern of the collection is `w: 0`, which confirms no append.
    pub fn build(self) -> Result<BucketRepository<K, T>> {
        let key = required(self.key, "key_field").and_then(FieldName::new)?;
        let count = FieldName::new(self.count)?;
        let time = self.time.map(FieldName::new).transpose()?;
        let mut figures = self.figures;
        figures.first_and_last |= self.expire_after.is_some();
        let expire_after = self.expire_after.map(expiry).transpose()?;
        let windows = self
            .window
            .map(|window| Windows::new(window, self.window_field, time.as_ref()));
        let windows = windows.transpose()?;
        let settings = Settings {
            namespace: self.collection.namespace(),
            open_index: settings::open_index(&key, &count, self.page_size, windows.as_ref()),
            key,
            key_type: K::BSON_TYPES[0],
            items: required(self.items, "items_field").and_then(FieldName::new)?,
            count,
            figures: figures.build(time.as_ref())?,
            windows,
            expire_after,
            time,
            item_id: self.item_id.map(FieldName::in_array).transpose()?,
            page_size: self.page_size,
            retry: self.retry,
            max_time: self.max_time,
        };
        if settings.key == settings.items || settings.key == settings.count || settings.items == settings.count {
            return Err(configuration(
                "two of the fields of key, items and count have the same name: set three different names",
            ));
        }
        let own = [&settings.key, &settings.items, &settings.count];
        let figures = settings.figures.as_ref().map(|figures| &figures.field);
        if figures.is_some_and(|figures| own.contains(&figures)) {
            return Err(configuration(
                "the field of the figures has the name of another field: call figures_field(..) with another name",
            ));
        }
        let window = settings.windows.as_ref().map(|windows| &windows.field);
        if window.is_some_and(|window| own.contains(&window) || figures == Some(window)) {
            return Err(configuration(
                "the field of the windows has the name of another field: call window_field(..) with another name",
            ));
        }
        check_bound("page size", settings.page_size)?;
        check_acknowledged(&self.collection)?;
        Ok(BucketRepository::new(self.collection, settings))
    }
}

/// Returns the seconds of an expiry.
fn expiry(age: Duration) -> Result<u32> {
    let seconds = u32::try_from(age.as_secs()).unwrap_or(u32::MAX);
    check_bound("number of seconds of the expiry", seconds)?;
    if age.subsec_nanos() > 0 {
        return Err(configuration(
            "the expiry is not a number of whole seconds, and a TTL index has no parts of a second: round it up",
        ));
    }
    Ok(seconds)
}
