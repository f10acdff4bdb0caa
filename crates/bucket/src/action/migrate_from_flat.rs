use std::fmt;

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::key::KeyExpressions;
use mongo_patterns_core::{Error, ErrorKind, FieldName, Key, Result};
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;

use crate::BucketRepository;
use crate::migrate::plan::Transcript;
use crate::migrate::run::{Direction, Move};
use crate::migrate::{CHUNK_ITEMS, Migrated, MigrationPlan, MigrationProgress, OnProgress};
use crate::query::to_buckets::ToBuckets;
use crate::repository::Shared;

impl<K: Key, T> BucketRepository<K, T> {
    /// Moves a flat collection, one document an item, into this repository's buckets. The server does it, and nothing
    /// passes through the client.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # use mongodb::{Collection, bson::Document};
    /// # async fn f(trades: BucketRepository<u32, i32>, flat: Collection<Document>) -> mongo_patterns_core::Result<()> {
    /// let moved = trades.migrate_from_flat(&flat).on_progress(|at| println!("{} of {}", at.done, at.total)).await?;
    /// println!("{} items in {} buckets", moved.items, moved.buckets);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The items of each key come in the order of their [time](crate::BucketRepositoryBuilder::time_field), and of
    /// their `_id` where times are equal. They fill whole buckets, and what is left is in one that stays open. The
    /// buckets are exactly those that appends would have made: an item is the flat document without its key field and
    /// its `_id`, whatever the names of its fields. The repository's indexes are created. The flat collection is only
    /// read, and is yours to drop.
    ///
    /// # Before
    /// Stop the writers of the flat collection, and do not write to the moved keys in the buckets before it is done.
    /// Both collections must be in one database.
    ///
    /// The flat collection may be a view. It has no indexes of its own, so it is moved as a single chunk.
    ///
    /// An index of the flat collection that starts with the key field lets it go in chunks of about 100,000 items. Then
    /// progress is seen, and what was done is not done again. Without one it is a single chunk. All items of one key are
    /// in one chunk.
    ///
    /// # When it is interrupted
    /// Run it again, with the same settings, until it returns. However often and wherever it was killed, or its future
    /// dropped, nothing is lost or doubled. What is done is noted in the collection `mongo_patterns_moves` of the
    /// database, in one document that has the target's name as its `_id`. It stays, so a move that was finished is known
    /// to be, and calling it again changes nothing.
    ///
    /// To begin anew instead, empty the target.
    ///
    /// # Cost
    /// The server reads the flat collection three times: to check it, to move it, and to count at the end. A chunk is
    /// four round trips. Sorting and grouping go to the server's disk beyond 100 MB a chunk.
    ///
    /// # Cancel safety
    /// It stops between two commands, and the server may still execute the last one. Nothing is lost or doubled. Call
    /// it again with the same settings: it resumes.
    ///
    /// # Errors
    /// Nothing is written when an error is one of these:
    ///
    /// - [`Configuration`](ErrorKind::Configuration): the repository has no time field, or a name is none.
    /// - [`InvalidArgument`](ErrorKind::InvalidArgument): the collections are one, or of two databases; or an unfinished
    ///   move into these buckets was begun with other settings.
    /// - [`InvalidKey`](ErrorKind::InvalidKey), [`InvalidTime`](ErrorKind::InvalidTime),
    ///   [`InvalidItemId`](ErrorKind::InvalidItemId): so many documents have none that can be used, or an item id twice
    ///   in a key. The error names one [document](Error::document_id).
    /// - [`TooLarge`](ErrorKind::TooLarge): so many pages would pass 16 MiB.
    /// - [`TargetNotEmpty`](ErrorKind::TargetNotEmpty): the collection of the buckets has documents; see
    ///   [`allow_non_empty_target`](MigrateFromFlat::allow_non_empty_target).
    /// - [`Unsupported`](ErrorKind::Unsupported): the server is older than MongoDB 5.0; or keys are UUIDs, and
    ///   server-side JavaScript is switched off.
    /// - Those of [`ensure_indexes`](Self::ensure_indexes).
    ///
    /// With these, the move is unfinished, and can be run again:
    ///
    /// - [`CountMismatch`](ErrorKind::CountMismatch): at the end, a key does not have as many items in the buckets as in
    ///   the flat collection, because something wrote to one of them. The next call goes over everything again, and adds
    ///   what is missing. It removes and changes nothing, so where documents came to keys that were moved already, empty
    ///   the target first.
    /// - [`DuplicateKey`](ErrorKind::DuplicateKey): something else opened a bucket of a key before it was moved.
    /// - [`Contention`](ErrorKind::Contention): another call has taken the move over.
    /// - Those of the driver. The items are stored at most once, also where the outcome of the last command is unknown.
    pub fn migrate_from_flat<C: Send + Sync>(&self, flat: &Collection<C>) -> MigrateFromFlat<'_> {
        MigrateFromFlat {
            shared: self.shared(),
            options: Options {
                flat: flat.clone_with_type(),
                expressions: K::expressions,
                key: None,
                keep_ids: false,
                allow_non_empty_target: false,
                chunk_items: CHUNK_ITEMS,
            },
            on_progress: None,
        }
    }
}

