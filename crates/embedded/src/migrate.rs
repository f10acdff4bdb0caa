//! The migration from references, where each child is a document that names its parent, to embedded children.
//!
//! # Design
//!
//! ## Why does the migration keep no record of its position?
//!
//! The data shows it: a parent with children is skipped. So an interrupted migration is simply run again.

use mongo_patterns_core::catalog::Entry;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::{CommandError, Remedy};
use mongo_patterns_core::index::serves;
use mongo_patterns_core::migration::{
    LOOKUP_TOO_LARGE, MigrateOptions, MigrationProgress, Step, explained, number, refuse, selecting,
};
use mongo_patterns_core::send::Rows;
use mongo_patterns_core::{Error, ErrorKind, FieldName, InvalidDocuments, Result, send};
use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::options::AggregateOptions;

use crate::query;
use crate::query::from_references::FromReferences;
use crate::results::Migrated;

/// The migration of all referring documents into their parents.
pub(crate) struct Migration<'a> {
    pub(crate) query: FromReferences<'a>,
    pub(crate) entry: Entry,
    pub(crate) parents: &'a Collection<RawDocumentBuf>,
    pub(crate) source: &'a Collection<RawDocumentBuf>,
    pub(crate) options: &'a MigrateOptions,
}

impl Migration<'_> {
    pub(crate) async fn migrate_all(
        &self,
        conn: &mut Conn<'_>,
        mut progress: MigrationProgress<'_>,
    ) -> Result<Migrated> {
        let Self {
            query, parents, source, ..
        } = self;
        self.options.check_selection(conn, source, parents).await?;
        let is_stored = self.entry.check(conn).await?;
        self.check_index(conn).await?;
        let before = read(conn, "check the references", source, query.inspection()).await?;
        let skipped = self.count_skipped(conn, &before).await?;
        self.check_source(conn, &before).await?;
        self.check_parents(conn).await?;
        if !is_stored {
            self.entry.store(conn).await?;
        }
        if let Some(list) = self.options.skip_list(source, parents) {
            let reason = doc! { "$literal": "child_id" };
            let invalid = selecting(query.invalid()).into_iter().collect();
            list.write(conn, invalid, reason.into()).await?;
        }
        let walk = query.walk(progress.chunk);
        if progress.reporter.is_asked() {
            let open = walk.filter.clone();
            progress
                .reporter
                .begin(Conn::new().count_documents(parents, open, None).await?);
        }
        let mut chunks = conn.chunks("walk through the parents", walk, parents).await?;
        while let Some(chunk) = chunks.next_chunk().await? {
            let transfer = query.transfer(&chunk.ids);
            let embed = Step::aggregate("embed the children of a chunk", parents, transfer);
            conn.write(embed.acknowledged_by(parents)).await.map_err(failed)?;
            progress.advance(conn, chunk.weight).await;
        }

        let after = read_written(conn, "count the references", source, query.inspection()).await?;
        let compared = read_written(conn, "compare the children", parents, query.incomplete()).await?;
        let embedded = read_written(conn, "count the children", parents, query.totals()).await?;
        if conn.is_plan() {
            return Ok(Migrated {
                // A migrated parent has the array, with children or without.
                documents: Conn::new().count_documents(parents, Document::new(), None).await?,
                children: number(&before, "children") - number(&before, "orphans"),
                orphans: number(&before, "orphans"),
                skipped,
                ..Migrated::default()
            });
        }
        let migrated = Migrated {
            documents: number(&embedded, "parents"),
            children: number(&embedded, "children"),
            orphans: number(&after, "orphans"),
            skipped,
        };
        let is_complete = number(&after, "unequal") == 0
            && number(&compared, "occupied") == 0
            && number(&embedded, "without") == 0
            && number(&after, "children") == number(&before, "children")
            && migrated.children + migrated.orphans == number(&after, "children");
        if is_complete {
            return Ok(migrated);
        }
        Err(Error::new(
            ErrorKind::CountMismatch,
            format!(
                "{} parents do not have the children that refer to them, and {} do not have the array: stop all writers to both collections, insert the children that only a parent has, with their reference, into the collection of the references, remove the array from these parents, then migrate again",
                number(&after, "unequal").max(number(&compared, "occupied")),
                number(&embedded, "without")
            ),
        ))
    }

    /// Counts the documents to skip. Refuses to skip everything, which a wrong setting causes.
    async fn count_skipped(&self, conn: &mut Conn<'_>, counts: &Document) -> Result<InvalidDocuments> {
        if self.options.skipped.is_none() {
            return Ok(InvalidDocuments::default());
        }
        let count = [doc! { "$match": self.query.invalid() }, doc! { "$count": "n" }];
        let skipped = number(
            &read(conn, "count the invalid children", self.source, count).await?,
            "n",
        );
        let invalid = InvalidDocuments::from_iter([("child_id", skipped)]);
        invalid.check_any_valid(number(counts, "children"), || {
            format!("all {skipped} children are without a valid id, nothing was migrated: check the name of the field")
        })?;
        Ok(invalid)
    }

    /// Without an index, the server would scan all children for each parent.
    async fn check_index(&self, conn: &mut Conn<'_>) -> Result<()> {
        let reference = self.query.reference.as_str();
        let indexes = conn
            .list_indexes("look for an index on the reference", self.source)
            .await?;
        if indexes.is_empty() || indexes.iter().any(|index| serves(index, reference)) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::IndexMissing,
            format!(
                "the collection of the references has no index on `{reference}`, nothing was migrated: create {{ {reference}: 1 }}"
            ),
        ))
    }

    async fn check_source(&self, conn: &mut Conn<'_>, counts: &Document) -> Result<()> {
        let settings = self.query.settings;
        let (children, child_id) = (settings.children.as_str(), settings.child_id.as_str());
        let what = "children have no id, or one of an invalid type";
        let of_child = |error: Error| error.of_collection(self.source);
        refuse(counts, "bad", ErrorKind::InvalidItemId, child_id, what)
            .map_err(|error| of_child(error).with_remedy(Remedy::SkipInvalid))?;
        let what = format!(
            "parents would have more than {} children: raise the bound, or use a pattern for longer lists",
            settings.max_children
        );
        refuse(counts, "over", ErrorKind::LimitReached, children, &what)?;
        let what = "parents would exceed MongoDB's limit of 16 MiB with their children: use a pattern for longer lists";
        refuse(counts, "large", ErrorKind::TooLarge, children, what)?;
        if child_id != "_id" {
            let purpose = "check the ids of the children";
            let counts = read(conn, purpose, self.source, self.query.repeated_ids()).await?;
            let what = "ids belong to several children of one parent";
            refuse(&counts, "bad", ErrorKind::InvalidItemId, child_id, what).map_err(of_child)?;
        }
        Ok(())
    }

    async fn check_parents(&self, conn: &mut Conn<'_>) -> Result<()> {
        let counts = read(conn, "check the parents", self.parents, self.query.occupied()).await?;
        let children = self.query.settings.children.as_str();
        let what = "parents have a value other than an array in the field of the children";
        refuse(&counts, "bad", ErrorKind::Corrupt, children, what)?;
        let version = self.query.settings.version();
        let what = format!(
            "parents have children that differ from those that refer to them, or are migrated to a subset: remove either, and the field `{version}`"
        );
        refuse(&counts, "occupied", ErrorKind::TargetNotEmpty, children, &what)
    }
}

