//! Loads children of the subset pattern.

use std::collections::HashSet;

use futures::{StreamExt, TryStreamExt, stream};
use mongo_patterns_core::{Error, ErrorKind};
use mongo_patterns_subset::SubsetRepository;
use mongodb::bson::{Bson, Document, RawDocumentBuf};

use super::item::{Item, Prepared, Role, Shape, encode};
use super::problem::Problem;
use super::store::{Store, Tally, by_owner, one_by_one};
use crate::failure::Failure;

/// The children of a command, and their bytes. It can be a transaction, which the server ends after 60 seconds.
const BATCH: usize = 500;
const BATCH_BYTES: usize = 8 * 1024 * 1024;
/// The concurrent reads of children that may be stored.
const READS: usize = 16;

type Parents = SubsetRepository<Document, RawDocumentBuf>;

/// The fields of a child.
pub(crate) struct ChildShape {
    parent: Role,
    child_id: Role,
}

impl ChildShape {
    pub(crate) fn new(parent: &str, child_id: &str) -> Self {
        let role = |field: &str, text| Role {
            field: field.to_owned(),
            text,
            of: None,
        };
        Self {
            parent: role(parent, "is the _id of the parent"),
            child_id: role(child_id, "identifies the child"),
        }
    }
}

impl Shape for ChildShape {
    fn roles(&self) -> Vec<Role> {
        vec![self.parent.clone(), self.child_id.clone()]
    }

    fn prepare(&self, document: Document) -> Result<Prepared, Problem> {
        const ID_BYTES: usize = 17;
        let value = |role: &Role| match document.get(&role.field) {
            None | Some(Bson::Null) => Err(Problem::missing(&role.field, role.text)),
            Some(value) => Ok(value.clone()),
        };
        let owner = value(&self.parent)?;
        value(&self.child_id)?;
        Ok(Prepared {
            owner,
            body: encode(&document, ID_BYTES)?.into(),
            has_id: true,
        })
    }
}

/// The target of children.
pub(crate) struct Children {
    pub(crate) parents: Parents,
    pub(crate) child_id: String,
}

impl Children {
    async fn insert(&self, items: impl IntoIterator<Item = &Item>) -> Result<Tally, Error> {
        let children: Vec<RawDocumentBuf> = items.into_iter().map(Item::document).collect();
        let inserted = self.parents.insert_many(&children).await?;
        Ok(Tally {
            items: inserted.children,
            ..Tally::default()
        })
    }

    /// Returns whether a child is stored.
    async fn is_stored(&self, item: &Item) -> Result<bool, Error> {
        let id = item.document().get(&self.child_id).ok().flatten().map(Bson::try_from);
        let Some(Ok(id)) = id else {
            return Ok(false);
        };
        Ok(self.parents.child(&item.owner, id).await?.is_some())
    }
}

impl Store for Children {
    const COMMANDS: [&'static str; 2] = ["subset load", "subset load --dry-run"];

    fn namespace(&self) -> String {
        self.parents.children_collection().namespace().to_string()
    }

    fn advice(&self) -> &'static str {
        "give each child an id"
    }

    async fn begin(&self) -> Result<(), Failure> {
        self.parents.ensure_indexes().await?;
        Ok(())
    }

    /// Packs parents with all their children. A transaction of a batch conflicts with no other batch, because no two have
    /// the same parent.
    fn batches(&self, items: Vec<Item>) -> Vec<Vec<Item>> {
        let mut batches: Vec<Vec<Item>> = Vec::new();
        for group in by_owner(items) {
            match batches.last_mut() {
                Some(batch) if batch.len() + group.len() <= BATCH => batch.extend(group),
                _ => batches.push(group),
            }
        }
        batches
    }

    /// The library refuses a batch with a child that is stored. Then the batch is stored without such children.
    async fn store(&self, items: &[Item]) -> Result<Tally, Error> {
        let mut bytes = 0;
        let fits = items.iter().take(BATCH).take_while(|item| {
            let is_first = bytes == 0;
            bytes += item.bytes();
            is_first || bytes <= BATCH_BYTES
        });
        let items = &items[..fits.count()];
        let is_known = |error: &Error| error.kind() == ErrorKind::AlreadyExists;
        // Without transactions, the rows before the refused one are stored.
        let stored_count = |error: &Error| usize::try_from(error.stored_count().unwrap_or(0)).unwrap_or(usize::MAX);
        let before = match self.insert(items).await {
            Err(error) if is_known(&error) => stored_count(&error),
            ended => return ended,
        };
        if items.len() == 1 {
            return Ok(Tally::of_row(false));
        }
        let reads = stream::iter(items).map(|item| self.is_stored(item)).buffered(READS);
        let stored: Vec<bool> = reads.try_collect().await?;
        let missing: Vec<&Item> = items
            .iter()
            .zip(&stored)
            .filter(|(_, stored)| !**stored)
            .map(|(item, _)| item)
            .collect();
        let error = match self.insert(missing.iter().copied()).await {
            Ok(tally) => {
                return Ok(Tally {
                    items: tally.items + before as u64,
                    stored_before: (items.len() - missing.len() - before) as u64,
                    ..tally
                });
            }
            Err(error) => error,
        };
        if !is_known(&error) && Problem::of_row(&error).is_none() {
            return Err(error.with_stored(0));
        }
        // A child is in the file twice, or was stored concurrently, or has another problem.
        let missing = missing.into_iter().take(stored_count(&error));
        let new: HashSet<u64> = items.iter().take(before).chain(missing).map(|item| item.line).collect();
        one_by_one(items, async |item| match new.contains(&item.line) {
            true => Ok(Tally::of_row(true)),
            false => self.insert([item]).await,
        })
        .await
    }
}
