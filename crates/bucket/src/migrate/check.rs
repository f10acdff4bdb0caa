//! The checks of a migration, before anything is written.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::{self, Remedy};
use mongo_patterns_core::migration::{FILTER, Step, and, number, refuse_one, selecting};
use mongo_patterns_core::settings::is_unacknowledged;
use mongo_patterns_core::{Error, ErrorKind, FieldName, InvalidDocuments, Result};
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, Document, Uuid, doc};
use mongodb::options::FindOneOptions;

use crate::migrate::migration::{Chunks, Compared, Direction, Migration, failed, read_from};
use crate::migrate::selection::check_any_valid;
use crate::query::chunk::any_document;
use crate::query::compare::{Keys, other_keys};
use crate::query::to_buckets::ToBuckets;
use crate::query::to_flat::ToFlat;

/// MongoDB's limit of a document, without the fields of a bucket other than its items.
const MAX_BYTES: i64 = 16 * 1024 * 1024 - 8 * 1024;

/// How many items a check reads by one command by default: a chunk of the migration.
const CHUNK: u64 = 100_000;

const LEGACY_UUID: &str = "documents of the flat collection have no valid key, such as UUIDs of the legacy subtype 3, whose order of bytes depends on the driver that wrote them: store these with subtype 4 first, read by the representation of that driver (`javaLegacy`, `csharpLegacy` or `pythonLegacy`)";
const COMPOUND: &str = "documents of the flat collection have a document as their key, whose text would not be unique: migrate from a view with a key field of one value, such as a text of its parts";

/// Documents that prevent the migration.
struct Check {
    stages: Vec<Document>,
    kind: ErrorKind,
    what: &'static str,
    documents: i64,
}

impl Check {
    fn new(stages: impl Into<Vec<Document>>, kind: ErrorKind, what: &'static str) -> Self {
        Self {
            stages: stages.into(),
            kind,
            what,
            documents: 0,
        }
    }
}

/// Refuses documents of the flat collection that are invalid each by itself.
fn refuse_flat(
    inspected: &Document,
    names: (&str, &str),
    kind: ErrorKind,
    field: &FieldName,
    what: &str,
) -> Result<()> {
    refuse_one(inspected, names, kind, field.as_str(), what).map_err(|error| error.with_remedy(Remedy::SkipInvalid))
}