/// Checks the collections and the name of the reference, without the server.
pub(crate) fn check_settings(
    parents: &Collection<RawDocumentBuf>,
    references: &Collection<RawDocumentBuf>,
    reference: String,
    child_id: &FieldName,
) -> Result<FieldName> {
    let refuse = |message: &'static str| Err(Error::new(ErrorKind::InvalidArgument, message));
    if parents.namespace().db != references.namespace().db {
        return refuse("the parents and the references are in two databases, nothing was sent: use one database");
    }
    if parents.name() == references.name() {
        return refuse("the parents and the references are one collection, nothing was sent: use two");
    }
    let reference = FieldName::new(reference)?;
    if reference == *child_id {
        return refuse("the reference has the name of the child's id, nothing was sent: use another field");
    }
    Ok(reference)
}

/// Aggregates on the primary, and compares ids by their bytes, also in a collection with another collation.
pub(crate) async fn aggregate(
    collection: &Collection<RawDocumentBuf>,
    stages: impl Into<Vec<Document>>,
    batch_size: Option<u32>,
) -> Result<Rows> {
    let options = AggregateOptions::builder()
        .allow_disk_use(true)
        .batch_size(batch_size)
        .collation(query::exact())
        .build();
    Ok(send::aggregate_rows(collection, stages, send::latest(options)).await?)
}

async fn read(
    conn: &mut Conn<'_>,
    purpose: &'static str,
    collection: &Collection<RawDocumentBuf>,
    stages: impl IntoIterator<Item = Document>,
) -> Result<Document> {
    let reply = conn.read(Step::aggregate(purpose, collection, stages)).await;
    Ok(reply.map_err(failed)?.first()?)
}

/// Does what [`read`] does, after the migration has written. A plan gets an empty document.
async fn read_written(
    conn: &mut Conn<'_>,
    purpose: &'static str,
    collection: &Collection<RawDocumentBuf>,
    stages: impl IntoIterator<Item = Document>,
) -> Result<Document> {
    let reply = conn.read_written(Step::aggregate(purpose, collection, stages)).await;
    Ok(reply.map_err(failed)?.unwrap_or_default().first()?)
}

fn failed(error: CommandError) -> Error {
    let too_large =
        "the children of a parent exceed MongoDB's limit of 16 MiB: embed fewer, or use a pattern for longer lists";
    explained(
        error,
        (LOOKUP_TOO_LARGE, ErrorKind::TooLarge, too_large),
        "a unique index that is not the pattern's refused a write: drop it, or correct the children, then migrate again",
    )
}
