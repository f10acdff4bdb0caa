use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;

use futures::future::ready;
use futures::stream::{once, try_unfold};
use futures::{Stream, StreamExt, TryStreamExt};
use mongo_patterns_core::rounds::in_rounds;
use mongo_patterns_core::send::find_all;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::transaction::hold;
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, ErrorKind, Key, Result, transaction};
use mongodb::bson::Bson;
use mongodb::options::{FindOptions, ReadConcern, ReadPreference, SelectionCriteria};

use crate::repair::check::{check, confirmed};
use crate::repair::fix::{Mending, mend};
use crate::repair::scan::{EachKeyOnce, OnProgress, Scan, Suspect, looks_of};
use crate::repository::Shared;
use crate::{BucketRepository, Finding, query};

pub use crate::repair::fix::Unrepaired;

impl<K: Key, T> BucketRepository<K, T> {
    /// Mends what [`verify`](Self::verify) finds, key by key, as far as that needs no guess and loses no item. The stream
    /// says what was done for each key in which something was wrong, and what was left.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns_core::Result<()> {
    /// let mut keys = trades.repair().dry_run().stream();
    /// while let Some(repaired) = keys.try_next().await? {
    ///     println!("would write {:?} and remove {:?}", repaired.written, repaired.removed);
    ///     if let Some(left) = repaired.left {
    ///         println!("must be done by hand: {left}");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Also for a collection that the manual's shell commands wrote: after it,
    /// [`ensure_indexes`](Self::ensure_indexes) succeeds, unless something was left.
    ///
    /// - Counts become the numbers of items. Empty buckets go.
    /// - From the first page that has too many or too few items on, all items of the key are put into full pages, in
    ///   their order. So several open buckets become one.
    /// - An `_id` gets the encoded key and ten digits. What was opened before 1970 becomes the first second. An `_id`
    ///   without a usable second gets that of the bucket's first item, by the time field.
    /// - A missing key field is set from the `_id`.
    /// - An item that is there twice, byte by byte, by its [id](crate::BucketRepositoryBuilder::item_id_field), is there
    ///   once then.
    /// - Items that are `null`, or have no time or id where the repository has a field for it, stay as they are, and are
    ///   reported by [`left`](Repaired::left).
    /// - Fields of your own stay in their buckets.
    ///
    /// Each key is mended in one transaction, so others may write meanwhile, and nobody sees it halfway. When this process
    /// ends in the middle, some keys are mended and the others are as they were: run it again. It can then have to wait
    /// for the server to end a transaction that was left behind, which takes up to 60 seconds.
    ///
    /// A write to a key waits on the server while the key's transaction is under way, and holds its connection. So where
    /// as many tasks write as the client has connections, 10 unless its options say otherwise, the transaction can be
    /// left without one, until the server ends it after 60 seconds: mend by a client of its own, or give the client
    /// more connections.
    ///
    /// # Cost
    /// That of [`verify`](Self::verify), and five round trips a key in which something is wrong. The buckets of such a key
    /// are read into memory as a whole, and those that change are written in one transaction, which the server ends after
    /// 60 seconds. The names of such keys are held in memory, and what is wrong with buckets whose key field holds no key
    /// of the type. A dry run takes one more round trip for a key whose buckets are seen apart.
    ///
    /// # Cancel safety
    /// Each key is repaired as a whole or not at all: the transactions under way have no effect, unless their commits
    /// had begun. Call it again: it repairs the rest.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) on a standalone server, with nothing changed, but for a
    /// [dry run](Repair::dry_run). [`InvalidKey`](ErrorKind::InvalidKey), [`Contention`](ErrorKind::Contention), and
    /// those of the driver, as the last item of the stream. Each key is mended then, or as it was.
    pub fn repair(&self) -> Repair<'_, K> {
        Repair {
            shared: self.shared(),
            key: Ok(None),
            dry_run: false,
            concurrency: 4,
            on_progress: None,
            types: PhantomData,
        }
    }
}

/// Mends what is wrong; made by [`BucketRepository::repair`].
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_bucket::{BucketRepository, Repaired};
/// # use mongodb::bson::Document;
/// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
/// let repair = trades.repair().key(&123).concurrency(1).on_progress(|buckets| println!("{buckets} buckets"));
/// let repaired: Vec<Repaired> = repair.stream().try_collect().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "it does nothing until its stream is read"]
pub struct Repair<'a, K> {
    shared: &'a Shared,
    key: Result<Option<EncodedKey>>,
    dry_run: bool,
    concurrency: usize,
    on_progress: Option<OnProgress<'a>>,
    types: PhantomData<fn() -> K>,
}