impl Migration<'_> {
    /// Checks the settings. Sends nothing.
    pub(super) fn check_settings(&self) -> Result<()> {
        let (source, target) = (self.source, self.target);
        let refuse = |message: &'static str| Err(Error::new(ErrorKind::InvalidArgument, message));
        if source.namespace().db != target.namespace().db {
            return refuse(
                "the flat collection and the buckets are in two databases: take one from the database of the other",
            );
        }
        if source.name() == target.name() {
            return refuse("the flat collection is the collection of the buckets: pass another one");
        }
        if is_unacknowledged(target) {
            return refuse(
                "the write concern of the target is w: 0, under which no write is confirmed: use another one",
            );
        }
        Ok(())
    }

    /// Refuses UUID keys on a server that has no expression for their texts. One round trip, for such keys only.
    pub(super) async fn check_key_type(&self, conn: &mut Conn<'_>) -> Result<()> {
        /// The server's code of a failed conversion.
        const CONVERSION_FAILURE: i32 = 241;
        if !self.has_uuid_keys() {
            return Ok(());
        }
        // A constant, which the server evaluates before it reads a document.
        let text = doc! { "$toString": Binary::from_uuid(Uuid::from_bytes([0; 16])) };
        let filter = doc! { "$expr": { "$eq": [text, ""] } };
        let options = FindOneOptions::builder().build();
        let find = Step::find_one("look for the text of a UUID", self.source, filter, options);
        match conn.read(find).await {
            Ok(_) => Ok(()),
            Err(error) if error::code(&error) == Some(CONVERSION_FAILURE) => Err(Error::from_driver(
                ErrorKind::Unsupported,
                match self.direction {
                    Direction::ToBuckets(_) => {
                        "the server has no expression for the text of a UUID key, which MongoDB 8.0 has, nothing was migrated: read the documents through the client, and append them with append_stream()"
                    }
                    Direction::ToFlat(_) => {
                        "the server has no expression for the text of a UUID key, which MongoDB 8.0 has, nothing was migrated: read the items with items(), and insert them through the client"
                    }
                },
                error,
            )),
            Err(error) => Err(failed(error)),
        }
    }

    /// Checks all documents to migrate. Returns the number of their items, and the documents that are skipped.
    pub(super) async fn check_source(&self, conn: &mut Conn<'_>) -> Result<(u64, InvalidDocuments)> {
        let checked = match &self.direction {
            Direction::ToBuckets(form) => self.check_flat(conn, form).await,
            Direction::ToFlat(form) => {
                let total = self.check_buckets(conn, form).await;
                total.map(|total| (total, InvalidDocuments::default()))
            }
        };
        checked.map_err(|error| error.of_collection(self.source))
    }

    async fn check_flat(&self, conn: &mut Conn<'_>, form: &ToBuckets<'_>) -> Result<(u64, InvalidDocuments)> {
        if self.options.skipped.is_some() {
            let (inspected, invalid) = self.inspect_invalid(conn, form).await?;
            check_any_valid(number(&inspected, "total"), &invalid)?;
            return Ok((self.check_valid(conn, form, &inspected).await?, invalid));
        }
        let inspected = self.read_given(conn, form.inspection()).await?;
        self.check_keys(conn, form, &inspected).await?;
        let refuse = |names, kind, field: &FieldName, what| refuse_flat(&inspected, names, kind, field, what);
        let what = match form.time_format.name() {
            None => {
                "documents of the flat collection have no BSON date in the time field, or one that is not from 1970-01-01T00:00:00Z to 2286-11-20T17:46:39Z: set the time format for numbers and texts"
            }
            Some(_) => {
                "documents of the flat collection have no time of the given format, or one that is not from 1970-01-01T00:00:00Z to 2286-11-20T17:46:39Z"
            }
        };
        refuse(("times", "time"), ErrorKind::InvalidTime, form.time, what)?;
        if let Some(item_id) = &form.settings.item_id {
            let what = "documents of the flat collection have no item id, or one of an unsupported type";
            refuse(("ids", "id"), ErrorKind::InvalidItemId, item_id, what)?;
        }
        if let Some(figures) = &form.settings.figures {
            let what = "documents of the flat collection have no valid value in a field with figures";
            refuse(("figures", "figure"), ErrorKind::InvalidArgument, &figures.field, what)?;
        }
        let total = self.check_valid(conn, form, &inspected).await?;
        Ok((total, InvalidDocuments::default()))
    }

    /// Refuses documents without a valid key. Reads one, because a UUID of another form looks like a valid one.
    async fn check_keys(&self, conn: &mut Conn<'_>, form: &ToBuckets<'_>, inspected: &Document) -> Result<()> {
        let what = "documents of the flat collection have no key of the repository's key type, or one that is out of range or too long";
        let refuse = |what| refuse_flat(inspected, ("keys", "key"), ErrorKind::InvalidKey, &form.key, what);
        let (Err(error), Some(id)) = (refuse(what), inspected.get("key")) else {
            return Ok(());
        };
        let options = FindOneOptions::builder()
            .projection(doc! { form.key.as_str(): 1 })
            .build();
        let filter = doc! { "_id": { "$eq": id } };
        let find = Step::find_one("look for the type of the key", self.source, filter, options);
        let document = conn.read(find).await?.first()?;
        match document.get(form.key.as_str()) {
            Some(Bson::Binary(key)) if key.subtype == BinarySubtype::UuidOld => refuse(LEGACY_UUID),
            Some(Bson::Document(_)) => refuse(COMPOUND),
            _ => Err(error),
        }
    }

    /// Checks several documents of a key together. Returns the number of items.
    async fn check_valid(&self, conn: &mut Conn<'_>, form: &ToBuckets<'_>, inspected: &Document) -> Result<u64> {
        let total = number(inspected, "total");
        let mut checks = Vec::new();
        if let Some(repeated) = form.repeated_ids() {
            let what = "documents of the flat collection have the same item id as another document of their key";
            checks.push(Check::new(repeated, ErrorKind::InvalidItemId, what));
        }
        // Each of these reads everything once more, and few collections need it.
        if i64::try_from(total).unwrap_or(i64::MAX) > form.items_of_a_second() {
            let what = "documents of the flat collection have a second in which their key would open more than 1,000,000 buckets: use larger pages";
            checks.push(Check::new(form.full_seconds(), ErrorKind::InvalidTime, what));
        }
        let largest = i64::try_from(number(inspected, "largest")).unwrap_or(i64::MAX);
        let page_size = i64::from(form.settings.page_size);
        if largest.saturating_add(12).saturating_mul(page_size) > MAX_BYTES {
            let what = "pages would exceed MongoDB's limit of 16 MiB: use a smaller page size";
            checks.push(Check::new(form.oversized_pages(MAX_BYTES), ErrorKind::TooLarge, what));
        }
        for check in self.in_chunks(conn, form, checks).await? {
            refuse_one(&doc! { "n": check.documents }, ("n", "one"), check.kind, "", check.what)?;
        }
        Ok(total)
    }

    /// Runs checks of the documents of one key, chunk by chunk, because the groups of all keys do not fit into the server's
    /// memory.
    async fn in_chunks(&self, conn: &mut Conn<'_>, form: &ToBuckets<'_>, mut checks: Vec<Check>) -> Result<Vec<Check>> {
        if checks.is_empty() {
            return Ok(checks);
        }
        // The rate bounds writes.
        let documents = (self.selected(), self.options.chunk.unwrap_or(CHUNK));
        let chunks = Chunks::new(conn, self.source, form.key.as_str(), documents).await?;
        let mut after = None;
        loop {
            let range = chunks.next(conn, after).await?;
            let filter = and(range.filter(chunks.field), self.selected());
            for check in &mut checks {
                let stages = selecting(filter.clone()).into_iter().chain(check.stages.clone());
                let step = Step::aggregate("check", self.source, stages).hint(chunks.hint());
                let inspected = number(&conn.read(step).await.map_err(failed)?.first()?, "n");
                check.documents += i64::try_from(inspected).unwrap_or(i64::MAX);
            }
            match range.through {
                None => return Ok(checks),
                through => after = through,
            }
        }
    }

    async fn check_buckets(&self, conn: &mut Conn<'_>, form: &ToFlat<'_>) -> Result<u64> {
        let inspected = self.read(conn, form.inspection()).await?;
        let what = "buckets violate the invariants of the pattern in their `_id`, key, count or items";
        refuse_one(&inspected, ("buckets", "bucket"), ErrorKind::Corrupt, "_id", what)?;
        let items = form.settings.items.as_str();
        let refuse_items = |names, kind, what| refuse_one(&inspected, names, kind, items, what);
        let what = "items are not documents, so they cannot be documents of a flat collection";
        refuse_items(("scalars", "scalar"), ErrorKind::Encode, what)?;
        let what = "items have a field with the name of the flat key field, and another value in it than their key: call key_field(..) with another name";
        refuse_items(("keys", "key"), ErrorKind::InvalidKey, what)?;
        let what = "items have an `_id` that a document of a flat collection cannot have";
        refuse_items(("ids", "id"), ErrorKind::InvalidItemId, what)?;
        if number(&inspected, "with_ids") > 0 {
            let what = "items would have the `_id` of another item as documents of the flat collection";
            let repeated = form.repeated_ids();
            self.refuse_any(conn, repeated, ErrorKind::InvalidItemId, what).await?;
        }
        Ok(number(&inspected, "total"))
    }

    /// The error for an unfinished migration of other settings.
    pub(super) fn other_migration(&self, ours: &Document, theirs: &Document) -> Error {
        let (names, none) = (ours.keys().chain(theirs.keys()), Bson::Null);
        let setting = |name: &String| {
            let [theirs, ours] = [theirs, ours].map(|settings| settings.get(name).unwrap_or(&none));
            (theirs != ours).then(|| match name.as_str() {
                // It can hold user values.
                FILTER => format!("its `{name}` is another one"),
                _ => format!("its `{name}` is {theirs}, and that of this call {ours}"),
            })
        };
        let differences: Vec<String> = names.filter_map(setting).collect();
        let difference = differences.first().cloned().unwrap_or_default();
        Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "an unfinished migration into `{}` has other settings ({difference}), nothing was migrated: finish it with those, or drop the collection to start again",
                self.target.namespace()
            ),
        )
    }

    pub(super) async fn target_is_empty(&self, conn: &mut Conn<'_>) -> Result<bool> {
        let one = read_from(conn, self.target, any_document()).await?;
        Ok(number(&one, "n") == 0)
    }

    /// Checks a target that has documents, into which no unfinished migration writes.
    pub(super) async fn check_target(&self, finished: Option<Compared>, conn: &mut Conn<'_>) -> Result<()> {
        let not_empty = |message: String| Err(Error::new(ErrorKind::TargetNotEmpty, message));
        if !self.allow_non_empty_target {
            if let Some(Compared { keys, unequal, .. }) = finished.filter(|compared| compared.unequal > 0) {
                return not_empty(format!(
                    "the migration has finished, and {unequal} of {keys} keys have another number of items in the target now, nothing was migrated: add to the target what only the source has; or, if nothing else has written to the target, empty it, and migrate again"
                ));
            }
            let what = "the target has documents, nothing was migrated: empty it, or call allow_non_empty_target() if they are of other keys";
            return not_empty(what.into()).map_err(|error| error.with_remedy(Remedy::AllowNonEmptyTarget));
        }
        let in_both = self.compare(conn, Keys::Both).await?.keys;
        if in_both > 0 {
            return not_empty(format!(
                "{in_both} keys are in both collections, nothing was migrated: remove them from one"
            ));
        }
        match &self.direction {
            Direction::ToBuckets(form) => {
                // A key of another type can have the ids of a key of this type.
                let others = other_keys(&form.settings.key, form.expressions);
                match number(&read_from(conn, self.target, others).await?, "n") {
                    0 => Ok(()),
                    others => not_empty(format!(
                        "{others} documents of the target have a key of another type, nothing was migrated: migrate into another collection"
                    )),
                }
            }
            Direction::ToFlat(form) => {
                let taken = self.read(conn, form.taken_ids(self.target.name())).await?;
                match number(&taken, "n") {
                    0 => Ok(()),
                    _ => not_empty(
                        "items would have the `_id` of documents of the flat collection, nothing was migrated: migrate into another collection".into(),
                    ),
                }
            }
        }
    }

    async fn refuse_any(
        &self,
        conn: &mut Conn<'_>,
        stages: impl IntoIterator<Item = Document>,
        kind: ErrorKind,
        what: &str,
    ) -> Result<()> {
        let inspected = self.read(conn, stages).await?;
        refuse_one(&inspected, ("n", "one"), kind, "", what)
    }
}
