//! The way from references to embedded children: check, write, count.

use mongo_patterns_core::index::{list_indexes, serves};
use mongo_patterns_core::moves::{number, refuse};
use mongo_patterns_core::plan::{self, aggregation};
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::{Error, ErrorKind, PlannedCommand, Result};
use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf};

use super::from_references::FromReferences;
use super::run::{check_chunk, look, write, write_command};
use super::{Migrated, MigrationPlan};

/// A move of all children into their parents.
pub(crate) struct Embedding<'a> {
    pub(crate) form: FromReferences<'a>,
    pub(crate) parents: &'a Collection<RawDocumentBuf>,
    pub(crate) source: &'a Collection<RawDocumentBuf>,
    /// How many parents get their children by one command.
    pub(crate) chunk_parents: u64,
}

impl Embedding<'_> {
    /// All checks. Returns what the source has.
    async fn check(&self) -> Result<Document> {
        check_chunk(self.chunk_parents)?;
        self.check_index().await?;
        let before = look(self.source, self.form.inspection()).await?;
        self.check_source(&before).await?;
        self.check_parents().await?;
        Ok(before)
    }

    /// Runs the checks, which only read, and lists what a move sends.
    pub(crate) async fn plan(&self) -> Result<MigrationPlan> {
        let before = self.check().await?;
        let (form, parents, source) = (&self.form, self.parents.name(), self.source.name());
        let mut commands = vec![
            PlannedCommand::read("look for an index to go by", plan::list_indexes(source)),
            PlannedCommand::read("check the references", aggregation(source, form.inspection())),
        ];
        if form.settings.child_id.as_str() != "_id" {
            let repeated = aggregation(source, form.repeated_ids());
            commands.push(PlannedCommand::read("check the ids of the children", repeated));
        }
        let walk = form.walk(self.chunk_parents);
        commands.extend([
            PlannedCommand::read("check the parents", aggregation(parents, form.occupied())),
            PlannedCommand::read("go through the parents", walk.find_command(parents)),
        ]);
        let mut chunks = walk.begin(self.parents).await?;
        while let Some(chunk) = chunks.next().await? {
            let transfer = write_command(self.parents, self.parents, form.transfer(&chunk.ids));
            commands.push(PlannedCommand::write("embed the children of a chunk", transfer));
        }
        commands.extend([
            PlannedCommand::read("count the references", aggregation(source, form.inspection())),
            PlannedCommand::read("count the children", aggregation(parents, form.totals())),
        ]);
        Ok(MigrationPlan {
            children: number(&before, "children") - number(&before, "orphans"),
            orphans: number(&before, "orphans"),
            commands,
        })
    }

    pub(crate) async fn run(&self, mut reporter: Reporter<'_>) -> Result<Migrated> {
        let before = self.check().await?;
        if reporter.is_asked() {
            let open = self.form.walk(self.chunk_parents).filter;
            reporter.begin(self.parents.count_documents(open).await?);
        }
        let mut chunks = self.form.walk(self.chunk_parents).begin(self.parents).await?;
        while let Some(chunk) = chunks.next().await? {
            write(self.parents, self.parents, self.form.transfer(&chunk.ids)).await?;
            reporter.advance(chunk.weight);
        }

        let after = look(self.source, self.form.inspection()).await?;
        let parents = look(self.parents, self.form.totals()).await?;
        let moved = Migrated {
            parents: number(&parents, "parents"),
            children: number(&parents, "children"),
            orphans: number(&after, "orphans"),
        };
        let complete = number(&after, "unequal") == 0
            && number(&parents, "without") == 0
            && number(&after, "children") == number(&before, "children")
            && moved.children + moved.orphans == number(&after, "children");
        if complete {
            return Ok(moved);
        }
        Err(Error::new(
            ErrorKind::CountMismatch,
            format!(
                "{} parents do not have as many children as refer to them, and {} have no array: stop all writers to both collections, remove the array from parents whose references changed meanwhile, then move again",
                number(&after, "unequal"),
                number(&parents, "without")
            ),
        ))
    }

    /// Without an index, each parent would take a scan of all children.
    async fn check_index(&self) -> Result<()> {
        let reference = self.form.reference.as_str();
        let indexes = list_indexes(self.source).await?;
        if indexes.is_empty() || indexes.iter().any(|index| serves(index, reference)) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::IndexMissing,
            format!(
                "the collection of the references has no index on `{reference}`, by which the children of a parent are found, nothing was moved: create {{ {reference}: 1 }} there"
            ),
        ))
    }

    async fn check_source(&self, found: &Document) -> Result<()> {
        let settings = self.form.settings;
        let (children, child_id) = (settings.children.as_str(), settings.child_id.as_str());
        let what = "children have no id, or one of a type that it cannot have";
        refuse(found, "bad", ErrorKind::InvalidItemId, child_id, what)?;
        let what = format!(
            "parents would have more than {} children: raise the bound, or use a pattern for longer lists",
            settings.max_children
        );
        refuse(found, "over", ErrorKind::LimitReached, children, &what)?;
        let what = "parents would pass MongoDB's limit of 16 MiB with their children: use a pattern for longer lists";
        refuse(found, "large", ErrorKind::TooLarge, children, what)?;
        if child_id != "_id" {
            let found = look(self.source, self.form.repeated_ids()).await?;
            let what = "ids are those of several children of one parent";
            refuse(&found, "bad", ErrorKind::InvalidItemId, child_id, what)?;
        }
        Ok(())
    }

    async fn check_parents(&self) -> Result<()> {
        let found = look(self.parents, self.form.occupied()).await?;
        let children = self.form.settings.children.as_str();
        let what = "parents have something else than an array in the field of the children";
        refuse(&found, "bad", ErrorKind::Corrupt, children, what)?;
        let what = "parents have children already, and others than those that refer to them: remove either";
        refuse(&found, "occupied", ErrorKind::TargetNotEmpty, children, what)
    }
}
