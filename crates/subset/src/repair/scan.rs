//! Looks for parents whose subset is wrong, and for children without a parent.

use futures::TryStreamExt;
use mongo_patterns_core::Result;
use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::progress::{OnProgress, Reporter};
use mongodb::action::Aggregate;
use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf};
use mongodb::options::{ReadConcern, ReadPreference, SelectionCriteria};
use mongodb::{Collection, Cursor};

use crate::repository::Shared;
use crate::{Finding, Problem, query};

/// How often a parent that is written to all the time is looked at.
const LOOKS: usize = 10;
/// The bytes of a document without fields: a parent that is right.
const EMPTY: usize = 5;

/// How many parents the server looks at between two answers, where somebody wants to know how far it is.
const BATCH: u32 = 1000;

/// A walk through all parents, and then through all children.
pub(crate) struct Scan<'a> {
    shared: &'a Shared,
    /// Whether it is at the children.
    at_children: bool,
    /// Whether it goes on to them.
    with_children: bool,
    cursor: Option<Cursor<RawDocumentBuf>>,
    reporter: Reporter<'a>,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(shared: &'a Shared, on_progress: Option<OnProgress<'a>>) -> Self {
        Self {
            with_children: true,
            reporter: Reporter::new(on_progress),
            ..Self::of_parents(shared)
        }
    }

    /// A walk through all parents alone.
    pub(crate) fn of_parents(shared: &'a Shared) -> Self {
        Self {
            shared,
            at_children: false,
            with_children: false,
            cursor: None,
            reporter: Reporter::default(),
        }
    }

    /// A walk through all children alone.
    pub(crate) fn of_children(shared: &'a Shared) -> Self {
        Self {
            at_children: true,
            ..Self::of_parents(shared)
        }
    }

    /// The next thing that is wrong, also when one looks again.
    pub(crate) async fn next(&mut self) -> Result<Option<Finding>> {
        loop {
            let Some(row) = self.row().await? else {
                if self.at_children || !self.with_children {
                    return Ok(None);
                }
                self.at_children = true;
                self.cursor = None;
                continue;
            };
            if !self.at_children {
                self.reporter.advance(1);
                if row.as_bytes().len() == EMPTY {
                    continue;
                }
            }
            let parent = value(&row, "_id");
            let problem = if self.at_children {
                orphans(self.shared, &parent).await?
            } else {
                is_stale(self.shared, &parent, value(&row, "version"))
                    .await?
                    .then_some(Problem::Stale)
            };
            if let Some(problem) = problem {
                let parent_id = parent;
                return Ok(Some(Finding { parent_id, problem }));
            }
        }
    }

    async fn row(&mut self) -> Result<Option<RawDocumentBuf>> {
        let Shared {
            parents,
            children,
            settings,
            ..
        } = self.shared;
        let cursor = match &mut self.cursor {
            Some(cursor) => cursor,
            None if self.at_children => {
                let orphans = query::orphans(settings, parents.name(), None);
                self.cursor.insert(look(self.shared, true, orphans).await?)
            }
            None => {
                self.shared.check_indexes().await?;
                if self.reporter.is_asked() {
                    self.reporter.begin(parents.estimated_document_count().await?);
                    let each = query::stale_and_right(settings, children.name());
                    let rows = aggregate(parents, each).batch_size(BATCH);
                    self.cursor.insert(rows.with_type::<RawDocumentBuf>().await?)
                } else {
                    let stale = query::stale(settings, children.name(), None);
                    self.cursor.insert(look(self.shared, false, stale).await?)
                }
            }
        };
        Ok(cursor.try_next().await?)
    }
}

/// Whether the subset is wrong in two looks that follow each other, with the same version. Parent and children are
/// not seen at one moment; but where the version has changed in between, the parent has been written from what its
/// children were, and must be looked at anew.
async fn is_stale(shared: &Shared, parent: &Bson, first: Bson) -> Result<bool> {
    let Shared { children, settings, .. } = shared;
    let mut version = first;
    for _ in 0..LOOKS {
        let stale = query::stale(settings, children.name(), Some(parent));
        let Some(row) = look(shared, false, stale).await?.try_next().await? else {
            return Ok(false);
        };
        let again = value(&row, "version");
        if again == version {
            return Ok(true);
        }
        version = again;
    }
    Ok(false)
}

async fn orphans(shared: &Shared, parent: &Bson) -> Result<Option<Problem>> {
    let Shared { parents, settings, .. } = shared;
    let orphans = query::orphans(settings, parents.name(), Some(parent));
    let row = look(shared, true, orphans).await?.try_next().await?;
    let children = |row: &RawDocument| {
        let children = row.get("children").ok().flatten().and_then(stored_integer);
        children.and_then(|children| children.try_into().ok()).unwrap_or(0)
    };
    Ok(row.map(|row| Problem::Orphaned {
        children: children(&row),
    }))
}

async fn look(
    shared: &Shared,
    at_children: bool,
    stages: Vec<Document>,
) -> mongodb::error::Result<Cursor<RawDocumentBuf>> {
    let collection = if at_children { &shared.children } else { &shared.parents };
    aggregate(collection, stages).with_type::<RawDocumentBuf>().await
}

fn aggregate(collection: &Collection<RawDocumentBuf>, stages: Vec<Document>) -> Aggregate<'_> {
    let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
    let aggregate = collection.aggregate(stages).allow_disk_use(true);
    aggregate.selection_criteria(primary).read_concern(ReadConcern::local())
}

fn value(row: &RawDocument, field: &str) -> Bson {
    let value: Option<RawBsonRef<'_>> = row.get(field).ok().flatten();
    value.and_then(|value| Bson::try_from(value).ok()).unwrap_or(Bson::Null)
}
