//! The scan for stale parents, and for children without a parent. Without the indexes, that for children with the same id.

use mongo_patterns_core::index::FindDuplicates;
use mongo_patterns_core::send::Rows;

use super::finding::{Finding, Problem};
use crate::query::whole;
use crate::repository::prelude::*;

/// The maximum number of reads of a parent that other clients keep writing.
const MAX_READS: usize = 10;
/// The bytes of an empty document: the row of a correct parent.
const EMPTY: usize = 5;
/// The batch size of a scan with a progress callback.
const BATCH: u32 = 1000;

/// A scan of all parents, then of all children.
pub(crate) struct Scan<'a> {
    shared: &'a Shared,
    is_at_children: bool,
    /// Whether it scans the children after the parents.
    with_children: bool,
    rows: Option<Rows>,
    /// The search for children with the same id, if an index does not exist.
    duplicates: Option<FindDuplicates>,
    reporter: Reporter<'a>,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(shared: &'a Shared, reporter: Reporter<'a>) -> Self {
        Self {
            shared,
            is_at_children: false,
            with_children: true,
            rows: None,
            duplicates: None,
            reporter,
        }
    }

    /// Creates a scan of the parents only, over the rows of [`whole::stale`].
    pub(crate) fn of_parents(shared: &'a Shared, rows: Rows) -> Self {
        Self {
            with_children: false,
            rows: Some(rows),
            ..Self::new(shared, Reporter::default())
        }
    }

    /// Creates a scan of the children only, over the rows of [`whole::orphans`].
    pub(crate) fn of_children(shared: &'a Shared, rows: Rows) -> Self {
        Self {
            is_at_children: true,
            ..Self::of_parents(shared, rows)
        }
    }

    async fn row(&mut self) -> Result<Option<RawDocumentBuf>> {
        let rows = match &mut self.rows {
            Some(rows) => rows,
            None => {
                let rows = self.open().await?;
                self.rows.insert(rows)
            }
        };
        Ok(rows.try_next().await?)
    }

    async fn open(&mut self) -> Result<Rows> {
        let (parents, children) = (&self.shared.parents, &self.shared.children);
        let settings = &self.shared.settings;
        if self.is_at_children {
            let orphans = whole::orphans(settings, parents.name(), None);
            return aggregate(children, orphans, None).await;
        }
        if self.reporter.is_asked() {
            self.reporter.begin(send::estimated_count(parents).await?);
            let stale = whole::stale_with_progress(settings, children.name());
            return aggregate(parents, stale, Some(BATCH)).await;
        }
        let stale = whole::stale(settings, children.name(), None);
        aggregate(parents, stale, None).await
    }
}

impl mongo_patterns_core::verify::Scan for Scan<'_> {
    type Found = Finding;

    /// Returns the finding of the next row, which a second read has confirmed.
    async fn next(&mut self) -> Result<Option<Vec<Finding>>> {
        if self.rows.is_none() && !self.is_at_children && self.duplicates.is_none() {
            self.duplicates = self.shared.find_duplicates().await?;
        }
        if let Some(duplicates) = &mut self.duplicates {
            let found = duplicates.next_found().await?;
            let children = found.documents;
            let problem = Problem::DuplicateChildId { children };
            return Ok(Some(vec![Finding::of_duplicates(
                self.shared.parents.namespace(),
                found,
                problem,
            )]));
        }
        let Some(row) = self.row().await? else {
            if self.is_at_children || !self.with_children {
                return Ok(None);
            }
            self.is_at_children = true;
            self.rows = None;
            return Ok(Some(Vec::new()));
        };
        if self.is_at_children {
            return Ok(Some(orphans(self.shared, id_of(&row)).await?.into_iter().collect()));
        }
        self.reporter.advance(1);
        let finding = match row.as_bytes().len() {
            EMPTY => None,
            _ => stale(self.shared, id_of(&row), version_of(&row)).await?,
        };
        Ok(Some(finding.into_iter().collect()))
    }
}

/// Reads a parent again until two reads in sequence find it stale with the same version.
///
/// An aggregation does not read a parent and its children at one point in time. But if the version has changed since
/// the last read, the parent has been written from newer children.
async fn stale(shared: &Shared, parent: Bson, first_version: Bson) -> Result<Option<Finding>> {
    let mut version = first_version;
    for _ in 0..MAX_READS {
        let stale = whole::stale(&shared.settings, shared.children.name(), Some(&parent));
        let mut rows = aggregate(&shared.parents, stale, None).await?;
        let Some(row) = rows.try_next().await? else {
            return Ok(None);
        };
        let read = version_of(&row);
        if read == version {
            let mut finding = Finding::new(shared.parents.namespace(), parent, Problem::Stale);
            finding.fields = stale_subsets(&shared.settings, &row);
            return Ok(Some(finding));
        }
        version = read;
    }
    Ok(None)
}

async fn orphans(shared: &Shared, parent: Bson) -> Result<Option<Finding>> {
    let orphans = whole::orphans(&shared.settings, shared.parents.name(), Some(&parent));
    let mut rows = aggregate(&shared.children, orphans, None).await?;
    let row = rows.try_next().await?;
    Ok(row.map(|row| {
        let children = row.get("children").ok().flatten().and_then(stored_integer);
        let children = children.and_then(|children| children.try_into().ok()).unwrap_or(0);
        Finding::new(shared.parents.namespace(), parent, Problem::Orphaned { children })
    }))
}

/// Returns the fields of the stale subsets, by the row of a parent with several.
fn stale_subsets(settings: &Settings, row: &RawDocument) -> Vec<String> {
    let Ok(is_stale) = row.get_array(whole::STALE) else {
        return Vec::new();
    };
    let is_stale = is_stale
        .into_iter()
        .map(|value| matches!(value, Ok(RawBsonRef::Boolean(true))));
    let stale = settings.subset_fields().zip(is_stale).filter(|(_, is_stale)| *is_stale);
    stale.map(|(field, _)| field.as_str().to_owned()).collect()
}

async fn aggregate(
    collection: &Collection<RawDocumentBuf>,
    stages: Vec<Document>,
    batch_size: Option<u32>,
) -> Result<Rows> {
    Ok(send::aggregate_rows(collection, stages, options::scan(batch_size)).await?)
}

fn version_of(row: &RawDocument) -> Bson {
    value(row, "version").unwrap_or(Bson::Null)
}
