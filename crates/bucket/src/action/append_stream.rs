use std::fmt;
use std::pin::{Pin, pin};

use futures::future::{Either, select};
use futures::stream::{FusedStream, FuturesUnordered};
use futures::{FutureExt, Stream, StreamExt};
use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::array::TOGETHER;
use mongo_patterns_core::{EncodedKey, Error, ErrorKind, Key, Result};
use serde::Serialize;
use tracing::Span;

use crate::BucketRepository;
use crate::action::AppendedMany;
use crate::form::item::{self, Item};
use crate::repository::Shared;
use crate::write::batch::StoreMany;
use crate::write::groups::{Group, Groups};
use crate::write::key_write::Write;

impl<K: Key, T: Serialize> BucketRepository<K, T> {
    /// Appends a stream of items of any keys: groups them by key, and stores the groups as
    /// [`append_many`](Self::append_many) does, several keys at a time.
    ///
    /// Items of one key are stored in the order of the stream; reads return them in the
    /// order that [`append_many`](Self::append_many) describes. Memory is bounded, whatever the stream's length: the
    /// stream is read as fast as items can be stored.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns_core::Result<()> {
    /// let items = futures::stream::iter([(123, 419), (456, 50), (123, 29)]);
    /// let appended = trades.append_stream(items).on_progress(|progress| println!("{}", progress.stored)).await?;
    /// assert_eq!(appended.items, 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// As [`append_many`](Self::append_many), for each key and each time the buffer is full. The better the stream is
    /// sorted by key, and the larger the buffer, the fewer round trips. A key that has 300 pages goes out at once,
    /// less what does not fill a page, and the next ones are read and encoded meanwhile.
    ///
    /// # Cancel safety
    /// Of each key, a prefix of its items in the stream is stored. Items that were read from the stream and not stored
    /// are dropped with the future. With an item id field, call it again with the whole stream. Without one, a second
    /// call may store items twice.
    ///
    /// # Errors
    /// Those of [`append_many`](Self::append_many), at the first of which it ends. What is stored then is, for every
    /// key, a prefix of its items in the stream. The error names the [key](Error::key) that failed, and its
    /// [`stored`](Error::stored_count) is the place in the stream, from 0, of that key's first item that is not: all of the
    /// key's items before it are stored.
    ///
    /// An item that cannot be appended ([`InvalidKey`](ErrorKind::InvalidKey), [`InvalidTime`](ErrorKind::InvalidTime),
    /// [`InvalidItemId`](ErrorKind::InvalidItemId), [`Encode`](ErrorKind::Encode)) ends the stream: the items before it,
    /// of all keys, are stored first, and [`stored`](Error::stored_count) is its place in the stream.
    pub fn append_stream<'a, S>(&'a self, items: S) -> AppendStream<'a, K, T>
    where
        S: Stream<Item = (K, T)> + Send + 'a,
    {
        AppendStream {
            shared: self.shared(),
            items: Box::pin(items),
            concurrency: 8,
            buffer_bytes: 64 * 1024 * 1024,
            on_progress: None,
        }
    }
}

type OnProgress<'a> = Box<dyn FnMut(Progress) + Send + 'a>;

/// Appends a stream; made by [`BucketRepository::append_stream`].
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::bson::{Document, doc};
/// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
/// let items = futures::stream::iter([(123, doc! { "qty": 419 }), (456, doc! { "qty": 50 })]);
/// let append = trades.append_stream(items).concurrency(2).buffer_bytes(16 * 1024 * 1024);
/// append.on_progress(|at| println!("{} of {} stored", at.stored, at.read)).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct AppendStream<'a, K, T> {
    shared: &'a Shared,
    items: Pin<Box<dyn Stream<Item = (K, T)> + Send + 'a>>,
    concurrency: usize,
    buffer_bytes: usize,
    on_progress: Option<OnProgress<'a>>,
}

/// How far a stream is.
///
/// ```no_run
/// # use mongo_patterns_bucket::{BucketRepository, Progress};
/// # use mongodb::bson::{Document, doc};
/// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
/// let items = futures::stream::iter([(123, doc! { "qty": 419 }), (456, doc! { "qty": 50 })]);
/// let report = |at: Progress| println!("{} read, {} stored", at.read, at.stored);
/// trades.append_stream(items).on_progress(report).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// How many items were read from the stream.
    pub read: u64,
    /// How many of them are stored, now or before.
    pub stored: u64,
}

