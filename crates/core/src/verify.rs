//! Verification and repair: what `verify()` and `repair()` of a repository return.
//!
//! The stream of a verification has a [`Finding`] for each problem of a stored document. The stream of a repair has a
//! [`Repaired`] for findings that it repaired together. The methods of the repositories document which problems they find,
//! which of them a repair can fix, and the cost.
//!
//! - A verification, and a [dry run](Repair::dry_run) of a repair, write nothing.
//! - Both are safe for concurrent writers: a finding that another client's commands can explain is read again before it is
//!   reported.
//! - A repair needs no guess and loses no data. [`Repaired::unrepaired`] is the reason for an unrepaired finding. A repair
//!   can be interrupted and called again.
//! - They check documents. `verify_shard_keys()` of a repository checks the shard keys of a sharded cluster.
//!
//! # Cost
//! The scan that each method documents, and one round trip that compares the settings with the [catalog](crate::catalog). A
//! progress callback costs one more for each collection, to count its documents.
//!
//! # Cancel safety
//! If the future of an item is dropped, the stream can be polled again, and loses no item. Until then it may have the lane
//! of a document: poll it again, or drop it, before other calls of the same repository. While the caller has an item, a
//! stream locks no document and runs no transaction.
//!
//! A dropped stream of a verification has no effect. The `repair()` of a repository documents a dropped repair.
//!
//! # Errors
//! An error is the last item of a stream. If the catalog has other settings,
//! [`SettingsMismatch`](crate::ErrorKind::SettingsMismatch) is the only item. A repair that is not a dry run also needs an
//! entry, which `ensure_indexes()` writes.
//!
//! # Serialized form
//! Findings and repairs implement [`Serialize`](serde::Serialize), for logs and reports. Later versions may only add fields.
//! As JSON:
//!
//! ```json
//! { "namespace": "shop.orders", "document_id": 7, "related_id": 456, "fields": ["customer"],
//!   "problem": "Stale", "version": 1, "source_version": 2 }
//! ```
//!
//! `problem` is the name of the problem, and its numbers follow. Empty `related_id`, `fields` and `document_ids` are left
//! out. A repair is `{ "findings": [...], "written": 0, "deleted": 0, "unrepaired": "NotMigrated" }`, where `unrepaired` is
//! the name of the reason, or null. Ids are user values: take care where you log them.

mod finding;
mod rounds;
mod scan;

pub use self::finding::{Finding, Repaired};
use self::scan::after;
pub use self::scan::{Results, begin, checked, confirmed, each, pause, scan};
use crate::action::{ActionStream, Call};
use crate::error::Result;
use crate::index::Ensure;
use crate::progress::{OnProgress, Progress, Reporter};

type Verification<'a, P> = Box<dyn FnOnce(Reporter<'a>) -> ActionStream<'a, Finding<P>> + Send + 'a>;
type Repairs<'a, P, U> = Box<dyn FnOnce(Reporter<'a>, bool) -> ActionStream<'a, Repaired<P, U>> + Send + 'a>;

crate::action! {
    /// Finds problems of stored documents; returned by `verify()` of a repository.
    pub struct Verify<'a, P> {
        call: Call<'a>,
        ensure: Option<Ensure<'a>>,
        scan: Result<Verification<'a, P>>,
        on_progress: Option<OnProgress<'a>>,
    }
}

crate::action! {
    /// Repairs what a verification finds; returned by `repair()` of a repository.
    pub struct Repair<'a, P, U> {
        ensure: Ensure<'a>,
        repairs: Result<Repairs<'a, P, U>>,
        dry_run: bool,
        on_progress: Option<OnProgress<'a>>,
    }
}

impl<'a, P: Send + 'a> Verify<'a, P> {
    /// Creates the action, by the scan that it begins.
    #[doc(hidden)]
    pub fn new(
        ensure: Ensure<'a>,
        scan: impl FnOnce(Reporter<'a>) -> ActionStream<'a, Finding<P>> + Send + 'a,
    ) -> Self {
        Self::try_new(ensure, Ok(scan))
    }

    /// Creates the action. An error of the arguments is the first item of its stream.
    #[doc(hidden)]
    pub fn try_new(
        ensure: Ensure<'a>,
        scan: Result<impl FnOnce(Reporter<'a>) -> ActionStream<'a, Finding<P>> + Send + 'a>,
    ) -> Self {
        let scan = scan.map(|scan| Box::new(scan) as Verification<'a, P>);
        Self::create(ensure.call, Some(ensure), scan, None)
    }

    /// Creates the action of another call, which does not compare the settings with the catalog.
    #[doc(hidden)]
    pub fn unchecked(
        call: Call<'a>,
        scan: impl FnOnce(Reporter<'a>) -> ActionStream<'a, Finding<P>> + Send + 'a,
    ) -> Self {
        Self::create(call, None, Ok(Box::new(scan)), None)
    }

    crate::setters! {
        /// Sets a progress callback, which gets the number of scanned documents. See [its cost](self#cost).
        on_progress(call: impl FnMut(Progress) + Send + 'a) => on_progress = Some(Box::new(call));
    }

    /// Returns the stream. It sends nothing before it is polled.
    pub fn stream(self) -> ActionStream<'a, Finding<P>> {
        let found = self.scan.map(|scan| scan(Reporter::new(self.on_progress)));
        match self.ensure {
            Some(ensure) => checked(ensure, "verify", true, found),
            None => after(self.call, None, found),
        }
    }
}

impl<'a, P: Send + 'a, U: Send + 'a> Repair<'a, P, U> {
    /// Creates the action, by the repairs that it begins. Their second argument is whether it is a dry run.
    #[doc(hidden)]
    pub fn new(
        ensure: Ensure<'a>,
        repairs: impl FnOnce(Reporter<'a>, bool) -> ActionStream<'a, Repaired<P, U>> + Send + 'a,
    ) -> Self {
        Self::try_new(ensure, Ok(repairs))
    }

    /// Creates the action. An error of the arguments is the first item of its stream.
    #[doc(hidden)]
    pub fn try_new(
        ensure: Ensure<'a>,
        repairs: Result<impl FnOnce(Reporter<'a>, bool) -> ActionStream<'a, Repaired<P, U>> + Send + 'a>,
    ) -> Self {
        let repairs = repairs.map(|repairs| Box::new(repairs) as Repairs<'a, P, U>);
        Self::create(ensure, repairs, false, None)
    }

    crate::setters! {
        /// Returns what a repair would do, and writes nothing.
        dry_run() => dry_run = true;

        /// Sets a progress callback, which gets the number of scanned documents. See [its cost](self#cost).
        on_progress(call: impl FnMut(Progress) + Send + 'a) => on_progress = Some(Box::new(call));
    }

    /// Returns the stream. It does nothing before it is polled.
    pub fn stream(self) -> ActionStream<'a, Repaired<P, U>> {
        let dry_run = self.dry_run;
        let repaired = self
            .repairs
            .map(|repairs| repairs(Reporter::new(self.on_progress), dry_run));
        checked(self.ensure, "repair", dry_run, repaired)
    }
}