/// What was done for a key, or would be done.
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::bson::Document;
/// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
/// let mut keys = trades.repair().stream();
/// while let Some(repaired) = keys.try_next().await? {
///     for finding in &repaired.findings {
///         println!("{}: {}", finding.document_id, finding.problem);
///     }
///     println!("{} buckets written, {} removed", repaired.written.len(), repaired.removed.len());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Repaired {
    /// The key, as it is encoded in `_id`; `None` for a bucket that tells none. It is a user value: take care where you
    /// log it.
    pub key: Option<String>,
    /// What was wrong.
    pub findings: Vec<Finding>,
    /// The ids of the buckets that were written, with what they hold now.
    pub written: Vec<String>,
    /// The ids that are no more. The items are in the buckets that were written.
    pub removed: Vec<Bson>,
    /// Why something was left as it is.
    pub left: Option<Unrepaired>,
}

/// A stream of what was done; made by [`Repair::stream`].
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongo_patterns_bucket::action::RepairedStream;
/// # use mongodb::bson::Document;
/// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
/// let mut keys: RepairedStream<'_> = trades.repair().dry_run().stream();
/// while let Some(repaired) = keys.try_next().await? {
///     println!("{} findings", repaired.findings.len());
/// }
/// # Ok(())
/// # }
/// ```
pub type RepairedStream<'a> = Pin<Box<dyn Stream<Item = Result<Repaired>> + Send + 'a>>;

impl<'a, K: Key> Repair<'a, K> {
    /// Only this key. What has neither its `_id` nor its key field from it is not seen then.
    pub fn key<Q>(mut self, key: &Q) -> Self
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        self.key = key.encode_key().map(Some).map_err(Error::from);
        self
    }

    /// Says what it would do, and writes nothing. This works on a standalone server, too.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// How many keys are mended at a time, at most; 4 by default. Their buckets are held in memory.
    pub fn concurrency(mut self, keys: usize) -> Self {
        self.concurrency = keys;
        self
    }

    /// Is called for each bucket, with how many were looked at. The first ones come when the server has read and sorted
    /// all.
    pub fn on_progress(mut self, call: impl FnMut(u64) + Send + 'a) -> Self {
        self.on_progress = Some(Box::new(call));
        self
    }

    /// The stream, in no order. It does nothing before it is read. While the caller has an item, it locks no key and runs no transaction.
    ///
    /// # Cancel safety
    /// Cancel-safe: the stream can be polled again after the future of an item was dropped, and loses none. Until then it
    /// may have keys locked: poll it again, or drop it, before other calls of the same repository. What it leaves when
    /// it is dropped itself is documented at [`repair`](BucketRepository::repair).
    pub fn stream(self) -> RepairedStream<'a> {
        let operation = self.shared.operation("repair");
        let keys = match self.key {
            Ok(key) => {
                let scan = Scan::new(self.shared, key, self.on_progress);
                repair::<K>(self.shared, scan, self.dry_run, self.concurrency)
            }
            Err(error) => Box::pin(once(ready(Err(error)))),
        };
        Box::pin(keys.map_err(move |error| operation.name(error)))
    }
}

impl<K> fmt::Debug for Repair<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repair")
            .field("shared", self.shared)
            .field("key", &self.key)
            .field("dry_run", &self.dry_run)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

/// Mends the keys of a scan, and ends at the first error.
pub(super) fn repair<'a, K: Key>(
    shared: &'a Shared,
    scan: Scan<'a, K>,
    dry_run: bool,
    concurrency: usize,
) -> RepairedStream<'a> {
    let suspects = try_unfold(EachKeyOnce::new(scan), |mut keys| async move {
        let suspect = keys.next().await?;
        Ok(suspect.map(|suspect| (suspect, keys)))
    });
    let mut failed = false;
    let repairs = suspects.map_ok(move |suspect| repair_key::<K>(shared, suspect, dry_run));
    let keys = in_rounds(repairs, concurrency)
        .try_filter_map(|repaired| ready(Ok(repaired)))
        .take_while(move |repaired| {
            let goes_on = !failed;
            failed |= repaired.is_err();
            ready(goes_on)
        });
    Box::pin(keys)
}

