//! A move under way: check, begin or go on, chunk by chunk, compare.

use futures::TryStreamExt;
use mongo_patterns_core::moves::{Last, Place, Record, number};
use mongo_patterns_core::{Error, ErrorKind, Result, error};
use mongodb::Collection;
use mongodb::action::Aggregate;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::error::Error as DriverError;
use mongodb::options::{Collation, ReadConcern, ReadPreference, SelectionCriteria};

use super::plan::Transcript;
use super::walk::{Range, Walk};
use super::{Migrated, MigrationProgress, OnProgress};
use crate::query::compare::{Keys, comparison};
use crate::query::to_buckets::ToBuckets;
use crate::query::to_flat::ToFlat;
use crate::settings::Settings;

/// Stages, operators and server-side JavaScript that a server does not have, or does not allow.
const UNSUPPORTED: [i32; 4] = [168, 31_264, 31_325, 40_324];
/// Nothing can be written to a view.
const NOT_ON_VIEW: i32 = 166;

/// A move into buckets, or back.
pub(crate) struct Move<'a> {
    pub(crate) direction: Direction<'a>,
    pub(crate) flat: &'a Collection<RawDocumentBuf>,
    pub(crate) buckets: &'a Collection<RawDocumentBuf>,
    pub(crate) allow_non_empty_target: bool,
    pub(crate) chunk_items: u64,
    /// What was read, for a plan.
    pub(crate) transcript: Transcript,
}