impl<'a, K, T> AppendStream<'a, K, T> {
    /// How many keys are written at a time, at most; 8 by default.
    pub fn concurrency(mut self, keys: usize) -> Self {
        self.concurrency = keys;
        self
    }

    /// How many bytes of items are held at a time, at most, as BSON; 64 MiB by default.
    pub fn buffer_bytes(mut self, bytes: usize) -> Self {
        self.buffer_bytes = bytes;
        self
    }

    /// Is called whenever a group has been stored.
    pub fn on_progress(mut self, call: impl FnMut(Progress) + Send + 'a) -> Self {
        self.on_progress = Some(Box::new(call));
        self
    }
}

impl<'a, K: Key, T: Serialize + 'a> IntoFuture for AppendStream<'a, K, T> {
    type Output = Result<AppendedMany>;
    type IntoFuture = ActionFuture<'a, AppendedMany>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            shared,
            items,
            concurrency,
            buffer_bytes,
            on_progress,
        } = self;
        run(shared.operation("append_stream"), move |span| async move {
            if concurrency == 0 || buffer_bytes == 0 {
                let message = "the concurrency and the buffer of a stream must be at least 1";
                return Err(Error::new(ErrorKind::InvalidArgument, message));
            }
            let mut sink = Sink {
                shared,
                span: &span,
                groups: Groups::new(shared.settings.page_size),
                held: 0,
                read_bytes: 0,
                total: AppendedMany::default(),
                progress: Progress::default(),
                failure: None,
                refused: None,
            };
            sink.run(items.fuse(), concurrency, buffer_bytes, on_progress).await;
            sink.failure.or(sink.refused).map_or(Ok(sink.total), Err)
        })
    }
}

/// A group that went out, the prefix of its items that is stored, and how many buckets they opened.
struct Written {
    group: Group,
    stored: usize,
    ended_with_a_page: bool,
    /// How many of them were stored before.
    repeated: u64,
    opened: u64,
    outcome: Result<()>,
}

async fn write(shared: &Shared, span: &Span, group: Group) -> Written {
    let write = Write {
        shared,
        key: &group.key,
    };
    let mut store = StoreMany::new(write, span, &group.items);
    store.whole_pages = group.whole_pages;
    store.may_have_open = !group.after_a_page;
    let outcome = match item::check_sizes(&shared.settings, &group.items) {
        Ok(()) => store.run(None).await,
        Err(error) => Err(error),
    };
    let (stored, opened, ended_with_a_page) = (store.stored(), store.opened, !store.may_have_open);
    // What is kept back will be found to be stored once more.
    let repeated = store.repeated.iter().filter(|place| **place < stored).count() as u64;
    Written {
        group,
        stored,
        ended_with_a_page,
        repeated,
        opened,
        outcome,
    }
}

/// The next item, and up to a number of those that are there already. To be dropped while it waits loses nothing.
async fn read<I>(mut items: Pin<&mut impl FusedStream<Item = I>>, at_most: usize) -> Vec<I> {
    let mut read: Vec<I> = items.next().await.into_iter().collect();
    while read.len() < at_most
        && let Some(Some(item)) = items.next().now_or_never()
    {
        read.push(item);
    }
    read
}

#[allow(clippy::large_enum_variant)] // each is taken apart at once
enum Event<I> {
    /// None when the stream has ended.
    Read(Vec<I>),
    Written(Option<Written>),
}

/// How often the stream is read before others have a turn: for a part of a millisecond, where items are small.
const TURNS: u64 = 8;

/// The state of a stream's append. Half of the buffer fills while the other half is written.
struct Sink<'a> {
    shared: &'a Shared,
    span: &'a Span,
    groups: Groups,
    /// The bytes of all items that are held, those under way included.
    held: usize,
    /// The bytes of all items that were read.
    read_bytes: usize,
    total: AppendedMany,
    progress: Progress,
    failure: Option<Error>,
    /// The error of an item that cannot be appended. The items before it are stored all the same.
    refused: Option<Error>,
}