/// Moves a flat collection into buckets; made by [`BucketRepository::migrate_from_flat`].
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::{Collection, bson::Document};
/// # async fn f(
/// #     trades: BucketRepository<u32, Document>,
/// #     flat: Collection<Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let plan = trades.migrate_from_flat(&flat).key_field("customer").plan().await?;
/// println!("{} items in {} chunks", plan.items, plan.chunks);
/// // The trades are stored with their `_id`, beside what the buckets have, and fewer at a time.
/// let moving = trades.migrate_from_flat(&flat).key_field("customer").keep_ids().allow_non_empty_target().chunk_items(10_000);
/// moving.on_progress(|at| println!("{} of {}", at.done, at.total)).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct MigrateFromFlat<'a> {
    shared: &'a Shared,
    options: Options,
    on_progress: Option<OnProgress<'a>>,
}

struct Options {
    flat: Collection<RawDocumentBuf>,
    expressions: fn(&str) -> KeyExpressions,
    key: Option<String>,
    keep_ids: bool,
    allow_non_empty_target: bool,
    chunk_items: u64,
}

impl<'a> MigrateFromFlat<'a> {
    /// The key field of the flat documents; that of the buckets by default.
    pub fn key_field(mut self, name: impl Into<String>) -> Self {
        self.options.key = Some(name.into());
        self
    }

    /// Keeps the `_id` of each flat document in its item. Without it, it is left out, as in MongoDB's manual, unless it
    /// is the repository's [item id](crate::BucketRepositoryBuilder::item_id_field).
    pub fn keep_ids(mut self) -> Self {
        self.options.keep_ids = true;
        self
    }

    /// Moves also when there are buckets already. They must be of other keys: when a key is in both collections,
    /// nothing is moved.
    pub fn allow_non_empty_target(mut self) -> Self {
        self.options.allow_non_empty_target = true;
        self
    }

    /// About how many items go in one chunk, at least one key; 100,000 by default.
    pub fn chunk_items(mut self, items: u64) -> Self {
        self.options.chunk_items = items;
        self
    }

    /// Is called after each chunk.
    pub fn on_progress(mut self, call: impl FnMut(MigrationProgress) + Send + 'a) -> Self {
        self.on_progress = Some(Box::new(call));
        self
    }

    /// What it would do, and every command that it would send. It runs the checks, and writes nothing.
    ///
    /// # Cost
    /// The server reads the flat collection twice: to check it, and to find and count the chunks. A chunk is two round
    /// trips.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// Those of the move with which nothing is written.
    pub fn plan(self) -> ActionFuture<'a, MigrationPlan> {
        let Self { shared, options, .. } = self;
        run(shared.operation("migrate_from_flat"), move |_| async move {
            let key = options.flat_key(shared)?;
            options.moving(shared, &key)?.plan().await
        })
    }
}

impl Options {
    fn flat_key(&self, shared: &Shared) -> Result<FieldName> {
        let key = self.key.clone();
        key.map_or_else(|| Ok(shared.settings.key.clone()), FieldName::new)
    }

    fn moving<'m>(&'m self, shared: &'m Shared, key: &'m FieldName) -> Result<Move<'m>> {
        let settings = &shared.settings;
        let configuration = |message: &'static str| Error::new(ErrorKind::Configuration, message);
        let time = settings.time.as_ref().ok_or_else(|| {
            configuration("a move needs the time of each item: call time_field(..) on the repository's builder")
        })?;
        if settings.item_id.as_ref() == Some(key) {
            return Err(configuration(
                "the item id's field cannot be the flat key field, which items do not have",
            ));
        }
        let id_is_item_id = settings.item_id.as_ref().is_some_and(|field| field.as_str() == "_id");
        let form = ToBuckets {
            settings,
            time,
            key,
            keep_ids: self.keep_ids || id_is_item_id,
            expressions: self.expressions,
        };
        Ok(Move {
            direction: Direction::ToBuckets(form),
            flat: &self.flat,
            buckets: &shared.collection,
            allow_non_empty_target: self.allow_non_empty_target,
            chunk_items: self.chunk_items,
            transcript: Transcript::default(),
        })
    }
}

impl<'a> IntoFuture for MigrateFromFlat<'a> {
    type Output = Result<Migrated>;
    type IntoFuture = ActionFuture<'a, Migrated>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            shared,
            options,
            on_progress,
        } = self;
        run(shared.operation("migrate_from_flat"), move |_| async move {
            let key = options.flat_key(shared)?;
            options.moving(shared, &key)?.run(on_progress).await
        })
    }
}

impl fmt::Debug for MigrateFromFlat<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MigrateFromFlat")
            .field("shared", self.shared)
            .field("flat", &self.options.flat.namespace())
            .field("key", &self.options.key)
            .field("keep_ids", &self.options.keep_ids)
            .field("allow_non_empty_target", &self.options.allow_non_empty_target)
            .field("chunk_items", &self.options.chunk_items)
            .finish_non_exhaustive()
    }
}