/// What the documents of the source become.
pub(crate) enum Direction<'a> {
    ToBuckets(ToBuckets<'a>),
    ToFlat(ToFlat<'a>),
}

/// Where a move begins, when nothing speaks against it.
pub(crate) enum Start {
    /// It was finished already.
    Finished(Compared),
    From {
        /// How many items there are.
        total: u64,
        /// What an earlier call has begun.
        resumed: Option<Last>,
    },
}

/// What some keys have on both sides.
pub(crate) struct Compared {
    pub(crate) keys: u64,
    pub(crate) buckets: u64,
    pub(crate) items: u64,
    /// Keys that do not have the same on both sides.
    unequal: u64,
}

impl Move<'_> {
    pub(crate) fn source(&self) -> &Collection<RawDocumentBuf> {
        match self.direction {
            Direction::ToBuckets(_) => self.flat,
            Direction::ToFlat(_) => self.buckets,
        }
    }

    pub(crate) fn target(&self) -> &Collection<RawDocumentBuf> {
        match self.direction {
            Direction::ToBuckets(_) => self.buckets,
            Direction::ToFlat(_) => self.flat,
        }
    }

    fn settings(&self) -> &Settings {
        match &self.direction {
            Direction::ToBuckets(form) => form.settings,
            Direction::ToFlat(form) => form.settings,
        }
    }

    pub(crate) fn moved_keys(&self) -> Keys {
        match self.direction {
            Direction::ToBuckets(_) => Keys::Flat,
            Direction::ToFlat(_) => Keys::Buckets,
        }
    }

    pub(crate) fn stages(&self) -> Vec<Document> {
        match &self.direction {
            Direction::ToBuckets(form) => form.pages(),
            Direction::ToFlat(form) => form.items(),
        }
    }

    /// What must be the same in all calls of one move.
    pub(crate) fn fingerprint(&self) -> Document {
        let settings = self.settings();
        let mut fingerprint = doc! {
            "pattern": "bucket",
            "source": self.source().name(),
            "key": settings.key.as_str(),
            "count": settings.count.as_str(),
            "items": settings.items.as_str(),
        };
        match &self.direction {
            Direction::ToBuckets(form) => fingerprint.extend(doc! {
                "into": "buckets",
                "flatKey": form.key.as_str(),
                "time": form.time.as_str(),
                "pageSize": settings.page_size_bson(),
                "keepIds": form.keep_ids,
            }),
            Direction::ToFlat(form) => fingerprint.extend(doc! { "into": "flat", "flatKey": form.key.as_str() }),
        }
        fingerprint
    }

    /// All checks. Nothing is written before they have passed.
    pub(crate) async fn prepare(&self, record: &Record) -> Result<Start> {
        self.check_settings()?;
        let last = record.read().await?;
        let same = last.as_ref().is_some_and(|last| last.settings == self.fingerprint());
        if same && last.as_ref().is_some_and(|last| last.finished) {
            let compared = self.compare(self.moved_keys()).await?;
            if compared.keys > 0 && compared.unequal == 0 {
                return Ok(Start::Finished(compared));
            }
        }
        let total = self.check_source().await?;
        self.probe().await?;
        let unfinished = last.filter(|last| !last.finished);
        let empty = self.target_is_empty().await?;
        if let (Some(_), false, false) = (&unfinished, same, empty) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "an unfinished move into this collection was begun with another source, or other settings: go on with those, or empty the collection to begin anew",
            ));
        }
        let resumed = unfinished.filter(|_| !empty);
        if resumed.is_none() && !empty {
            self.check_target().await?;
        }
        Ok(Start::From { total, resumed })
    }

    pub(crate) async fn run(self, on_progress: Option<OnProgress<'_>>) -> Result<Migrated> {
        let record = Record::of(self.target());
        let (total, resumed) = match self.prepare(&record).await? {
            Start::Finished(compared) => return Ok(compared.moved(true)),
            Start::From { total, resumed } => (total, resumed),
        };
        if let Direction::ToBuckets(form) = &self.direction {
            let plan = form.settings.index_plan(self.buckets.name());
            plan.ensure(self.buckets).await?;
        }
        let place = match &resumed {
            Some(last) => {
                record.resume().await?;
                last.place.clone()
            }
            None => {
                record.begin(self.fingerprint()).await?;
                Place::default()
            }
        };
        let transferred = self.transfer(&record, place, total, on_progress).await;
        if transferred
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::Unsupported)
            && resumed.is_none()
        {
            // The first chunk was refused, so there is nothing to resume.
            record.forget().await?;
        }
        transferred?;

        let compared = self.compare(self.moved_keys()).await?;
        if compared.unequal > 0 || compared.items != total {
            record.rewind().await?;
            return Err(Error::new(
                ErrorKind::CountMismatch,
                format!(
                    "{} of {} keys do not have the same number of items in both collections, and of {total} items at the start {} are in buckets: stop all writers to both, then move again; where the source was written to meanwhile, empty the target first",
                    compared.unequal, compared.keys, compared.items
                ),
            ));
        }
        record.finish().await?;
        Ok(compared.moved(resumed.is_some()))
    }

    /// Whether the server can do it, tried with one document.
    async fn probe(&self) -> Result<()> {
        let mut stages = vec![doc! { "$limit": 1 }];
        stages.extend(self.stages());
        self.look(stages).await?;
        Ok(())
    }

    async fn target_is_empty(&self) -> Result<bool> {
        let one = self
            .look_at(self.target(), [doc! { "$limit": 1 }, doc! { "$count": "n" }])
            .await?;
        Ok(number(&one, "n") == 0)
    }

    async fn transfer(
        &self,
        record: &Record,
        place: Place,
        total: u64,
        mut on_progress: Option<OnProgress<'_>>,
    ) -> Result<()> {
        let (walk, field) = self.walk().await?;
        let Place { mut last, mut moved } = place;
        let before = moved;
        loop {
            let range = walk.next(last).await?;
            self.transfer_chunk(&walk, &range, field).await?;
            match &range.through {
                Some(through) => {
                    moved += self.count(&walk, &range, field).await?;
                    record.advance(through, moved).await?;
                }
                None => moved = total,
            }
            if let Some(call) = &mut on_progress {
                call(MigrationProgress {
                    done: moved,
                    total,
                    before,
                });
            }
            if range.through.is_none() {
                return Ok(());
            }
            last = range.through;
        }
    }

    /// The way through the source, and the field that it goes by.
    pub(crate) async fn walk(&self) -> Result<(Walk<'_>, &str)> {
        let (field, step) = match &self.direction {
            Direction::ToBuckets(form) => (form.key.as_str(), self.chunk_items),
            Direction::ToFlat(form) => ("_id", (self.chunk_items / u64::from(form.settings.page_size)).max(1)),
        };
        Ok((Walk::new(self.source(), field, step).await?, field))
    }

    /// It may run again, also while an earlier run of it still goes on at the server: what is there stays as it is.
    async fn transfer_chunk(&self, walk: &Walk<'_>, range: &Range, field: &str) -> Result<()> {
        // Plain inserts take a third of the time, and do for a chunk that runs for the first time.
        let inserted = self.merge(walk, range, field, "fail".into()).await;
        let Err(error) = inserted else { return Ok(()) };
        if error::duplicate_key(&error).is_none() {
            return Err(failed(error));
        }
        // An empty pipeline, and not `keepExisting`: that takes a dot in a field's name for a path.
        let kept = self.merge(walk, range, field, Bson::Array(Vec::new())).await;
        kept.map_err(failed)
    }

    async fn merge(
        &self,
        walk: &Walk<'_>,
        range: &Range,
        field: &str,
        when_matched: Bson,
    ) -> std::result::Result<(), DriverError> {
        let stages = self.merging(range, field, when_matched);
        let concern = self.target().write_concern().cloned().unwrap_or_default();
        let mut aggregate = aggregate(self.source(), stages).write_concern(concern);
        if let Some(hint) = walk.hint() {
            aggregate = aggregate.hint(hint);
        }
        aggregate.await?;
        Ok(())
    }

    /// What moves a range.
    pub(crate) fn merging(&self, range: &Range, field: &str, when_matched: Bson) -> Vec<Document> {
        let mut stages = vec![doc! { "$match": range.filter(field) }];
        stages.extend(self.stages());
        stages.push(doc! { "$merge": {
            "into": self.target().name(),
            "whenMatched": when_matched,
            "whenNotMatched": "insert",
        } });
        stages
    }

    pub(crate) async fn count(&self, walk: &Walk<'_>, range: &Range, field: &str) -> Result<u64> {
        let mut aggregate = aggregate(self.source(), self.counting(range, field));
        if let Some(hint) = walk.hint() {
            aggregate = aggregate.hint(hint);
        }
        Ok(number(&first(aggregate).await?, "n"))
    }

    /// What counts the items of a range.
    pub(crate) fn counting(&self, range: &Range, field: &str) -> [Document; 2] {
        let items = match &self.direction {
            Direction::ToBuckets(_) => Bson::Int32(1),
            Direction::ToFlat(form) => doc! { "$size": format!("${}", form.settings.items) }.into(),
        };
        [
            doc! { "$match": range.filter(field) },
            doc! { "$group": { "_id": null, "n": { "$sum": items } } },
        ]
    }

    pub(crate) async fn compare(&self, keys: Keys) -> Result<Compared> {
        let found = self.look_at(self.flat, self.comparing(keys)).await?;
        Ok(Compared {
            keys: number(&found, "keys"),
            buckets: number(&found, "buckets"),
            items: number(&found, "sized"),
            unequal: number(&found, "unequal"),
        })
    }

    /// What compares both sides.
    pub(crate) fn comparing(&self, keys: Keys) -> [Document; 5] {
        let flat_key = match &self.direction {
            Direction::ToBuckets(form) => form.key,
            Direction::ToFlat(form) => form.key,
        };
        comparison(self.settings(), flat_key, self.buckets.name(), keys)
    }

    /// The one document that the stages make of the source.
    pub(crate) async fn look(&self, stages: impl IntoIterator<Item = Document>) -> Result<Document> {
        self.look_at(self.source(), stages).await
    }

    pub(crate) async fn look_at(
        &self,
        collection: &Collection<RawDocumentBuf>,
        stages: impl IntoIterator<Item = Document>,
    ) -> Result<Document> {
        let stages: Vec<Document> = stages.into_iter().collect();
        self.transcript.read(collection, &stages);
        first(aggregate(collection, stages)).await
    }
}