impl Sink<'_> {
    async fn run<K: Key, T: Serialize>(
        &mut self,
        items: impl FusedStream<Item = (K, T)> + Send,
        concurrency: usize,
        buffer_bytes: usize,
        mut on_progress: Option<OnProgress<'_>>,
    ) {
        let mut items = pin!(items);
        let mut under_way = FuturesUnordered::new();
        let mut ended = false;
        let mut turns = 0_u64;
        loop {
            self.groups
                .release_from(if ended { 0 } else { buffer_bytes.div_ceil(2) });
            while self.failure.is_none() && under_way.len() < concurrency {
                let Some(group) = self.groups.next() else { break };
                under_way.push(write(self.shared, self.span, group));
            }
            let wants_more = !ended && self.failure.is_none() && self.held < buffer_bytes;
            let reading = read(items.as_mut(), self.at_most(buffer_bytes));
            let event = match (wants_more, under_way.is_empty()) {
                (false, true) => return,
                (false, false) => Event::Written(under_way.next().await),
                (true, true) => Event::Read(reading.await),
                // What is under way comes first, or a stream that is always ready would hold it up.
                (true, false) => match select(under_way.next(), pin!(reading)).await {
                    Either::Left((written, _)) => Event::Written(written),
                    Either::Right((read, _)) => Event::Read(read),
                },
            };
            ended |= self.take_in(event, on_progress.as_mut());
            turns += 1;
            if !under_way.is_empty() && turns.is_multiple_of(TURNS) {
                // A stream that is always ready would leave the connections no turn.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Returns whether the stream has ended, or an item cannot be appended, so that no more is read.
    fn take_in<K: Key, T: Serialize>(
        &mut self,
        event: Event<(K, T)>,
        on_progress: Option<&mut OnProgress<'_>>,
    ) -> bool {
        match event {
            Event::Read(items) if items.is_empty() => return true,
            Event::Read(items) => {
                let Err(error) = self.add_all(&items) else { return false };
                self.refused = Some(error.with_stored(self.progress.read));
                return true;
            }
            Event::Written(written) => {
                if let Some(written) = written {
                    self.done(written);
                }
                if let Some(call) = on_progress {
                    call(self.progress);
                }
            }
        }
        false
    }

    /// How many items are read at a time: as many as there is room for, if they are as large as those before.
    fn at_most(&self, buffer_bytes: usize) -> usize {
        let read = usize::try_from(self.progress.read).unwrap_or(usize::MAX);
        let Some(average) = self.read_bytes.checked_div(read) else {
            return 1;
        };
        (buffer_bytes.saturating_sub(self.held) / average.max(1)).clamp(1, TOGETHER)
    }

    /// Encoded as they come, the items take known memory, and a bad one is found before it is in a batch.
    fn add_all<K: Key, T: Serialize>(&mut self, items: &[(K, T)]) -> Result<()> {
        let settings = &self.shared.settings;
        let Ok(encoded) = Item::encode_all(settings, items.iter().map(|(_, item)| item), None) else {
            for (key, item) in items {
                let key = key.encode_key()?;
                let item = Item::encode(settings, item, None).map_err(|error| error.with_key(key.text()))?;
                self.add(&key, std::iter::once(item));
            }
            return Ok(());
        };
        let mut encoded = encoded.into_iter();
        for of_one_key in items.chunk_by(|(one, _), (next, _)| one == next) {
            let key = of_one_key[0].0.encode_key()?;
            self.add(&key, encoded.by_ref().take(of_one_key.len()));
        }
        Ok(())
    }

    fn add(&mut self, key: &EncodedKey, items: impl Iterator<Item = Item>) {
        let first = self.progress.read;
        let items = items.inspect(|item| {
            let bytes = item.bytes();
            self.held += bytes;
            self.read_bytes = self.read_bytes.saturating_add(bytes);
            self.progress.read += 1;
        });
        self.groups.add(key, items, first);
    }

    fn done(&mut self, written: Written) {
        let Written {
            mut group,
            stored,
            ended_with_a_page,
            repeated,
            opened,
            outcome,
        } = written;
        self.progress.stored += stored as u64;
        self.total.already_there += repeated;
        self.total.items = self.progress.stored.saturating_sub(self.total.already_there);
        self.total.opened += opened;
        if let Err(error) = outcome {
            let place = group.places.get(stored).copied().unwrap_or(self.progress.read);
            self.failure
                .get_or_insert(error.with_key(group.key.text()).with_stored(place));
        }
        self.groups.done(&mut group, stored, ended_with_a_page);
        self.held -= group.bytes;
    }
}

impl<K, T> fmt::Debug for AppendStream<'_, K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppendStream")
            .field("shared", self.shared)
            .field("concurrency", &self.concurrency)
            .field("buffer_bytes", &self.buffer_bytes)
            .finish_non_exhaustive()
    }
}
