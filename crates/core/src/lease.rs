//! Leases: work that one process at a time does, such as a migration.
//!
//! A [`Lease`] has a name in its database. [`acquire`](Lease::acquire) gives it to one holder for a time, which the holder
//! renews. If a holder dies, its lease ends, and another holder acquires it.
//!
//! ```no_run
//! use mongo_patterns::lease::Lease;
//!
//! # async fn build_report(fence: i64) -> mongo_patterns::Result<()> { Ok(()) }
//! # async fn f(database: mongo_patterns::mongodb::Database) -> mongo_patterns::Result<()> {
//! let lease = Lease::new(&database, "nightly report");
//! if let Some(held) = lease.try_acquire().await? {
//!     held.keep(build_report(held.fence())).await??; // renewed in the background, until the work ends
//!     held.release().await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! - One document decides, and the server's clock: no two holders have the lease at the same time of that clock.
// proof: schema::lease::one_of_many_acquires_it_and_the_next_one_after_its_release
//! - The [fence](HeldLease::fence) of a holder is greater than all fences before it.
// proof: schema::lease::the_fence_grows_after_the_document_was_deleted, schema::lease::a_lease_that_has_ended_goes_to_the_next_and_its_holder_finds_out
//! - The lease of a holder that dies, or whose future is dropped, ends after the time to live.
// proof: schema::lease::a_dropped_acquisition_ends_after_the_time_to_live
//! - An acquired lease survives a failover, because it is written with the write concern `majority`.
// proof: schema::failover::a_lease_and_applied_steps_survive_the_primary
//!
//! # Limits
//!
//! A holder can lose its lease without knowing it: its process was paused, or its last command is still on its way. In that
//! time, it and the next holder both work. The fence prevents that: write it into each document that the holders share, with
//! a filter that refuses a greater one:
//!
//! ```
//! # use mongo_patterns::mongodb::bson::doc;
//! # let (fence, progress) = (5_i64, 10);
//! let filter = doc! { "_id": "report", "fence": { "$lte": fence } };
//! let update = doc! { "$set": { "fence": fence, "progress": progress } };
//! # let _ = (filter, update);
//! ```
//!
//! The clock is the clock of the primary, or of the router of a sharded cluster. If the clock of the next primary or router
//! is ahead, a lease ends earlier by the difference: choose a time to live well above it. The fence is right in any case.
//!
//! # Stored form
//!
//! A document in the [catalog](crate::catalog), which stays after the release:
//!
//! ```json
//! {
//!   "_id": { "kind": "lease", "name": "nightly report" },
//!   "fence": { "$numberLong": "1764110000000" },
//!   "holder": { "$oid": "6925f3a0c0ffee0000000001" },
//!   "since": { "$date": "2026-11-25T12:00:00Z" },
//!   "until": { "$date": "2026-11-25T12:00:30Z" }
//! }
//! ```
//!
//! # Design
//!
//! ## Why is the fence not 1, 2, 3?
//!
//! It is the server's time in milliseconds when the lease was acquired, or one more than the last fence. So it also grows if
//! somebody deletes the document, or restores an old backup.
//!
//! ## Why an update pipeline?
//!
//! The server refuses `$expr` in the filter of an upsert (error 224), so a filter cannot compare with `$$NOW`. The pipeline
//! changes nothing if the lease is not free, and such an update writes nothing.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, Either, select};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::{FindOneAndUpdateOptions, ReturnDocument, WriteConcern};
use mongodb::{Collection, Database};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Instrument;

use crate::action::{self, ActionFuture, Call};
use crate::catalog::{COLLECTION, catalog_of};
use crate::conn::Conn;
use crate::error::{Error, ErrorKind, Result, duplicate_key};
use crate::measure;
use crate::settings::configuration;

const MIN_TIME_TO_LIVE: Duration = Duration::from_millis(100);
const MAX_TIME_TO_LIVE: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest pause before the next attempt to acquire.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// A lease of this name, which one process at a time can hold.
#[derive(Clone)]
pub struct Lease {
    catalog: Collection<RawDocumentBuf>,
    name: String,
    time_to_live: Duration,
}

crate::redacted_debug!(Lease, |lease| "time_to_live" = lease.time_to_live);

impl Lease {
    /// Creates the lease of this name in a database. Sends nothing.
    pub fn new(database: &Database, name: impl Into<String>) -> Self {
        Self {
            catalog: catalog_of(&database.collection(COLLECTION), Some(WriteConcern::majority())),
            name: name.into(),
            time_to_live: Duration::from_secs(30),
        }
    }

    crate::setters! {
        /// Sets how long the lease lasts after it was acquired or renewed, from 100 milliseconds to a day; 30 seconds by
        /// default.
        ///
        /// Others wait this long for a holder that died. A holder that is paused for longer loses the lease.
        #[must_use]
        time_to_live(time: Duration) => time_to_live = time;
    }

