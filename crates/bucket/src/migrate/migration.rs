//! A migration between a flat collection and buckets: its collections, and what it reads.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::index::{Ensure, serves};
use mongo_patterns_core::migration::{MigrateOptions, Step, and, explained, number, selecting};
use mongo_patterns_core::{Error, ErrorKind, FieldName, InvalidDocuments, Key, Result};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocumentBuf, Uuid, doc};
use mongodb::options::{Collation, FindOneOptions, Hint};

use crate::query::chunk::{Range, only_field};
use crate::query::compare::{Keys, comparison};
use crate::query::to_buckets::ToBuckets;
use crate::query::to_flat::ToFlat;
use crate::results::Migrated;
use crate::settings::Settings;

const NOT_ON_VIEW: i32 = 166;
/// A server accepts at most an int64.
const MAX_DOCUMENTS: u64 = 1 << 62;

/// A migration into buckets, or back.
pub(crate) struct Migration<'a> {
    pub(crate) direction: Direction<'a>,
    pub(crate) source: &'a Collection<RawDocumentBuf>,
    pub(crate) target: &'a Collection<RawDocumentBuf>,
    /// The indexes and the entry of the buckets.
    pub(crate) ensure: Ensure<'a>,
    pub(crate) options: &'a MigrateOptions,
    pub(crate) allow_non_empty_target: bool,
}

/// The form of the target.
pub(crate) enum Direction<'a> {
    ToBuckets(ToBuckets<'a>),
    ToFlat(ToFlat<'a>),
}

/// A comparison of keys in both collections.
#[derive(Default)]
pub(crate) struct Compared {
    pub(crate) keys: u64,
    pub(crate) buckets: u64,
    pub(crate) items: u64,
    /// The number of keys with different numbers of items.
    pub(crate) unequal: u64,
}

impl Migration<'_> {
    pub(super) fn settings(&self) -> &Settings {
        match &self.direction {
            Direction::ToBuckets(form) => form.settings,
            Direction::ToFlat(form) => form.settings,
        }
    }

    pub(super) fn has_uuid_keys(&self) -> bool {
        let expressions = match &self.direction {
            Direction::ToBuckets(form) => form.expressions,
            Direction::ToFlat(form) => form.expressions,
        };
        // A key type of the user has the expressions of the type that it is stored as.
        expressions("$k") == Uuid::expressions("$k")
    }

    fn flat_key(&self) -> &FieldName {
        match &self.direction {
            Direction::ToBuckets(form) => &form.key,
            Direction::ToFlat(form) => &form.key,
        }
    }

    pub(super) fn migrated_keys(&self) -> Keys {
        match self.direction {
            Direction::ToBuckets(_) => Keys::Flat,
            Direction::ToFlat(_) => Keys::Buckets,
        }
    }

    /// Returns the stages of a chunk.
    pub(super) fn stages(&self) -> Vec<Document> {
        match &self.direction {
            Direction::ToBuckets(form) => form.pages(),
            Direction::ToFlat(form) => form.items(),
        }
    }

    /// Returns the settings, which all calls of one migration share.
    pub(super) fn fingerprint(&self) -> Document {
        let settings = self.settings();
        let mut fingerprint = doc! {
            "pattern": "bucket",
            "source": self.source.name(),
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
        if let Direction::ToBuckets(form) = &self.direction
            && let Some(format) = form.time_format.name()
        {
            fingerprint.insert("timeFormat", format);
        }
        if let (Direction::ToBuckets(_), Some(figures)) = (&self.direction, &settings.figures) {
            fingerprint.insert("figures", figures.stored_form());
        }
        if let (Direction::ToBuckets(_), Some(windows)) = (&self.direction, &settings.windows) {
            fingerprint.insert("window", windows.stored_form());
        }
        self.options.record_selection(&mut fingerprint);
        fingerprint
    }

    /// Returns the one document that these stages return for the documents to migrate.
    pub(super) async fn read(
        &self,
        conn: &mut Conn<'_>,
        stages: impl IntoIterator<Item = Document>,
    ) -> Result<Document> {
        let selected = selecting(self.selected()).into_iter().chain(stages);
        read_from(conn, self.source, selected).await
    }

    /// Does what [`read`](Self::read) does, with the invalid documents too.
    pub(super) async fn read_given(
        &self,
        conn: &mut Conn<'_>,
        stages: impl IntoIterator<Item = Document>,
    ) -> Result<Document> {
        let given = selecting(self.options.filter.clone()).into_iter().chain(stages);
        read_from(conn, self.source, given).await
    }

    /// Compares keys in both collections.
    pub(super) async fn compare(&self, conn: &mut Conn<'_>, keys: Keys) -> Result<Compared> {
        let step = self.comparison("check", keys);
        Ok(Compared::from_row(&conn.read(step).await.map_err(failed)?.first()?))
    }

    /// Compares the migrated keys in both collections at the end. `None` in a plan.
    pub(super) async fn compare_migrated(&self, conn: &mut Conn<'_>) -> Result<Option<Compared>> {
        let step = self.comparison("count both sides", self.migrated_keys());
        let reply = conn.read_written(step).await.map_err(failed)?;
        let compared = reply.map(|reply| reply.first()).transpose()?;
        Ok(compared.as_ref().map(Compared::from_row))
    }

    fn comparison(&self, purpose: &'static str, keys: Keys) -> Step {
        let (flat, buckets) = match self.direction {
            Direction::ToBuckets(_) => (self.source, self.target),
            Direction::ToFlat(_) => (self.target, self.source),
        };
        let stages = comparison(self.settings(), self.flat_key(), buckets.name(), keys);
        // Only a migration of a flat collection has a selection.
        let selected = selecting(self.selected()).into_iter().chain(stages);
        Step::aggregate(purpose, flat, selected)
    }
}

/// Returns the one document that these stages return for a collection.
pub(super) async fn read_from(
    conn: &mut Conn<'_>,
    collection: &Collection<RawDocumentBuf>,
    stages: impl IntoIterator<Item = Document>,
) -> Result<Document> {
    let step = Step::aggregate("check", collection, stages);
    Ok(conn.read(step).await.map_err(failed)?.first()?)
}

impl Compared {
    fn from_row(row: &Document) -> Self {
        Self {
            keys: number(row, "keys"),
            buckets: number(row, "buckets"),
            items: number(row, "sized"),
            unequal: number(row, "unequal"),
        }
    }

    pub(super) fn migrated(&self, resumed: bool, skipped: InvalidDocuments) -> Migrated {
        Migrated {
            keys: self.keys,
            items: self.items,
            documents: self.buckets,
            resumed,
            skipped,
        }
    }
}

/// Returns the error of an aggregation of a migration.
pub(super) fn failed(error: CommandError) -> Error {
    let on_view = "the target is a view, nothing was migrated: migrate into a plain collection";
    explained(
        error,
        (NOT_ON_VIEW, ErrorKind::Unsupported, on_view),
        "a unique index of the target refused a document: stop other writers of the same keys there, or drop an index that is not of the pattern",
    )
}

/// A collection in ranges of one field, ascending, each of about as many documents.
pub(super) struct Chunks<'a> {
    collection: &'a Collection<RawDocumentBuf>,
    pub(super) field: &'a str,
    /// The name of an index on the field. Without one, there is a single range of all documents.
    index: Option<String>,
    /// The filter of the documents that count.
    filter: Document,
    documents: u64,
}

