//! Stores a stream of items of any keys, several keys concurrently.
//!
//! # Design
//!
//! ## Why are the items before an invalid one stored?
//!
//! One number then describes the stored items of all keys: the position of the invalid item.

use std::pin::{Pin, pin};

use futures::future::{Either, select};
use futures::stream::{FusedStream, FuturesUnordered};
use futures::{FutureExt, StreamExt};
use mongo_patterns_core::array::TOGETHER;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::{EncodedKey, Error, Key, Result};
use serde::Serialize;
use tracing::Span;

use crate::form::item::{Item, check_sizes};
use crate::repository::Shared;
use crate::results::{AppendProgress, AppendedMany};
use crate::write::batch::StoreBatch;
use crate::write::groups::{Group, Groups};
use crate::write::key_write::KeyWrite;

/// The number of reads of the stream after which other tasks get a turn: less than a millisecond for small items.
const READS_OF_A_TURN: u64 = 8;

/// A progress callback.
pub(crate) type OnProgress<'a> = Box<dyn FnMut(AppendProgress) + Send + 'a>;

/// A group that was sent, and its result.
struct Written {
    group: Group,
    /// The length of the prefix that is stored.
    stored: usize,
    ended_with_full_page: bool,
    /// How many items of the prefix were stored before.
    repeated: u64,
    opened: u64,
    outcome: Result<()>,
}

async fn write(shared: &Shared, span: &Span, group: Group) -> Written {
    let key = &group.key;
    let mut store = StoreBatch::new(KeyWrite { shared, key }, span, &group.items);
    store.whole_pages = group.whole_pages;
    store.may_have_open = !group.after_full_page || shared.settings.windows.is_some();
    let outcome = match check_sizes(&shared.settings, &group.items) {
        Ok(()) => {
            store
                .store(&mut Conn::in_lane(shared.lanes.enter(key.text()).await))
                .await
        }
        Err(error) => Err(error),
    };
    let (stored, opened, ended_with_full_page) = (store.stored(), store.opened, !store.may_have_open);
    // The group of the kept items counts its repeated items itself.
    let repeated = store.repeated.iter().filter(|position| **position < stored).count() as u64;
    Written {
        group,
        stored,
        ended_with_full_page,
        repeated,
        opened,
        outcome,
    }
}

/// Reads the next item, and up to a number of items that are ready. Cancel-safe.
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
    /// Without items when the stream has ended.
    Read(Vec<I>),
    Written(Option<Written>),
}

/// The state of an append of a stream. One half of the buffer fills while the other half is written.
pub(crate) struct Sink<'a> {
    shared: &'a Shared,
    span: &'a Span,
    groups: Groups,
    buffer_bytes: usize,
    /// The bytes of all items in memory, also of running commands.
    buffered: usize,
    /// The bytes of all items that were read.
    read_bytes: usize,
    total: AppendedMany,
    progress: AppendProgress,
    on_progress: Option<OnProgress<'a>>,
    failure: Option<Error>,
    /// The error of an item that cannot be appended. The items before it are stored first.
    refused: Option<Error>,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(
        shared: &'a Shared,
        span: &'a Span,
        buffer_bytes: usize,
        on_progress: Option<OnProgress<'a>>,
    ) -> Self {
        Self {
            shared,
            span,
            groups: Groups::new(shared.settings.page_size),
            buffer_bytes,
            buffered: 0,
            read_bytes: 0,
            total: AppendedMany::default(),
            progress: AppendProgress::default(),
            on_progress,
            failure: None,
            refused: None,
        }
    }

    pub(crate) async fn store_all<K: Key, T: Serialize>(
        mut self,
        items: impl FusedStream<Item = (K, T)> + Send,
        concurrency: usize,
    ) -> Result<AppendedMany> {
        let mut items = pin!(items);
        let mut running = FuturesUnordered::new();
        let mut ended = false;
        let mut reads = 0_u64;
        loop {
            self.groups
                .release_from(if ended { 0 } else { self.buffer_bytes.div_ceil(2) });
            while self.failure.is_none() && running.len() < concurrency {
                let Some(group) = self.groups.next() else { break };
                running.push(write(self.shared, self.span, group));
            }
            let wants_more = !ended && self.failure.is_none() && self.buffered < self.buffer_bytes;
            let reading = read(items.as_mut(), self.at_most());
            let event = match (wants_more, running.is_empty()) {
                (false, true) => break,
                (false, false) => Event::Written(running.next().await),
                (true, true) => Event::Read(reading.await),
                // Running commands come first, or a stream that is always ready would delay them.
                (true, false) => match select(running.next(), pin!(reading)).await {
                    Either::Left((written, _)) => Event::Written(written),
                    Either::Right((read, _)) => Event::Read(read),
                },
            };
            ended |= self.handle(event);
            reads += 1;
            if !running.is_empty() && reads.is_multiple_of(READS_OF_A_TURN) {
                // A stream that is always ready would leave the connections no turn.
                tokio::task::yield_now().await;
            }
        }
        self.failure.or(self.refused).map_or(Ok(self.total), Err)
    }

    /// Returns whether no more is read.
    fn handle<K: Key, T: Serialize>(&mut self, event: Event<(K, T)>) -> bool {
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
                if let Some(call) = &mut self.on_progress {
                    call(self.progress);
                }
            }
        }
        false
    }

    /// Returns how many items to read: as many as the buffer has room for, if they have the average size.
    fn at_most(&self) -> usize {
        let read = usize::try_from(self.progress.read).unwrap_or(usize::MAX);
        let Some(average) = self.read_bytes.checked_div(read) else {
            return 1;
        };
        (self.buffer_bytes.saturating_sub(self.buffered) / average.max(1)).clamp(1, TOGETHER)
    }

    /// Encodes and groups items. Encoded at once, they take a known amount of memory, and an invalid item is found before it
    /// is in a batch.
    fn add_all<K: Key, T: Serialize>(&mut self, items: &[(K, T)]) -> Result<()> {
        let settings = &self.shared.settings;
        let Ok(encoded) = Item::encode_all(settings, items.iter().map(|(_, item)| item)) else {
            for (key, item) in items {
                let key = key.encode_key()?;
                let item = Item::encode(settings, item).map_err(|error| error.with_key(key.text()))?;
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

    fn add(&mut self, key: &EncodedKey, items: impl ExactSizeIterator<Item = Item>) {
        let first = self.progress.read;
        let items = items.inspect(|item| {
            let bytes = item.bytes();
            self.buffered += bytes;
            self.read_bytes = self.read_bytes.saturating_add(bytes);
            self.progress.read += 1;
        });
        self.groups.add(key, items, first);
    }

    fn done(&mut self, written: Written) {
        let (mut group, stored) = (written.group, written.stored);
        self.progress.stored += stored as u64;
        self.total.already_there += written.repeated;
        self.total.items = self.progress.stored.saturating_sub(self.total.already_there);
        self.total.opened += written.opened;
        if let Err(error) = written.outcome {
            let position = group.positions.get(stored).copied().unwrap_or(self.progress.read);
            self.failure
                .get_or_insert(error.with_key(group.key.text()).with_stored(position));
        }
        self.groups.done(&mut group, stored, written.ended_with_full_page);
        self.buffered -= group.bytes;
    }
}