    /// Acquires the lease, unless another holder has it: then the result is `None`.
    ///
    /// # Cost
    /// One round trip.
    ///
    /// # Cancel safety
    /// The lease may be acquired, and then ends after the time to live.
    ///
    /// # Errors
    /// - [`Configuration`](ErrorKind::Configuration): the time to live is out of its range.
    ///
    /// After an [unknown outcome](Error::is_outcome_unknown), the lease may be acquired, and then ends after the time to
    /// live.
    pub fn try_acquire(&self) -> ActionFuture<'_, Option<HeldLease>> {
        action::run(self.call("try_acquire"), self.attempt())
    }

    /// Acquires the lease, and waits while another holder has it. A time-out of the future bounds the wait.
    ///
    /// # Cost
    /// One round trip, and one for each second or less of the wait.
    ///
    /// # Cancel safety
    /// The lease may be acquired, and then ends after the time to live.
    ///
    /// # Errors
    /// - The errors of [`try_acquire`](Self::try_acquire).
    pub fn acquire(&self) -> ActionFuture<'_, HeldLease> {
        action::run(self.call("acquire"), async {
            loop {
                match self.attempt().await? {
                    Some(held) => return Ok(held),
                    None => self.pause().await,
                }
            }
        })
    }

    /// Returns the `_id` of its document.
    #[doc(hidden)]
    pub fn id(&self) -> Document {
        doc! { "kind": "lease", "name": &self.name }
    }

    /// Waits before the next attempt, for a random time.
    #[doc(hidden)]
    pub async fn pause(&self) {
        let longest = (self.time_to_live / 4).min(MAX_PAUSE);
        tokio::time::sleep(longest.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
    }

    /// Ends the lease of any holder, and records who did it. Returns whether it was held.
    #[doc(hidden)]
    pub async fn release_by(&self, by: &str) -> Result<bool> {
        let held = doc! { "_id": self.id(), "$expr": { "$gt": ["$until", "$$NOW"] } };
        let mut stages = release();
        stages.push(doc! { "$set": { "released": { "by": { "$literal": by }, "at": "$$NOW" } } });
        let updated = Conn::new().update_one(&self.catalog, held, stages, None).await?;
        Ok(updated.matched_count > 0)
    }

    fn call(&self, operation: &'static str) -> Call<'_> {
        Call::new("lease", operation, &self.catalog)
    }

    /// Checks the time to live. Sends nothing.
    ///
    /// # Errors
    /// [`Configuration`](ErrorKind::Configuration).
    #[doc(hidden)]
    pub fn check(&self) -> Result<()> {
        if (MIN_TIME_TO_LIVE..=MAX_TIME_TO_LIVE).contains(&self.time_to_live) {
            return Ok(());
        }
        Err(configuration(
            "the time to live of a lease must be from 100 milliseconds to a day, nothing was written",
        ))
    }

    /// Does what [`try_acquire`](Self::try_acquire) does, as a part of another call.
    #[doc(hidden)]
    pub async fn attempt(&self) -> Result<Option<HeldLease>> {
        self.check()?;
        let (holder, sent) = (ObjectId::new(), Instant::now());
        let options = FindOneAndUpdateOptions::builder()
            .upsert(true)
            .return_document(ReturnDocument::After)
            .build();
        let update = vec![acquire(holder, self.time_to_live)];
        let mut conn = Conn::new();
        let reply = conn
            .find_one_and_update(&self.catalog, doc! { "_id": self.id() }, update, options)
            .await;
        let found = match reply {
            // Another process has acquired it for the first time.
            Err(error) if duplicate_key(&error).is_some() => return Ok(None),
            reply => reply?.unwrap_or_default(),
        };
        if found.get_object_id("holder").ok() != Some(holder) {
            return Ok(None);
        }
        let fence = found
            .get_i64("fence")
            .map_err(|_| Error::corrupt(self.id().into(), "fence", "the fence of the lease is no 64-bit integer"))?;
        Ok(Some(HeldLease(Arc::new(Held {
            lease: self.clone(),
            holder,
            fence,
            renewed: Mutex::new(sent),
        }))))
    }
}

/// A lease that this process has acquired; returned by [`Lease::acquire`].
///
/// Dropping it does not release it, because a command of the dropped work may still be on its way. It then ends after its
/// time to live.
pub struct HeldLease(Arc<Held>);

struct Held {
    lease: Lease,
    holder: ObjectId,
    fence: i64,
    /// When the last command that acquired or renewed it was sent. It lasts at least for the time to live after that.
    renewed: Mutex<Instant>,
}

crate::redacted_debug!(HeldLease, |held| "fence" = held.0.fence);

impl HeldLease {
    /// Returns the fence: a number that is greater than all fences of this lease before.
    pub fn fence(&self) -> i64 {
        self.0.fence
    }

    /// Extends the lease: it lasts for the time to live from now on.
    ///
    /// # Cost
    /// One round trip.
    ///
    /// # Cancel safety
    /// The lease may be renewed.
    ///
    /// # Errors
    /// - [`Contention`](ErrorKind::Contention): the lease ended and another holder has acquired it.
    pub fn renew(&self) -> ActionFuture<'_, ()> {
        action::run(self.0.lease.call("renew"), async {
            match self.0.try_renew().await? {
                true => Ok(()),
                false => Err(lost()),
            }
        })
    }

    /// Does some work, and renews the lease in the background until the work ends. Work that blocks the only thread of its
    /// runtime prevents that.
    ///
    /// # Cost
    /// One round trip for each third of the time to live.
    ///
    /// # Cancel safety
    /// The work is dropped, and the lease ends after its time to live.
    ///
    /// # Errors
    /// - [`Contention`](ErrorKind::Contention): another holder has the lease, or it could not be renewed in time. The work
    ///   is dropped.
    pub async fn keep<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        match select(pin!(work), self.until_lost()).await {
            Either::Left((done, _)) => Ok(done),
            Either::Right(((), _)) => Err(lost()),
        }
    }

    /// Ends the lease. Returns whether it was still held.
    ///
    /// # Cost
    /// One round trip.
    ///
    /// # Cancel safety
    /// The lease may be released. Otherwise it ends after its time to live.
    pub fn release(self) -> ActionFuture<'static, bool> {
        Box::pin(async move {
            let held = &self.0;
            action::run(held.lease.call("release"), held.update(release())).await
        })
    }

    /// Renews the lease in a task, which ends with the returned future. The future ends when the lease is lost.
    fn until_lost(&self) -> BoxFuture<'static, ()> {
        let held = Arc::clone(&self.0);
        let renewals = async move { while held.renew_in_time().await {} };
        // Aborted when it is dropped. A command that it has sent runs to its reply.
        let mut task = JoinSet::new();
        task.spawn(measure::inherit(renewals).in_current_span());
        Box::pin(async move { drop(task.join_next().await) })
    }
}

