#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{
    Configuration, Contention, CountMismatch, DuplicateKey, InvalidArgument, InvalidItemId, InvalidKey, InvalidTime,
    TargetNotEmpty, TooLarge, Unsupported,
};
use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::key::KeyExpressions;
use mongo_patterns_core::migration::MigrationProgress;
use mongo_patterns_core::settings::configuration;
use mongo_patterns_core::{FieldName, FoundInvalid, Key, Result, migration};
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;

use crate::migrate::migration::{Direction, Migration};
use crate::query::time_format::TimeFormat;
use crate::query::to_buckets::ToBuckets;
use crate::repository::{BucketRepository, Shared};
use crate::results::Migrated;

impl<K: Key, T> BucketRepository<K, T> {
    /// Migrates a flat collection, one document an item, into this repository's buckets. No document passes through the
    /// client.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::{Collection, bson::Document};
    /// # async fn f(trades: BucketRepository<u32, i32>, flat: Collection<Document>) -> mongo_patterns::Result<()> {
    /// let plan = trades.migrate_from_flat(&flat).key_field("customer").plan().await?;
    /// for command in plan.commands.iter().filter(|command| command.writes) {
    ///     println!("{}: {}", command.purpose, command.command);
    /// }
    /// let migration = trades.migrate_from_flat(&flat).key_field("customer").keep_ids().chunk(10_000);
    /// let migrated = migration.on_progress(|at| println!("{} of {}", at.done, at.total)).await?;
    /// println!("{} items in {} buckets", migrated.items, migrated.documents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The items of each key are in the order of their [time](crate::BucketRepositoryBuilder::time_field), and then of their
    /// `_id`. They fill whole buckets, and the rest is in an open one. An item is the flat document without its key field
    /// and its `_id`. The repository's indexes are created. The flat collection is only read: drop it when you like.
    ///
    /// # Requirements
    /// Stop the writers of the flat collection, and do not write to the migrated keys before the migration has finished.
    /// Both collections must be in one database.
    ///
    /// The flat collection may be a view, for example one with a key field from a nested field. A view is migrated as a
    /// single chunk.
    ///
    /// With an index of the flat collection that starts with the key field, the migration runs in chunks of about 100,000
    /// items. Then it reports its progress, has a [rate](MigrateFromFlat::rate), and a resumed call does not repeat finished
    /// chunks. All items of one key are in one chunk. A [filter](MigrateFromFlat::filter) must select whole keys.
    ///
    /// # Invalid documents
    /// A document is refused, or [skipped](MigrateFromFlat::skip_invalid), for the first of these reasons:
    ///
    /// | reason | meaning |
    /// |---|---|
    /// | `key` | it has no valid key |
    /// | `time` | it has no valid time |
    /// | `item_id` | it has no valid item id |
    /// | `figure` | a field of a figure has no valid value |
    ///
    /// # Interruptions
    /// Run it again, with the same settings, until it returns: no item is lost or duplicated. The
    /// [catalog](mongo_patterns_core::catalog) keeps the progress, so that a finished migration is recognized, and another
    /// call changes nothing.
    ///
    /// To start again from scratch, or with other settings, empty the target.
    ///
    /// # Cost
    /// The server reads the flat collection three times: to check it, to migrate it, and to count. A chunk needs three round
    /// trips.
    ///
    /// # Cancel safety
    /// It stops between two commands, and the server may still execute the last one. Call it again with the same settings:
    /// it resumes.
    ///
    /// # Errors
    /// With these, nothing is written:
    ///
    /// - [`Configuration`]: the repository has no time field, or a name is invalid.
    /// - [`InvalidArgument`]: the collections are the same, or of two databases. An unfinished migration into these buckets
    ///   has other settings. Or documents have no valid value in a field with
    ///   [figures](crate::BucketRepositoryBuilder::sum).
    /// - [`Contention`]: the server still executes a chunk of an earlier call that had other settings. Try again.
    /// - [`InvalidKey`], [`InvalidTime`], [`InvalidItemId`]: documents have no valid one, or an item id twice in a key. The
    ///   error has their number, and names one [document](mongo_patterns_core::Error::document_id).
    /// - [`TooLarge`]: pages would exceed 16 MiB.
    /// - [`TargetNotEmpty`]: the buckets have documents: see
    ///   [`allow_non_empty_target`](MigrateFromFlat::allow_non_empty_target).
    /// - [`Unsupported`]: the keys are UUIDs, and the server is older than MongoDB 8.0.
    /// - The errors of [`ensure_indexes`](crate::Repository::ensure_indexes).
    ///
    /// With these, the migration is unfinished, and can be run again:
    ///
    /// - [`CountMismatch`]: in the end, a key has another number of items in the buckets than in the flat collection,
    ///   because another program wrote. The next call inserts what is missing, and removes nothing. If documents were added
    ///   to migrated keys, empty the target first.
    /// - [`DuplicateKey`]: another program opened a bucket of a key before it was migrated.
    /// - [`Contention`]: another call has taken over the migration.
    /// - The errors of the driver. The items are stored at most once.
    pub fn migrate_from_flat<C: Send + Sync>(&self, flat: &Collection<C>) -> MigrateFromFlat<'_> {
        MigrateFromFlat::with_defaults(
            self.shared(),
            flat.clone_with_type(),
            K::expressions,
            None,
            TimeFormat::Date,
            false,
            false,
        )
    }
}

