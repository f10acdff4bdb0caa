//! The way from embedded children to references: check, write, count.

use mongo_patterns_core::index::{IndexPlan, PlannedIndex};
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf, doc};

use super::Moved;
use super::run::{look, number, refuse, write};
use super::to_references::ToReferences;

/// A move of all children into a collection of their own.
pub(crate) struct Referencing<'a> {
    pub(crate) form: ToReferences<'a>,
    pub(crate) parents: &'a Collection<RawDocumentBuf>,
    pub(crate) target: &'a Collection<RawDocumentBuf>,
}

impl Referencing<'_> {
    pub(crate) async fn run(&self) -> Result<Moved> {
        let before = look(self.parents, self.form.inspection()).await?;
        self.check_parents(&before).await?;
        self.check_target().await?;
        let reference = self.form.reference.as_str();
        let index = PlannedIndex::new(format!("{reference}_1"), doc! { reference: 1 });
        let plan = IndexPlan::new(self.target.name(), vec![index]);
        plan.ensure(self.target, None).await?;
        write(self.parents, self.target, self.form.transfer()).await?;

        let after = look(self.parents, self.form.inspection()).await?;
        let children = number(&after, "children");
        let (there, same) = self.compare().await?;
        if there == children && same == children && children == number(&before, "children") {
            return Ok(Moved {
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

    async fn check_target(&self) -> Result<()> {
        let one = look(self.target, [doc! { "$limit": 1 }, doc! { "$count": "n" }]).await?;
        if number(&one, "n") == 0 {
            return Ok(());
        }
        let (there, same) = self.compare().await?;
        if there == same {
            return Ok(());
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
