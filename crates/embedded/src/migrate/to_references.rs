//! The migration from embedded children to references: check, write, compare.

use mongo_patterns_core::catalog::Entry;
use mongo_patterns_core::index::{IndexPlan, PlannedIndex};
use mongo_patterns_core::migration::MigrateOptions;

use super::{read, read_written, write};
use crate::prelude::*;
use crate::query::to_references::{ToReferences, count, count_up_to_one};
use crate::results::Migrated;

/// The migration of all children into a collection of their own.
pub(crate) struct Migration<'a> {
    pub(crate) query: ToReferences<'a>,
    pub(crate) entry: Entry,
    pub(crate) parents: &'a Collection<RawDocumentBuf>,
    pub(crate) target: &'a Collection<RawDocumentBuf>,
    pub(crate) options: &'a MigrateOptions,
    /// About how many children become documents by one command.
    pub(crate) chunk: u64,
}

impl Migration<'_> {
    pub(crate) async fn execute(&self, conn: &mut Conn<'_>, mut reporter: Reporter<'_>) -> Result<Migrated> {
        let Self {
            query, parents, target, ..
        } = self;
        self.options.check_numbers()?;
        self.entry.check(conn).await?;
        let before = read(conn, "check the children", parents, query.inspection()).await?;
        let children = number(&before, "children");
        self.check_parents(conn, &before).await?;
        self.check_target(conn).await?;
        self.index().ensure(conn).await?;
        reporter.begin(children);
        let mut pace = self.options.pace();
        let walk = query.walk(self.chunk);
        let mut chunks = conn.chunks("walk through the parents", walk, parents).await?;
        while let Some(chunk) = chunks.next_chunk().await? {
            let transfer = query.transfer(&chunk.ids);
            write(
                conn,
                "write the children of a chunk as documents",
                parents,
                target,
                transfer,
            )
            .await?;
            conn.count_migrated(chunk.weight);
            reporter.advance(chunk.weight);
            pace.pause(conn, chunk.weight).await;
        }

        let after = read_written(conn, "count the children", parents, query.inspection()).await?;
        let purpose = "compare the documents with the children";
        let same = number(&read_written(conn, purpose, parents, query.same()).await?, "n");
        let documents = number(&read_written(conn, "count the documents", target, count()).await?, "n");
        let is_complete = documents == children && same == children && children == number(&after, "children");
        if is_complete || conn.is_plan() {
            return Ok(Migrated {
                parents: number(&before, "parents"),
                children,
                ..Migrated::default()
            });
        }
        Err(Error::new(
            ErrorKind::CountMismatch,
            format!(
                "of {} children, {same} are among the {documents} documents of the target: stop all writers to both collections, empty the target if children have changed, then migrate again",
                number(&after, "children")
            ),
        ))
    }

    /// The index by which the children of a parent are found.
    fn index(&self) -> IndexPlan {
        let reference = self.query.reference.as_str();
        let index = PlannedIndex::new(format!("{reference}_1"), doc! { reference: 1 });
        IndexPlan::new(self.target, vec![index])
    }

    async fn check_parents(&self, conn: &mut Conn<'_>, found: &Document) -> Result<()> {
        let children = self.query.settings.children.as_str();
        let what = "parents have children that are not an array, or not documents with a valid id: verify() lists them";
        refuse(found, "bad", ErrorKind::Corrupt, children, what)?;
        let what = "parents have children with another value in a field of the reference's name: use another name";
        refuse(found, "other", ErrorKind::InvalidArgument, children, what)?;
        let repeated = read(conn, "check their ids", self.parents, self.query.repeated_ids()).await?;
        let what = "`_id`s belong to several children, which cannot be documents of one collection";
        refuse(&repeated, "bad", ErrorKind::InvalidItemId, children, what)
    }

    /// The target must be empty, or hold nothing but these children, as after an interrupted migration.
    async fn check_target(&self, conn: &mut Conn<'_>) -> Result<()> {
        let purpose = "look for documents in the target";
        let one = read(conn, purpose, self.target, count_up_to_one()).await?;
        if number(&one, "n") == 0 {
            return Ok(());
        }
        let same = read(conn, "compare them with the children", self.parents, self.query.same()).await?;
        let documents = number(&read(conn, "count them", self.target, count()).await?, "n");
        let others = documents.saturating_sub(number(&same, "n"));
        if others == 0 {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::TargetNotEmpty,
            format!(
                "the target has {others} documents other than the children, and nothing was migrated: empty it, or use another collection"
            ),
        ))
    }
}
