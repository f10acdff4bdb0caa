//! The way from embedded children to references: check, write, count.

use mongo_patterns_core::index::{IndexPlan, PlannedIndex};
use mongo_patterns_core::moves::{number, refuse};
use mongo_patterns_core::plan::aggregation;
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::{Error, ErrorKind, PlannedCommand, Result};
use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf, doc};

use super::run::{check_chunk, look, write, write_command};
use super::to_references::ToReferences;
use super::{Migrated, MigrationPlan};

/// A move of all children into a collection of their own.
pub(crate) struct Referencing<'a> {
    pub(crate) form: ToReferences<'a>,
    pub(crate) parents: &'a Collection<RawDocumentBuf>,
    pub(crate) target: &'a Collection<RawDocumentBuf>,
    /// About how many children become documents by one command.
    pub(crate) chunk_children: u64,
}

impl Referencing<'_> {
    /// Runs the checks, which only read, and lists what a move sends.
    pub(crate) async fn plan(&self) -> Result<MigrationPlan> {
        let (before, is_empty) = self.check().await?;
        let (form, parents, target) = (&self.form, self.parents.name(), self.target.name());
        let inspection = || aggregation(parents, form.inspection());
        let same = || aggregation(parents, form.same());
        let there = || aggregation(target, [doc! { "$count": "n" }]);
        let mut commands = vec![
            PlannedCommand::read("check the children", inspection()),
            PlannedCommand::read("check their ids", aggregation(parents, form.repeated_ids())),
            PlannedCommand::read("look whether there is something", aggregation(target, any())),
        ];
        if !is_empty {
            commands.push(PlannedCommand::read("compare it with the children", same()));
            commands.push(PlannedCommand::read("count it", there()));
        }
        commands.append(&mut self.index().ensure_commands(self.target).await?);
        let walk = form.walk(self.chunk_children);
        commands.push(PlannedCommand::read(
            "go through the parents",
            walk.find_command(parents),
        ));
        let mut chunks = walk.begin(self.parents).await?;
        while let Some(chunk) = chunks.next().await? {
            let transfer = write_command(self.parents, self.target, form.transfer(&chunk.ids));
            commands.push(PlannedCommand::write(
                "make documents of the children of a chunk",
                transfer,
            ));
        }
        commands.extend([
            PlannedCommand::read("count the children", inspection()),
            PlannedCommand::read("compare the documents with the children", same()),
            PlannedCommand::read("count the documents", there()),
        ]);
        Ok(MigrationPlan {
            children: number(&before, "children"),
            orphans: 0,
            commands,
        })
    }

    pub(crate) async fn run(&self, mut reporter: Reporter<'_>) -> Result<Migrated> {
        let (before, _) = self.check().await?;
        self.index().ensure(self.target).await?;
        reporter.begin(number(&before, "children"));
        let mut chunks = self.form.walk(self.chunk_children).begin(self.parents).await?;
        while let Some(chunk) = chunks.next().await? {
            write(self.parents, self.target, self.form.transfer(&chunk.ids)).await?;
            reporter.advance(chunk.weight);
        }

        let after = look(self.parents, self.form.inspection()).await?;
        let children = number(&after, "children");
        let (there, same) = self.compare().await?;
        if there == children && same == children && children == number(&before, "children") {
            return Ok(Migrated {
                parents: number(&after, "parents"),
                children,
                orphans: 0,
            });
        }
        Err(Error::new(
            ErrorKind::CountMismatch,
            format!(
                "of {children} children, {same} are among the {there} documents of the target: stop all writers to both collections, empty the target where children changed meanwhile, then move again"
            ),
        ))
    }

    /// All checks. Returns what the parents have, and whether the target is empty.
    async fn check(&self) -> Result<(Document, bool)> {
        check_chunk(self.chunk_children)?;
        let before = look(self.parents, self.form.inspection()).await?;
        self.check_parents(&before).await?;
        let is_empty = self.check_target().await?;
        Ok((before, is_empty))
    }

    /// By which the children of a parent are found.
    fn index(&self) -> IndexPlan {
        let reference = self.form.reference.as_str();
        let index = PlannedIndex::new(format!("{reference}_1"), doc! { reference: 1 });
        IndexPlan::new(self.target.name(), vec![index])
    }

    async fn check_parents(&self, found: &Document) -> Result<()> {
        let children = self.form.settings.children.as_str();
        let what = "parents have children that are no array, or no documents with a usable id: verify() tells more";
        refuse(found, "bad", ErrorKind::Corrupt, children, what)?;
        let what = "parents have children with a field of the name of the reference, and another value in it: choose another name";
        refuse(found, "other", ErrorKind::InvalidArgument, children, what)?;
        let repeated = look(self.parents, self.form.repeated_ids()).await?;
        let what = "`_id`s are those of several children, which could not be documents of one collection";
        refuse(&repeated, "bad", ErrorKind::InvalidItemId, children, what)
    }

    /// Returns whether it is empty.
    async fn check_target(&self) -> Result<bool> {
        let one = look(self.target, any()).await?;
        if number(&one, "n") == 0 {
            return Ok(true);
        }
        let (there, same) = self.compare().await?;
        if there == same {
            return Ok(false);
        }
        Err(Error::new(
            ErrorKind::TargetNotEmpty,
            format!(
                "the collection to move into has {} documents that are not the children, and nothing was moved: empty it, or move into another",
                there.saturating_sub(same)
            ),
        ))
    }

    /// How many documents the target has, and how many children are among them, exactly as they are to be.
    async fn compare(&self) -> Result<(u64, u64)> {
        let same = look(self.parents, self.form.same()).await?;
        let there = look(self.target, [doc! { "$count": "n" }]).await?;
        Ok((number(&there, "n"), number(&same, "n")))
    }
}

/// Counts the documents, up to one.
fn any() -> [Document; 2] {
    [doc! { "$limit": 1 }, doc! { "$count": "n" }]
}
