//! From embedded children to references: the BSON, and the way.

use mongo_patterns_core::index::{IndexPlan, PlannedIndex};
use mongo_patterns_core::{Error, ErrorKind, FieldName, Result};
use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf, doc};

use super::Moved;
use super::run::{count_if, look, number, refuse, write};
use crate::ids::CHILD_ID_TYPES;
use crate::settings::Settings;

/// A move of all children, back.
pub(crate) struct ToReferences<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) parents: &'a Collection<RawDocumentBuf>,
    pub(crate) target: &'a Collection<RawDocumentBuf>,
    /// The field of a child's document that is to hold the `_id` of its parent.
    pub(crate) reference: &'a FieldName,
}

impl ToReferences<'_> {
    pub(crate) async fn run(&self) -> Result<Moved> {
        let before = look(self.parents, self.inspection()).await?;
        self.check_parents(&before).await?;
        self.check_target().await?;
        let reference = self.reference.as_str();
        let index = PlannedIndex::new(format!("{reference}_1"), doc! { reference: 1 });
        let plan = IndexPlan::new(self.target.name(), vec![index]);
        plan.ensure(self.target, None).await?;
        write(self.parents, self.target, self.transfer()).await?;

        let after = look(self.parents, self.inspection()).await?;
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
        let children = self.settings.children.as_str();
        let what = "parents have children that are no array, or no documents with a usable id: verify() tells more";
        refuse(found, "bad", ErrorKind::Corrupt, children, what)?;
        let what = "parents have children with a field of the name of the reference, and another value in it: choose another name";
        refuse(found, "other", ErrorKind::InvalidArgument, children, what)?;
        let repeated = look(self.parents, self.repeated_ids()).await?;
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
        let same = look(self.parents, self.same()).await?;
        let there = look(self.target, [doc! { "$count": "n" }]).await?;
        Ok((number(&there, "n"), number(&same, "n")))
    }

    /// A document for each child: `_id`, reference, and the fields of the child in their order. A child without an `_id`
    /// gets one that is always the same.
    fn documents(&self) -> Vec<Document> {
        let reference = self.reference.as_str();
        let own_id =
            doc! { reference: "$_id", self.settings.child_id.as_str(): format!("$c.{}", self.settings.child_id) };
        let first = doc! { "_id": own_id, reference: "$_id" };
        vec![
            doc! { "$project": { "c": format!("${}", self.settings.children) } },
            doc! { "$unwind": "$c" },
            // The reference comes once more, for a child that has it too, perhaps as another numeric type.
            doc! { "$replaceWith": { "$mergeObjects": [first, "$c", { reference: "$_id" }] } },
        ]
    }

    /// What is there stays, so it may run again, also while an earlier run of it still goes on at the server.
    fn transfer(&self) -> Vec<Document> {
        let mut stages = self.documents();
        stages.push(doc! { "$merge": {
            "into": self.target.name(),
            "on": "_id",
            // An empty pipeline, and not `keepExisting`: that takes a dot in a field's name for a path.
            "whenMatched": [],
            "whenNotMatched": "insert",
        } });
        stages
    }

    /// Counts the children that are in the target.
    fn same(&self) -> Vec<Document> {
        let mut stages = self.documents();
        stages.extend([
            doc! { "$project": { "_id": 0, "d": "$$ROOT" } },
            doc! { "$lookup": {
                "from": self.target.name(), "localField": "d._id", "foreignField": "_id", "as": "t",
            } },
            doc! { "$match": { "$expr": { "$eq": ["$t", ["$d"]] } } },
            doc! { "$count": "n" },
        ]);
        stages
    }

    fn repeated_ids(&self) -> Vec<Document> {
        let mut stages = self.documents();
        stages.extend([
            doc! { "$group": { "_id": "$_id", "n": { "$sum": 1 } } },
            doc! { "$match": { "n": { "$gt": 1 } } },
            doc! { "$count": "bad" },
        ]);
        stages
    }

    /// Counts parents and children, and what cannot be moved.
    fn inspection(&self) -> [Document; 1] {
        let Settings { children, child_id, .. } = self.settings;
        let array = format!("${children}");
        let is_array = doc! { "$isArray": &array };
        let in_child = format!("$$child.{}", self.reference);
        let has = |name: &str, types: &[&str]| doc! { "$in": [{ "$type": name }, types.to_vec()] };
        let any = |condition: Document| {
            let each = doc! { "$map": { "input": &array, "as": "child", "in": condition } };
            doc! { "$and": [&is_array, { "$anyElementTrue": [each] }] }
        };
        let sound =
            doc! { "$and": [has("$$child", &["object"]), has(&format!("$$child.{child_id}"), &CHILD_ID_TYPES)] };
        let no_array = doc! { "$not": [{ "$in": [{ "$type": &array }, ["array", "missing"]] }] };
        let bad = doc! { "$or": [no_array, any(doc! { "$not": [sound] })] };
        let other =
            any(doc! { "$and": [{ "$ne": [{ "$type": &in_child }, "missing"] }, { "$ne": [&in_child, "$_id"] }] });
        let mut group = doc! {
            "_id": null,
            "parents": { "$sum": 1 },
            "children": { "$sum": { "$cond": [&is_array, { "$size": &array }, 0] } },
        };
        count_if(&mut group, "bad", bad, 1, "$_id");
        count_if(&mut group, "other", other, 1, "$_id");
        [doc! { "$group": group }]
    }
}
