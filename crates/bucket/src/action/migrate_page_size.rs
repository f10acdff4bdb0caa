use std::fmt;
use std::marker::PhantomData;

use futures::TryStreamExt;
use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::index::drop_exactly;
use mongo_patterns_core::key_locks::LockedKeys;
use mongo_patterns_core::{Error, ErrorKind, Key, Result, send, transaction};
use mongodb::bson::doc;
use mongodb::options::FindOneOptions;

use crate::BucketRepository;
use crate::action::repair::{Repaired, Unrepaired, repair};
use crate::repair::scan::Scan;
use crate::repository::Shared;

/// How often keys are rewritten when others, who do not name the index, write meanwhile.
const ROUNDS: usize = 3;

impl<K: Key, T> BucketRepository<K, T> {
    /// Changes the page size of a live collection, from this one to the repository's: its index, its open buckets, and
    /// its old pages.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns_core::Result<()> {
    /// // trades was built with the new page size
    /// let change = trades.migrate_page_size_from(10).on_progress(|change| println!("{} keys", change.keys)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Writers with the old page size get [`IndexMissing`](ErrorKind::IndexMissing) from some moment on, with nothing
    /// stored; then let them go on with the new one. Nothing that was acknowledged is lost. Readers of either size work
    /// all the time. The old index is the only one that is dropped, and only with exactly its definition.
    ///
    /// - To larger pages: all keys are rewritten while writers with the old size go on. Then the old index is dropped,
    ///   what they changed meanwhile is rewritten, and the new index is created. Until then nobody can append.
    /// - To smaller pages: the old index is dropped and the new one created. Then pages are split while writers with the
    ///   new size go on.
    ///
    /// Call it by a client of its own, or of more connections than tasks write, as a [repair](Self::repair). When it ends
    /// in the middle, call it again: it goes on where it was. What else is wrong with the buckets of a key
    /// is [mended](Self::repair) when its pages are rewritten.
    ///
    /// # Cost
    /// That of [`repair`](Self::repair), for each key that has more pages than it needs, or pages that are too large;
    /// to larger pages, a second [`verify`](Self::verify). The server reads all buckets to create the index.
    ///
    /// # Cancel safety
    /// It stops between two steps, and the server may still execute the last command. The pages of a key are rewritten
    /// as a whole or not at all. While the old index is dropped and the new one is not created yet, appends fail.
    /// Call it again: it resumes.
    ///
    /// # Errors
    /// With nothing changed: [`InvalidArgument`](ErrorKind::InvalidArgument) when the sizes are equal, or the old one
    /// cannot be, and [`Unsupported`](ErrorKind::Unsupported) on a standalone server. Before an index is changed:
    /// [`IndexMismatch`](ErrorKind::IndexMismatch) when the old index has another definition, and, to larger pages,
    /// [`Corrupt`](ErrorKind::Corrupt) when a key cannot be rewritten without a guess. To smaller pages this comes at
    /// the end, when all other keys are rewritten. [`repair`](Self::repair) says why.
    pub fn migrate_page_size_from(&self, old: u32) -> MigratePageSize<'_, K> {
        MigratePageSize {
            shared: self.shared(),
            old,
            concurrency: 4,
            on_progress: None,
            types: PhantomData,
        }
    }
}

type OnProgress<'a> = Box<dyn FnMut(MigratedPageSize) + Send + 'a>;

/// Changes the page size; made by [`BucketRepository::migrate_page_size_from`].
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::bson::Document;
/// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
/// // Two keys at a time, each of which holds a transaction.
/// let change = trades.migrate_page_size_from(10).concurrency(2);
/// change.on_progress(|at| println!("{} keys, {} pages", at.keys, at.pages)).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct MigratePageSize<'a, K> {
    shared: &'a Shared,
    old: u32,
    concurrency: usize,
    on_progress: Option<OnProgress<'a>>,
    types: PhantomData<fn() -> K>,
}

/// What a change of the page size did, or has done so far.
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::bson::Document;
/// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
/// let change = trades.migrate_page_size_from(10).await?;
/// println!("{} pages of {} keys were written", change.pages, change.keys);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigratedPageSize {
    /// How many times the pages of a key were rewritten.
    pub keys: u64,
    /// How many pages were written for them.
    pub pages: u64,
}

