use std::fmt;

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::key::KeyExpressions;
use mongo_patterns_core::{FieldName, Key, Result};
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;

use crate::BucketRepository;
use crate::migrate::plan::Transcript;
use crate::migrate::run::{Direction, Move};
use crate::migrate::{CHUNK_ITEMS, Migrated, MigrationPlan, MigrationProgress, OnProgress};
use crate::query::to_flat::ToFlat;
use crate::repository::Shared;

impl<K: Key, T> BucketRepository<K, T> {
    /// Moves all items of this repository back into a flat collection, one document an item. The server does it, and
    /// nothing passes through the client.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # use mongodb::{Collection, bson::Document};
    /// # async fn f(trades: BucketRepository<u32, i32>, flat: Collection<Document>)
    /// # -> mongo_patterns_core::Result<()> {
    /// let plan = trades.migrate_to_flat(&flat).plan().await?; // the checks, and nothing written
    /// println!("{} items in {} chunks", plan.items, plan.chunks);
    /// let moved = trades.migrate_to_flat(&flat).on_progress(|at| println!("{} of {}", at.done, at.total)).await?;
    /// println!("{} items of {} keys", moved.items, moved.keys);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A flat document is `_id`, the key field, and the fields of the item in their order. Its `_id` is that of the item
    /// where it has one, as after a move that [kept them](crate::action::MigrateFromFlat::keep_ids), and else that of the
    /// bucket, `_`, and the place in it from 0: `123_1698335223_0`. The buckets are only read, and are yours to drop.
    ///
    /// Before: stop the writers of the buckets and of the flat collection. Both must be in one database. What is said of
    /// [`migrate_from_flat`](Self::migrate_from_flat) on interruptions and cost holds here, too; chunks go by the `_id` of the
    /// buckets. It needs no index besides, and MongoDB 4.4.
    ///
    /// # Cancel safety
    /// It stops between two commands, and the server may still execute the last one. Nothing is lost or doubled. Call
    /// it again with the same settings: it resumes.
    ///
    /// # Errors
    /// Nothing is written when an error is one of these:
    ///
    /// - [`Corrupt`](mongo_patterns_core::ErrorKind::Corrupt): so many buckets break the rules of the pattern.
    /// - [`Encode`](mongo_patterns_core::ErrorKind::Encode): so many items are not documents.
    /// - [`InvalidKey`](mongo_patterns_core::ErrorKind::InvalidKey): so many items have a field with the key field's
    ///   name, and another value in it.
    /// - [`InvalidItemId`](mongo_patterns_core::ErrorKind::InvalidItemId): so many items have an `_id` that another one
    ///   has, or that no document can have.
    /// - [`TargetNotEmpty`](mongo_patterns_core::ErrorKind::TargetNotEmpty): the flat collection has documents; see
    ///   [`allow_non_empty_target`](MigrateToFlat::allow_non_empty_target).
    /// - `Configuration`, `InvalidArgument` and `Unsupported` as for [`migrate_from_flat`](Self::migrate_from_flat), and
    ///   `Unsupported` when the flat collection is a view, to which nothing can be written.
    ///
    /// With `CountMismatch`, `Contention`, `DuplicateKey` and those of the driver the move is unfinished, and can be run
    /// again, as there.
    pub fn migrate_to_flat<C: Send + Sync>(&self, flat: &Collection<C>) -> MigrateToFlat<'_> {
        MigrateToFlat {
            shared: self.shared(),
            options: Options {
                flat: flat.clone_with_type(),
                expressions: K::expressions,
                key: None,
                allow_non_empty_target: false,
                chunk_items: CHUNK_ITEMS,
            },
            on_progress: None,
        }
    }
}

/// Moves buckets into a flat collection; made by [`BucketRepository::migrate_to_flat`].
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::{Collection, bson::Document};
/// # async fn f(
/// #     trades: BucketRepository<u32, Document>,
/// #     flat: Collection<Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let moving = trades.migrate_to_flat(&flat).key_field("customer").allow_non_empty_target().chunk_items(10_000);
/// moving.on_progress(|at| println!("{} of {}", at.done, at.total)).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct MigrateToFlat<'a> {
    shared: &'a Shared,
    options: Options,
    on_progress: Option<OnProgress<'a>>,
}

struct Options {
    flat: Collection<RawDocumentBuf>,
    expressions: fn(&str) -> KeyExpressions,
    key: Option<String>,
    allow_non_empty_target: bool,
    chunk_items: u64,
}

impl<'a> MigrateToFlat<'a> {
    /// The key field of the flat documents; that of the buckets by default.
    pub fn key_field(mut self, name: impl Into<String>) -> Self {
        self.options.key = Some(name.into());
        self
    }

    /// Moves also when the flat collection has documents already. They must be of other keys, and have other `_id`s:
    /// when a key is in both collections, nothing is moved.
    pub fn allow_non_empty_target(mut self) -> Self {
        self.options.allow_non_empty_target = true;
        self
    }

    /// About how many items go in one chunk, at least one bucket; 100,000 by default.
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
    /// The server reads the buckets twice: to check them, and to find and count the chunks. A chunk is two round trips.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// Those of the move with which nothing is written.
    pub fn plan(self) -> ActionFuture<'a, MigrationPlan> {
        let Self { shared, options, .. } = self;
        run(shared.operation("migrate_to_flat"), move |_| async move {
            let key = options.flat_key(shared)?;
            options.moving(shared, &key).plan().await
        })
    }
}

impl Options {
    fn flat_key(&self, shared: &Shared) -> Result<FieldName> {
        let key = self.key.clone();
        key.map_or_else(|| Ok(shared.settings.key.clone()), FieldName::new)
    }

    fn moving<'m>(&'m self, shared: &'m Shared, key: &'m FieldName) -> Move<'m> {
        let settings = &shared.settings;
        let form = ToFlat {
            settings,
            key,
            expressions: self.expressions,
        };
        Move {
            direction: Direction::ToFlat(form),
            flat: &self.flat,
            buckets: &shared.collection,
            allow_non_empty_target: self.allow_non_empty_target,
            chunk_items: self.chunk_items,
            transcript: Transcript::default(),
        }
    }
}

impl<'a> IntoFuture for MigrateToFlat<'a> {
    type Output = Result<Migrated>;
    type IntoFuture = ActionFuture<'a, Migrated>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            shared,
            options,
            on_progress,
        } = self;
        run(shared.operation("migrate_to_flat"), move |_| async move {
            let key = options.flat_key(shared)?;
            options.moving(shared, &key).run(on_progress).await
        })
    }
}

impl fmt::Debug for MigrateToFlat<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MigrateToFlat")
            .field("shared", self.shared)
            .field("flat", &self.options.flat.namespace())
            .field("key", &self.options.key)
            .field("allow_non_empty_target", &self.options.allow_non_empty_target)
            .field("chunk_items", &self.options.chunk_items)
            .finish_non_exhaustive()
    }
}