impl Compared {
    fn moved(&self, resumed: bool) -> Migrated {
        Migrated {
            keys: self.keys,
            items: self.items,
            buckets: self.buckets,
            resumed,
        }
    }
}

fn aggregate(collection: &Collection<RawDocumentBuf>, stages: impl IntoIterator<Item = Document>) -> Aggregate<'_> {
    collection
        .aggregate(stages)
        .allow_disk_use(true)
        .collation(simple_collation())
        .read_concern(ReadConcern::local())
        .selection_criteria(primary())
}

async fn first(aggregate: Aggregate<'_>) -> Result<Document> {
    // Not read as a `Document`, which takes a user's field such as `$date` for extended JSON, and fails where it is none.
    let mut cursor = aggregate.with_type::<RawDocumentBuf>().await.map_err(failed)?;
    let found = cursor.try_next().await.map_err(failed)?;
    let found = found.map(|found| Document::try_from(found.as_ref())).transpose();
    Ok(found.map_err(DriverError::from)?.unwrap_or_default())
}

/// Keys compare by their bytes, also where the collection's own collation is another.
pub(crate) fn simple_collation() -> Collation {
    Collation::builder().locale("simple").build()
}

pub(crate) fn primary() -> SelectionCriteria {
    SelectionCriteria::ReadPreference(ReadPreference::Primary)
}

fn failed(error: DriverError) -> Error {
    if error::code(&error) == Some(NOT_ON_VIEW) {
        return Error::from_driver(
            ErrorKind::Unsupported,
            "the collection to move into is a view, and nothing was moved: move into a plain collection",
            error,
        );
    }
    if error::code(&error).is_some_and(|code| UNSUPPORTED.contains(&code)) {
        return Error::from_driver(
            ErrorKind::Unsupported,
            "the server cannot do this: a move into buckets needs MongoDB 5.0, and keys that are UUIDs need server-side JavaScript, which is on by default",
            error,
        );
    }
    if error::duplicate_key(&error).is_some() {
        return Error::from_driver(
            ErrorKind::DuplicateKey,
            "a unique index of the target refused what was moved: another program writes to the same keys there, or the index is one of your own",
            error,
        );
    }
    error.into()
}