impl<'a, K: Key> MigratePageSize<'a, K> {
    /// How many keys are rewritten at a time, at most; 4 by default. Their buckets are held in memory.
    pub fn concurrency(mut self, keys: usize) -> Self {
        self.concurrency = keys;
        self
    }

    /// Is called whenever a key has been rewritten.
    pub fn on_progress(mut self, call: impl FnMut(MigratedPageSize) + Send + 'a) -> Self {
        self.on_progress = Some(Box::new(call));
        self
    }

    async fn execute(mut self) -> Result<MigratedPageSize> {
        let Shared {
            collection, settings, ..
        } = self.shared;
        if self.old == settings.page_size || self.old == 0 || i32::try_from(self.old).is_err() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "the old page size must be from 1 to 2,147,483,647, and another than the repository's, which is the new one",
            ));
        }
        check_transactions(self.shared).await?;
        let old_index = settings.open_index_for(self.old);
        let plan = settings.index_plan(collection.name());
        let mut change = MigratedPageSize::default();
        if settings.page_size < self.old {
            drop_exactly(collection, &old_index).await?;
            plan.ensure(collection).await?;
            let left = self.rewrite(&mut change).await?;
            return left.map_or(Ok(change), |left| Err(not_rewritten(left)));
        }
        if let Some(left) = self.rewrite(&mut change).await? {
            return Err(not_rewritten(left));
        }
        drop_exactly(collection, &old_index).await?;
        let mut rounds = 0;
        loop {
            rounds += 1;
            let left = self.rewrite(&mut change).await?;
            match (plan.ensure(collection).await, left) {
                (Ok(_), _) => return Ok(change),
                (Err(error), Some(left)) if error.is_corrupt() => return Err(not_rewritten(left)),
                (Err(error), None) if error.is_corrupt() && rounds < ROUNDS => {}
                (Err(error), _) => return Err(error),
            }
        }
    }

    /// Rewrites all keys whose pages are not of the size, and returns one that could not be.
    async fn rewrite(&mut self, change: &mut MigratedPageSize) -> Result<Option<Repaired>> {
        let mut keys = repair(
            self.shared,
            Scan::<K>::new(self.shared, None, None),
            false,
            self.concurrency,
        );
        let mut left = None;
        while let Some(repaired) = keys.try_next().await? {
            change.keys += u64::from(!repaired.written.is_empty());
            change.pages += repaired.written.len() as u64;
            if repaired.left.is_some_and(|left| left != Unrepaired::NoItemId) {
                left.get_or_insert(repaired);
            } else if let Some(call) = &mut self.on_progress {
                call(*change);
            }
        }
        Ok(left)
    }
}

/// That the server has transactions, before anything is changed.
async fn check_transactions(shared: &Shared) -> Result<()> {
    let Shared {
        collection, settings, ..
    } = shared;
    let unlocked = LockedKeys::default();
    transaction::run(
        collection,
        &settings.retry,
        None,
        unlocked,
        collection,
        |session, collection| {
            Box::pin(async move {
                let id_alone = FindOneOptions::builder().projection(doc! { "_id": 1 }).build();
                send::find_one(Some(session), collection, doc! {}, id_alone).await?;
                Ok(())
            })
        },
    )
    .await
}

fn not_rewritten(left: Repaired) -> Error {
    let reason = left.left.map(|left| left.to_string()).unwrap_or_default();
    let error = Error::new(
        ErrorKind::Corrupt,
        format!("the pages of a key could not be rewritten: {reason}; then call this again"),
    );
    let error = match left.findings.into_iter().next() {
        Some(finding) => error.at(finding.document_id, "_id"),
        None => error,
    };
    match left.key {
        Some(key) => error.with_key(key),
        None => error,
    }
}

impl<'a, K: Key> IntoFuture for MigratePageSize<'a, K> {
    type Output = Result<MigratedPageSize>;
    type IntoFuture = ActionFuture<'a, MigratedPageSize>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("migrate_page_size_from"), |_| self.execute())
    }
}

impl<K> fmt::Debug for MigratePageSize<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MigratePageSize")
            .field("shared", self.shared)
            .field("old", &self.old)
            .finish_non_exhaustive()
    }
}