impl Held {
    /// Waits for a third of the time to live, and renews the lease. Returns `false` when it is lost.
    async fn renew_in_time(&self) -> bool {
        let time = self.lease.time_to_live;
        let renewed = *self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        let renewal = async {
            tokio::time::sleep_until(renewed + time / 3).await;
            loop {
                if let Ok(is_held) = self.try_renew().await {
                    return is_held;
                }
                tokio::time::sleep(time / 20).await;
            }
        };
        let in_time = tokio::time::timeout_at(renewed + time, renewal).await;
        in_time.unwrap_or(false)
    }

    /// Extends the lease. Returns `false` when another holder has it.
    async fn try_renew(&self) -> Result<bool> {
        let sent = Instant::now();
        let is_held = self.update(vec![renew(self.lease.time_to_live)]).await?;
        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = sent;
        Ok(is_held)
    }

    async fn update(&self, stages: Vec<Document>) -> Result<bool> {
        let ours = doc! { "_id": self.lease.id(), "holder": self.holder };
        let updated = Conn::new().update_one(&self.lease.catalog, ours, stages, None).await?;
        Ok(updated.matched_count > 0)
    }
}

fn lost() -> Error {
    Error::new(
        ErrorKind::Contention,
        "the lease was lost: it was not renewed in time, because the process was paused or the server did not answer, and another process may have it: acquire it again, with a longer time to live if this repeats",
    )
}

/// Acquires a lease that is free: its end is in the past, or it has none.
fn acquire(holder: ObjectId, time_to_live: Duration) -> Document {
    let fence = doc! { "$max": [{ "$add": ["$fence", 1_i64] }, { "$toLong": "$$NOW" }] };
    let acquired = |value: Bson, kept: &str| doc! { "$cond": [{ "$lte": ["$until", "$$NOW"] }, value, kept] };
    doc! { "$set": {
        "fence": acquired(fence.into(), "$fence"),
        "holder": acquired(holder.into(), "$holder"),
        "since": acquired("$$NOW".into(), "$since"),
        "until": acquired(after(time_to_live).into(), "$until"),
    } }
}

fn renew(time_to_live: Duration) -> Document {
    doc! { "$set": { "until": after(time_to_live) } }
}

fn release() -> Vec<Document> {
    vec![
        doc! { "$set": { "until": "$$NOW" } },
        doc! { "$unset": ["holder", "since"] },
    ]
}

fn after(time: Duration) -> Document {
    let millis = time.as_nanos().div_ceil(1_000_000); // at least as long as the holder counts on
    doc! { "$add": ["$$NOW", i64::try_from(millis).unwrap_or(i64::MAX)] }
}