/// Mends a key, or says how it would. `None` when nothing is wrong any more.
async fn repair_key<K: Key>(shared: &Shared, suspect: Suspect, dry_run: bool) -> Result<Option<Repaired>> {
    let Suspect { key, findings, ids, .. } = suspect;
    let Some(key) = key else {
        return Ok(Some(Repaired {
            key: None,
            findings,
            written: Vec::new(),
            removed: Vec::new(),
            left: Some(Unrepaired::AmbiguousKey),
        }));
    };
    let work = Work {
        shared,
        key: &key,
        ids: &ids,
        is_again: false,
    };
    let mending = if dry_run {
        work.plan::<K>(findings).await
    } else {
        let Shared {
            collection, settings, ..
        } = shared;
        let locked = shared.locks.exclusive(key.text()).await;
        transaction::run(collection, &settings.retry, None, locked, work, |session, work| {
            Box::pin(work.run::<K>(session))
        })
        .await
    };
    let mending = mending.map_err(|error| error.with_key(key.text()))?;
    if mending.findings.is_empty() {
        return Ok(None);
    }
    let Mending {
        findings,
        changes,
        left,
        ..
    } = mending;
    let ids = changes.written.iter().filter_map(|bucket| bucket.get_str("_id").ok());
    let written: Vec<String> = ids.map(str::to_owned).collect();
    let is_written = |id: &Bson| {
        id.as_str()
            .is_some_and(|id| written.iter().any(|written| written == id))
    };
    let removed = changes.removed.iter().filter(|id| !is_written(id)).cloned().collect();
    Ok(Some(Repaired {
        key: Some(key.text().to_owned()),
        findings,
        removed,
        written,
        left,
    }))
}

/// The repair of one key.
struct Work<'a> {
    shared: &'a Shared,
    key: &'a EncodedKey,
    /// The buckets in question that the key may not lead to.
    ids: &'a [Bson],
    /// Whether the transaction was run before, and other writers were faster.
    is_again: bool,
}

impl Work<'_> {
    async fn look<K: Key>(&self, session: Option<&mut Session<'_>>) -> Result<Mending> {
        let Shared {
            collection, settings, ..
        } = self.shared;
        let filter = query::buckets_of_any_form(settings, self.key, self.ids);
        let options = match session {
            None => FindOptions::builder()
                .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
                .read_concern(ReadConcern::local())
                .build(),
            Some(_) => FindOptions::default(),
        };
        mend::<K>(
            settings,
            self.key,
            find_all(session, collection, filter, options).await?,
        )
    }

    /// What a repair would do about what is found in two looks.
    async fn plan<K: Key>(&self, mut seen: Vec<Finding>) -> Result<Mending> {
        let mut mending = self.look::<K>(None).await?;
        if confirmed(&seen, mending.findings.clone()).len() < mending.findings.len() {
            // The scan sees some buckets of a key apart from the others, and other writers may have been at work.
            seen.append(&mut mending.findings);
            mending = self.look::<K>(None).await?;
        }
        mending.findings = confirmed(&seen, mending.findings);
        Ok(mending)
    }

    /// In a transaction: what is seen is so, and is so until it is mended.
    async fn run<K: Key>(&mut self, session: &mut Session<'_>) -> Result<Mending> {
        if self.is_again {
            let Shared {
                collection, settings, ..
            } = self.shared;
            let buckets = query::open_buckets_of_any_form(settings, self.key, self.ids);
            hold(collection, buckets, &mut *session).await?;
        }
        self.is_again = true;
        let mending = self.look::<K>(Some(&mut *session)).await?;
        if mending.changes.is_empty() {
            return Ok(mending);
        }
        mending.changes.apply(&self.shared.collection, session).await?;
        self.check_again::<K>(&mending, session).await?;
        Ok(mending)
    }

    /// Before the transaction commits, that it was right.
    async fn check_again<K: Key>(&self, mending: &Mending, session: &mut Session<'_>) -> Result<()> {
        let looks = looks_of::<K>(self.shared, Some(self.key), self.ids, Some(session)).await?;
        let items: u64 = looks.iter().filter_map(|look| look.items).sum();
        let mut findings = check(&self.shared.settings, &looks);
        findings.retain(|finding| !finding.problem.is_of_an_item());
        if items == mending.items && findings.is_empty() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Corrupt,
            "the repair of a key did not come out right, nothing of the key was changed: this is a mistake of the repository, report it",
        ))
    }
}
