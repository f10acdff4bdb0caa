//! Loads parents with their children, or children of existing parents, into the embedded pattern.

use mongo_patterns_core::Error;
use mongo_patterns_embedded::EmbeddedRepository;
use mongodb::bson::{Document, RawDocumentBuf};

use super::item::{Item, Prepared, Role, Shape, encode, remove};
use super::problem::Problem;
use super::store::{Store, Tally, one_by_one};
use super::to_flat::each;
use crate::failure::Failure;

type Parents = EmbeddedRepository<RawDocumentBuf, RawDocumentBuf>;

/// The fields of a child.
pub(crate) struct EmbeddedShape {
    owner: Role,
    child_id: Role,
}

impl EmbeddedShape {
    /// Each row is a child of the parent whose `_id` is in `owner`, without this field.
    pub(crate) fn new(owner: &str, child_id: &str) -> Self {
        let role = |field: &str, text| Role {
            field: field.to_owned(),
            text,
            of: None,
        };
        Self {
            owner: role(owner, "is the _id of the parent"),
            child_id: role(child_id, "identifies the child"),
        }
    }
}

impl Shape for EmbeddedShape {
    fn roles(&self) -> Vec<Role> {
        vec![self.owner.clone(), self.child_id.clone()]
    }

    fn prepare(&self, mut document: Document) -> Result<Prepared, Problem> {
        // The parent's _id and its array.
        const AROUND: usize = 50;
        let owner = remove(&mut document, &self.owner)?;
        if !document.contains_key(&self.child_id.field) {
            return Err(Problem::missing(&self.child_id.field, self.child_id.text));
        }
        Ok(Prepared {
            owner,
            body: encode(&document, AROUND)?.into(),
            has_id: true,
        })
    }
}

/// The target of parents.
pub(crate) struct EmbeddedParents(pub(crate) Parents);

impl Store for EmbeddedParents {
    const COMMANDS: [&'static str; 2] = ["embedded load", "embedded load --dry-run"];

    fn namespace(&self) -> String {
        self.0.collection().namespace().to_string()
    }

    fn advice(&self) -> &'static str {
        "give each parent an `_id`"
    }

    async fn begin(&self) -> Result<(), Failure> {
        Ok(())
    }

    fn batches(&self, items: Vec<Item>) -> Vec<Vec<Item>> {
        each(items)
    }

    async fn store(&self, items: &[Item]) -> Result<Tally, Error> {
        one_by_one(items, async |item| {
            self.0.insert(&item.document()).await?;
            Ok(Tally::of_row(true))
        })
        .await
    }
}

/// The target of children.
pub(crate) struct EmbeddedChildren(pub(crate) Parents);

impl Store for EmbeddedChildren {
    const COMMANDS: [&'static str; 2] = ["embedded load", "embedded load --dry-run"];

    fn namespace(&self) -> String {
        self.0.collection().namespace().to_string()
    }

    fn advice(&self) -> &'static str {
        "give each child an id"
    }

    async fn begin(&self) -> Result<(), Failure> {
        Ok(())
    }

    async fn store(&self, items: &[Item]) -> Result<Tally, Error> {
        one_by_one(items, async |item| {
            self.0.add_child(&item.owner, &item.document()).await?;
            Ok(Tally::of_row(true))
        })
        .await
    }
}
