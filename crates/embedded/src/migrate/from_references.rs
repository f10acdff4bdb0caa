//! From references to embedded children: the BSON, and the way.

use mongo_patterns_core::index::list_indexes;
use mongo_patterns_core::{Error, ErrorKind, FieldName, Result};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};

use super::Moved;
use super::run::{MAX_BYTES, count_if, look, number, refuse, write};
use crate::ids::CHILD_ID_TYPES;
use crate::settings::Settings;

/// A move of all children.
pub(crate) struct FromReferences<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) parents: &'a Collection<RawDocumentBuf>,
    pub(crate) source: &'a Collection<RawDocumentBuf>,
    /// The field of a child's document that holds the `_id` of its parent.
    pub(crate) reference: &'a FieldName,
    /// The field by which the children of a parent are ordered before their `_id`.
    pub(crate) sort: Option<&'a FieldName>,
}

impl FromReferences<'_> {
    pub(crate) async fn run(&self) -> Result<Moved> {
        self.check_index().await?;
        let before = look(self.source, self.inspection()).await?;
        self.check_source(&before).await?;
        self.check_parents().await?;
        write(self.parents, self.parents, self.transfer()).await?;

        let after = look(self.source, self.inspection()).await?;
        let parents = look(self.parents, self.totals()).await?;
        let moved = Moved {
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
        let reference = self.reference.as_str();
        let indexes = list_indexes(self.source, None).await?;
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
        let settings = self.settings;
        let (children, child_id) = (settings.children.as_str(), settings.child_id.as_str());
        let what = "children have no id, or one of a type that it cannot have";
        refuse(found, "bad", ErrorKind::InvalidItemId, child_id, what)?;
        let what = format!(
            "parents would have more than {} children: raise the bound, or use a pattern for longer lists",
            settings.max_children
        );
        refuse(found, "over", ErrorKind::Full, children, &what)?;
        let what = "parents would pass MongoDB's limit of 16 MiB with their children: use a pattern for longer lists";
        refuse(found, "large", ErrorKind::TooLarge, children, what)?;
        if child_id != "_id" {
            let found = look(self.source, self.repeated_ids()).await?;
            let what = "ids are those of several children of one parent";
            refuse(&found, "bad", ErrorKind::InvalidItemId, child_id, what)?;
        }
        Ok(())
    }

    async fn check_parents(&self) -> Result<()> {
        let found = look(self.parents, self.occupied()).await?;
        let children = self.settings.children.as_str();
        let what = "parents have something else than an array in the field of the children";
        refuse(&found, "bad", ErrorKind::Corrupt, children, what)?;
        let what = "parents have children already, and others than those that refer to them: remove either";
        refuse(&found, "occupied", ErrorKind::TargetNotEmpty, children, what)
    }

    /// Whether a parent has no children yet.
    fn is_open(&self) -> Document {
        let array = format!("${}", self.settings.children);
        doc! { "$or": [{ "$eq": [{ "$type": &array }, "missing"] }, { "$eq": [array, []] }] }
    }

    /// Gathers the children of a parent, as they are to be embedded, in a field `c`.
    ///
    /// The two fields find them by index. The expression alone would not, as soon as one reference is an array, and
    /// leaves out such, and a missing one that would be taken for null.
    fn gathered(&self) -> Document {
        let refers = doc! { "$eq": [format!("${}", self.reference), "$$parent"] };
        let mut sort = Document::new();
        if let Some(field) = self.sort {
            sort.insert(field.as_str(), 1);
        }
        sort.insert("_id", 1);
        doc! { "$lookup": {
            "from": self.source.name(),
            "localField": "_id",
            "foreignField": self.reference.as_str(),
            "let": { "parent": "$_id" },
            "pipeline": [
                { "$match": { "$expr": refers } },
                { "$sort": sort },
                { "$project": { self.reference.as_str(): 0 } },
            ],
            "as": "c",
        } }
    }

    /// Embeds the children of those parents that have none. A parent that got some in between keeps them, also when the
    /// server goes on with the command of a client that was killed.
    pub(crate) fn transfer(&self) -> [Document; 5] {
        let children = self.settings.children.as_str();
        let still = doc! { "$cond": [self.is_open(), format!("$$new.{children}"), format!("${children}")] };
        [
            doc! { "$match": { "$expr": self.is_open() } },
            doc! { "$project": { "_id": 1 } },
            self.gathered(),
            doc! { "$project": { "_id": 1, children: "$c" } },
            doc! { "$merge": {
                "into": self.parents.name(),
                "on": "_id",
                "whenMatched": [{ "$set": { children: still } }],
                "whenNotMatched": "discard",
            } },
        ]
    }

    /// The parents that have children, and others than the move would give them.
    fn occupied(&self) -> [Document; 5] {
        let array = format!("${}", self.settings.children);
        let mut group = doc! { "_id": null };
        count_if(&mut group, "bad", doc! { "$not": [{ "$isArray": "$a" }] }, 1, "$_id");
        count_if(&mut group, "occupied", doc! { "$isArray": "$a" }, 1, "$_id");
        [
            doc! { "$match": { "$expr": { "$not": [self.is_open()] } } },
            doc! { "$project": { "a": array } },
            self.gathered(),
            doc! { "$match": { "$expr": { "$ne": ["$a", "$c"] } } },
            doc! { "$group": group },
        ]
    }

    /// Looks up the parent that `_id.r` refers to, and tells by `has` whether there is one.
    fn parent_of_group(&self) -> [Document; 2] {
        [
            doc! { "$lookup": {
                "from": self.parents.name(), "localField": "_id.r", "foreignField": "_id", "as": "p",
            } },
            doc! { "$addFields": { "has": has_parent("$_id.r"), "p": { "$arrayElemAt": ["$p", 0] } } },
        ]
    }

    /// Counts the children and the orphans, and what cannot be moved.
    fn inspection(&self) -> Vec<Document> {
        let settings = self.settings;
        let array = format!("$p.{}", settings.children);
        let type_of_id = doc! { "$type": format!("${}", settings.child_id) };
        let bad = doc! { "$not": [{ "$in": [type_of_id, CHILD_ID_TYPES.to_vec()] }] };
        let mut by_parent = doc! {
            "_id": { "r": format!("${}", self.reference) },
            "n": { "$sum": 1 },
            "bytes": { "$sum": { "$bsonSize": "$$ROOT" } },
        };
        count_if(&mut by_parent, "bad", bad, 1, "$_id");
        let size = doc! { "$cond": [{ "$isArray": &array }, { "$size": &array }, 0] };
        // An element has a name, a place in the array, of up to ten bytes.
        let bytes = doc! { "$add": ["$bytes", { "$multiply": ["$n", 12] }, { "$bsonSize": "$p" }] };
        let has_and = |condition: Document| doc! { "$and": ["$has", condition] };
        let mut totals = doc! {
            "_id": null,
            "children": { "$sum": "$n" },
            "orphans": { "$sum": { "$cond": ["$has", 0, "$n"] } },
        };
        let count_bad = has_and(doc! { "$gt": ["$bad", 0] });
        count_if(&mut totals, "bad", count_bad, "$bad", "$badOne");
        let over = has_and(doc! { "$gt": ["$n", settings.max_bson()] });
        count_if(&mut totals, "over", over, 1, "$_id.r");
        let large = doc! { "$and": ["$has", { "$eq": [&size, 0] }, { "$gt": [bytes, MAX_BYTES] }] };
        count_if(&mut totals, "large", large, 1, "$_id.r");
        let unequal = has_and(doc! { "$ne": [&size, "$n"] });
        count_if(&mut totals, "unequal", unequal, 1, "$_id.r");
        let mut stages = vec![doc! { "$group": by_parent }];
        stages.extend(self.parent_of_group());
        stages.push(doc! { "$group": totals });
        stages
    }

    /// Counts the ids that several children of one parent have.
    fn repeated_ids(&self) -> Vec<Document> {
        let by_id = doc! {
            "_id": { "r": format!("${}", self.reference), "i": format!("${}", self.settings.child_id) },
            "n": { "$sum": 1 },
            "one": { "$max": "$_id" },
        };
        let mut totals = doc! { "_id": null };
        count_if(&mut totals, "bad", doc! { "$and": ["$has"] }, 1, "$one");
        let mut stages = vec![doc! { "$group": by_id }, doc! { "$match": { "n": { "$gt": 1 } } }];
        stages.extend(self.parent_of_group());
        stages.push(doc! { "$group": totals });
        stages
    }

    fn totals(&self) -> [Document; 1] {
        let array = format!("${}", self.settings.children);
        let is_array = doc! { "$isArray": &array };
        [doc! { "$group": {
            "_id": null,
            "parents": { "$sum": 1 },
            "children": { "$sum": { "$cond": [&is_array, { "$size": array }, 0] } },
            "without": { "$sum": { "$cond": [is_array, 0, 1] } },
        } }]
    }

    /// The documents that refer to no parent, as `_id` and reference.
    pub(crate) fn orphans(parents: &str, reference: &FieldName) -> [Document; 4] {
        [
            doc! { "$project": { "r": format!("${reference}") } },
            doc! { "$lookup": { "from": parents, "localField": "r", "foreignField": "_id", "as": "p" } },
            doc! { "$match": { "$expr": { "$not": [has_parent("$r")] } } },
            doc! { "$project": { "r": 1 } },
        ]
    }
}

/// Whether a parent was looked up in `p`, and rightly: a `$lookup` by fields takes a missing reference for null, and one
/// that is an array for each of its elements.
fn has_parent(reference: &str) -> Bson {
    doc! { "$and": [
        { "$ne": ["$p", []] },
        { "$not": [{ "$in": [{ "$type": reference }, ["missing", "array"]] }] },
    ] }
    .into()
}

/// Whether an index has every document in the order of the field, by the simple collation.
fn serves(index: &Document, field: &str) -> bool {
    const PARTIAL: [&str; 4] = ["partialFilterExpression", "sparse", "collation", "hidden"];
    let first = index.get_document("key").ok().and_then(|keys| keys.iter().next());
    let ordered = matches!(first, Some((name, Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_))) if name == field);
    ordered && !PARTIAL.iter().any(|option| index.contains_key(*option))
}