impl<'a> Chunks<'a> {
    pub(super) async fn new(
        conn: &mut Conn<'_>,
        collection: &'a Collection<RawDocumentBuf>,
        field: &'a str,
        (filter, documents): (Document, u64),
    ) -> Result<Self> {
        let indexes = conn.list_indexes("look for an index to chunk by", collection).await?;
        let index = indexes.iter().find(|index| serves(index, field));
        let index = index.and_then(|index| index.get_str("name").ok().map(str::to_owned));
        Ok(Self {
            collection,
            field,
            index,
            filter,
            documents: documents.min(MAX_DOCUMENTS),
        })
    }

    /// Returns the hint for reads of a range.
    pub(super) fn hint(&self) -> Option<Hint> {
        self.index.clone().map(Hint::Name)
    }

    /// Returns the range after this value, with all documents of its last value.
    pub(super) async fn next(&self, conn: &mut Conn<'_>, after: Option<Bson>) -> Result<Range> {
        let Some(hint) = self.hint() else {
            return Ok(Range::default());
        };
        let mut range = Range { after, through: None };
        let options = FindOneOptions::builder()
            .sort(doc! { self.field: 1 })
            .skip(self.documents - 1)
            .projection(only_field(self.field))
            .hint(hint)
            .collation(Collation::builder().locale("simple").build())
            .build();
        let find = Step::find_one(
            "find the end of a chunk",
            self.collection,
            and(range.filter(self.field), self.filter.clone()),
            options,
        );
        range.through = conn.read(find).await?.first()?.remove(self.field);
        Ok(range)
    }
}
