//! The migration from references to embedded children: check, write, compare.

use mongo_patterns_core::catalog::Entry;
use mongo_patterns_core::index::serves;

use super::{read, read_written, write};
use crate::prelude::*;
use crate::query::from_references::FromReferences;
use crate::results::Migrated;

/// The migration of all referring documents into their parents.
pub(crate) struct Migration<'a> {
    pub(crate) query: FromReferences<'a>,
    pub(crate) entry: Entry,
    pub(crate) parents: &'a Collection<RawDocumentBuf>,
    pub(crate) source: &'a Collection<RawDocumentBuf>,
    /// How many parents get their children by one command.
    pub(crate) chunk_parents: u64,
}

impl Migration<'_> {
    pub(crate) async fn execute(&self, steps: &mut Steps<'_, '_>, mut reporter: Reporter<'_>) -> Result<Migrated> {
        let Self {
            query, parents, source, ..
        } = self;
        check_chunk_size(self.chunk_parents)?;
        let is_stored = self.entry.check(steps).await?;
        self.check_index(steps).await?;
        let before = read(steps, "check the references", source, query.inspection()).await?;
        self.check_source(steps, &before).await?;
        self.check_parents(steps).await?;
        if !is_stored {
            self.entry.store(steps).await?;
        }
        if reporter.is_asked() {
            let open = query.walk(self.chunk_parents).filter;
            reporter.begin(parents.count_documents(open).await.map_err(CommandError::of_read)?);
        }
        let walk = query.walk(self.chunk_parents);
        let mut chunks = steps.chunks("walk through the parents", walk, parents).await?;
        while let Some(chunk) = chunks.next().await? {
            let transfer = query.transfer(&chunk.ids);
            write(steps, "embed the children of a chunk", parents, parents, transfer).await?;
            reporter.advance(chunk.weight);
        }

        let after = read_written(steps, "count the references", source, query.inspection()).await?;
        let embedded = read_written(steps, "count the children", parents, query.totals()).await?;
        if steps.is_plan() {
            return Ok(Migrated {
                children: number(&before, "children") - number(&before, "orphans"),
                orphans: number(&before, "orphans"),
                ..Migrated::default()
            });
        }
        let migrated = Migrated {
            parents: number(&embedded, "parents"),
            children: number(&embedded, "children"),
            orphans: number(&after, "orphans"),
        };
        let is_complete = number(&after, "unequal") == 0
            && number(&embedded, "without") == 0
            && number(&after, "children") == number(&before, "children")
            && migrated.children + migrated.orphans == number(&after, "children");
        if is_complete {
            return Ok(migrated);
        }
        Err(Error::new(
            ErrorKind::CountMismatch,
            format!(
                "{} parents do not have as many children as refer to them, and {} do not have the array: stop all writers to both collections, remove the array from parents whose references changed, then migrate again",
                number(&after, "unequal"),
                number(&embedded, "without")
            ),
        ))
    }

    /// Without an index, the server would scan all children for each parent.
    async fn check_index(&self, steps: &mut Steps<'_, '_>) -> Result<()> {
        let reference = self.query.reference.as_str();
        let indexes = steps
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

    async fn check_source(&self, steps: &mut Steps<'_, '_>, found: &Document) -> Result<()> {
        let settings = self.query.settings;
        let (children, child_id) = (settings.children.as_str(), settings.child_id.as_str());
        let what = "children have no id, or one of an invalid type";
        refuse(found, "bad", ErrorKind::InvalidItemId, child_id, what)?;
        let what = format!(
            "parents would have more than {} children: raise the bound, or use a pattern for longer lists",
            settings.max_children
        );
        refuse(found, "over", ErrorKind::LimitReached, children, &what)?;
        let what = "parents would exceed MongoDB's limit of 16 MiB with their children: use a pattern for longer lists";
        refuse(found, "large", ErrorKind::TooLarge, children, what)?;
        if child_id != "_id" {
            let purpose = "check the ids of the children";
            let found = read(steps, purpose, self.source, self.query.repeated_ids()).await?;
            let what = "ids belong to several children of one parent";
            refuse(&found, "bad", ErrorKind::InvalidItemId, child_id, what)?;
        }
        Ok(())
    }

    async fn check_parents(&self, steps: &mut Steps<'_, '_>) -> Result<()> {
        let found = read(steps, "check the parents", self.parents, self.query.occupied()).await?;
        let children = self.query.settings.children.as_str();
        let what = "parents have a value other than an array in the field of the children";
        refuse(&found, "bad", ErrorKind::Corrupt, children, what)?;
        let what = "parents have children that differ from those that refer to them: remove either";
        refuse(&found, "occupied", ErrorKind::TargetNotEmpty, children, what)
    }
}
