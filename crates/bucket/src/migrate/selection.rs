//! The documents of the source that a migration reads: the valid documents of its filter.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::migration::{and, check_filter, number, selecting};
use mongo_patterns_core::{Error, ErrorKind, FoundInvalid, InvalidDocuments, Result};
use mongodb::bson::{Document, doc};

use crate::migrate::migration::{Direction, Migration, failed};
use crate::query::to_buckets::ToBuckets;

impl Migration<'_> {
    /// Returns the filter of the documents to migrate.
    pub(super) fn selected(&self) -> Document {
        let filter = self.options.filter.clone();
        match &self.direction {
            Direction::ToBuckets(form) if self.options.skipped.is_some() => and(filter, form.valid()),
            _ => filter,
        }
    }

    /// Counts the valid documents of the filter, and the others by their reason.
    pub(super) async fn inspect_invalid(
        &self,
        conn: &mut Conn<'_>,
        form: &ToBuckets<'_>,
    ) -> Result<(Document, InvalidDocuments)> {
        let stages = form.inspection_of_invalid();
        let found = self.read_given(conn, stages).await?;
        let invalid = invalid_in(&found);
        Ok((found, invalid))
    }

    /// Finds the documents that cannot be migrated, in all documents or in a sample.
    pub(crate) async fn find_invalid(&self, sample: Option<u32>) -> Result<FoundInvalid> {
        let conn = &mut Conn::new();
        let Direction::ToBuckets(form) = &self.direction else {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "buckets are checked by verify()",
            ));
        };
        let filter = &self.options.filter;
        check_filter(conn, self.source, filter).await?;
        let sample = sample.map(|size| doc! { "$sample": { "size": i64::from(size) } });
        let stages = sample.into_iter().chain(form.inspection_of_invalid());
        let found = self.read_given(conn, stages).await?;
        let checked = number(&found, "documents");
        Ok(FoundInvalid::new(
            checked,
            invalid_in(&found),
            and(filter.clone(), form.invalid()),
        ))
    }

    /// Counts the documents that a finished migration has skipped.
    pub(super) async fn count_skipped(&self, conn: &mut Conn<'_>) -> Result<InvalidDocuments> {
        match (&self.direction, &self.options.skipped) {
            (Direction::ToBuckets(form), Some(_)) => Ok(self.inspect_invalid(conn, form).await?.1),
            _ => Ok(InvalidDocuments::default()),
        }
    }

    /// Lists the documents that the migration skips.
    pub(super) async fn list_skipped(&self, conn: &mut Conn<'_>) -> Result<()> {
        let list = self.options.skip_list(self.source, self.target);
        let (Some(list), Direction::ToBuckets(form)) = (list, &self.direction) else {
            return Ok(());
        };
        let invalid = and(self.options.filter.clone(), form.invalid());
        list.write(conn, selecting(invalid).into_iter().collect(), form.reason())
            .await
            .map_err(failed)
    }
}

/// Reads the numbers that an inspection counted.
fn invalid_in(found: &Document) -> InvalidDocuments {
    let reasons = [
        ("key", "keys"),
        ("time", "times"),
        ("item_id", "ids"),
        ("figure", "figures"),
    ];
    let numbers = reasons.map(|(reason, field)| (reason, number(found, field)));
    numbers.into_iter().collect()
}

/// Refuses to skip everything, which a wrong setting causes.
pub(super) fn check_any_valid(total: u64, invalid: &InvalidDocuments) -> Result<()> {
    let of = |reason| invalid.get(reason).unwrap_or_default();
    let [keys, times, item_ids, figures] = ["key", "time", "item_id", "figure"].map(of);
    invalid.check_any_valid(total, || {
        format!(
            "all documents are invalid ({keys} by their key, {times} by their time, {item_ids} by their item id, {figures} by a value with figures), nothing was migrated: check the names of the fields and the type of the key"
        )
    })
}