migration! {
    /// Migrates a flat collection into buckets; returned by [`BucketRepository::migrate_from_flat`].
    pub struct MigrateFromFlat<'a> {
        shared: &'a Shared,
        flat: Collection<RawDocumentBuf>,
        expressions: fn(&str) -> KeyExpressions,
        key: Option<String>,
        time_format: TimeFormat,
        keep_ids: bool,
        allow_non_empty_target: bool,
    }
    "migrate_from_flat" => Migrated;
    in chunks of 100_000 "items";
    of selected documents;
}

impl<'a> MigrateFromFlat<'a> {
    mongo_patterns_core::setters! {
        /// Sets the key field of the flat documents; by default the key field of the buckets.
        key_field(name: impl Into<String>) => key = Some(name.into());
        /// Sets the form of the times of the flat documents, which the server converts to dates: [`TimeFormat::Date`] by
        /// default. A time of another form is invalid.
        time_format(format: TimeFormat) => time_format = format;
        /// Keeps the `_id` of each flat document in its item. By default it is removed, unless it is the repository's [item
        /// id](crate::BucketRepositoryBuilder::item_id_field).
        keep_ids() => keep_ids = true;
        /// Allows a target that has buckets of other keys. If a key is in both collections, nothing is migrated.
        allow_non_empty_target() => allow_non_empty_target = true;
    }

    /// Finds the documents that cannot become items. Writes nothing.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::{Collection, bson::Document};
    /// # async fn f(trades: BucketRepository<u32, i32>, flat: Collection<Document>) -> mongo_patterns::Result<()> {
    /// let found = trades.migrate_from_flat(&flat).find_invalid(None).await?;
    /// println!("{} of {} documents: {}", found.invalid.total(), found.checked, found.filter);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// The server reads the flat collection, or a random sample of this number of documents.
    ///
    /// # Errors
    /// - `Configuration` as for the migration.
    /// - [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument): the server refuses the
    ///   [filter](Self::filter).
    pub fn find_invalid(self, sample: Option<u32>) -> ActionFuture<'a, FoundInvalid> {
        run(self.shared.operation("migrate_from_flat"), async move {
            self.migration()?.find_invalid(sample).await
        })
    }

    async fn migrate(self, conn: &mut Conn<'_>, progress: MigrationProgress<'_>) -> Result<Migrated> {
        self.migration()?.migrate(conn, progress).await
    }

    fn migration(&self) -> Result<Migration<'_>> {
        let settings = &self.shared.settings;
        if self.key.as_ref().is_some_and(|key| key.contains('.')) {
            return Err(configuration(
                "the flat key field is in another field: migrate from a view that has its value in a field of its own",
            ));
        }
        let key = self.key.clone().map(FieldName::new).transpose()?;
        let key = key.unwrap_or_else(|| settings.key.clone());
        let time = settings.time.as_ref().ok_or_else(|| {
            configuration("the migration needs the time of each item: call time_field(..) on the repository's builder")
        })?;
        if settings.item_id.as_ref() == Some(&key) {
            return Err(configuration(
                "the flat key field is the item id field, which items do not have then: set another key field",
            ));
        }
        let id_is_item_id = settings.item_id.as_ref().is_some_and(|field| field.as_str() == "_id");
        let form = ToBuckets {
            settings,
            time,
            time_format: self.time_format,
            key,
            keep_ids: self.keep_ids || id_is_item_id,
            expressions: self.expressions,
        };
        Ok(Migration {
            direction: Direction::ToBuckets(form),
            source: &self.flat,
            target: &self.shared.collection,
            ensure: self.shared.ensure(),
            allow_non_empty_target: self.allow_non_empty_target,
            options: &self.options,
        })
    }
}
