//! The record of the applied steps: one document in the catalog, which only the holder of the lease writes.

use mongo_patterns_core::catalog::{COLLECTION, catalog_of};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::lost_race;
use mongo_patterns_core::lease::Lease;
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, doc};
use mongodb::options::{FindOneAndUpdateOptions, FindOptions, ReadConcern, ReturnDocument, WriteConcern};
use mongodb::{Collection, Database};

use super::results::AppliedStep;

/// The record of a list of migrations.
#[derive(Clone)]
pub(crate) struct Record {
    pub(crate) catalog: Collection<RawDocumentBuf>,
    id: Document,
}

/// What the catalog has of a list.
#[derive(Default)]
pub(crate) struct Stored {
    /// The applied steps, in their order.
    pub(crate) steps: Vec<AppliedStep>,
    /// Since when an instance has the lease.
    pub(crate) running_since: Option<DateTime>,
    /// The step whose outcome is unknown, if the lease's instance failed in one.
    pub(crate) failed: Option<String>,
}

impl Record {
    pub(crate) fn of(database: &Database, list: &str) -> Self {
        Self {
            catalog: catalog_of(&database.collection(COLLECTION), Some(WriteConcern::majority())),
            id: doc! { "kind": "steps", "name": list },
        }
    }

    /// Reads the record and the lease. What it returns is not rolled back by a failover.
    pub(crate) async fn read(&self, lease: &Lease) -> Result<Stored> {
        let ids = doc! { "_id": { "$in": [&self.id, lease.id()] } };
        let options = FindOptions::builder()
            .read_concern(ReadConcern::majority())
            .projection(
                doc! { "steps": 1, "since": 1, "fence": 1, "failed": 1, "isHeld": { "$gt": ["$until", "$$NOW"] } },
            )
            .build();
        let (mut stored, mut held, mut failed) = (Stored::default(), None, None);
        for found in Conn::new().find_all(&self.catalog, ids, options).await? {
            let found = document(&found)?;
            if found.get_document("_id").ok() == Some(&self.id) {
                stored.steps = self.steps(&found)?;
                failed = Some((
                    found.get_i64("fence").ok(),
                    found.get_str("failed").ok().map(str::to_owned),
                ));
            } else if found.get_bool("isHeld").unwrap_or(false) {
                stored.running_since = found.get_datetime("since").ok().copied();
                held = found.get_i64("fence").ok();
            }
        }
        // Not of an instance before the one that has the lease.
        let of_holder = failed.filter(|(fence, _)| held.is_some() && *fence == held);
        stored.failed = of_holder.and_then(|(_, failed)| failed);
        Ok(stored)
    }

    /// Refuses the writes of all holders of the lease before this one. Returns the steps that they have applied.
    pub(crate) async fn claim(&self, fence: i64) -> Result<Vec<AppliedStep>> {
        let options = FindOneAndUpdateOptions::builder()
            .upsert(true)
            .return_document(ReturnDocument::After)
            .build();
        let (mut conn, filter) = (Conn::new(), doc! { "_id": &self.id });
        let claim = conn.find_one_and_update(&self.catalog, filter, vec![claim(fence)], options);
        let claimed = document(&claim.await.map_err(lost_race)?.unwrap_or_default())?;
        match claimed.get_i64("fence") {
            Ok(stored) if stored == fence => self.steps(&claimed),
            _ => Err(lost()),
        }
    }

    /// Adds an applied step, as the holder with this fence.
    pub(crate) async fn add(&self, conn: &mut Conn<'_>, fence: i64, step: &str) -> Result<()> {
        self.change(
            conn,
            fence,
            add(doc! { "name": { "$literal": step }, "applied": "$$NOW" }),
        )
        .await
    }

    /// Adds a step that somebody has applied by hand.
    pub(crate) async fn mark(&self, fence: i64, step: &str, by: &str) -> Result<()> {
        let step = doc! { "name": { "$literal": step }, "applied": "$$NOW", "by": { "$literal": by } };
        self.change(&mut Conn::new(), fence, add(step)).await
    }

    /// Removes a step that somebody wants to run again.
    pub(crate) async fn unmark(&self, fence: i64, step: &str, by: &str) -> Result<()> {
        self.change(&mut Conn::new(), fence, unmark(step, by)).await
    }

    async fn change(&self, conn: &mut Conn<'_>, fence: i64, stage: Document) -> Result<()> {
        let filter = doc! { "_id": &self.id, "fence": fence };
        let changed = conn.update_one(&self.catalog, filter, vec![stage], None).await?;
        match changed.matched_count {
            0 => Err(lost()),
            _ => Ok(()),
        }
    }

    /// Records that this step failed with an unknown outcome, for those that wait.
    pub(crate) async fn fail(&self, fence: i64, step: &str) -> Result<()> {
        let filter = doc! { "_id": &self.id, "fence": fence };
        let failed = doc! { "$set": { "failed": step } };
        Conn::new().update_one(&self.catalog, filter, failed, None).await?;
        Ok(())
    }

    fn steps(&self, record: &Document) -> Result<Vec<AppliedStep>> {
        let steps = record.get_array("steps").map_err(|_| self.corrupt())?;
        steps
            .iter()
            .map(|step| AppliedStep::of(step).ok_or_else(|| self.corrupt()))
            .collect()
    }

    fn corrupt(&self) -> Error {
        let text = "the record of the applied steps is damaged, nothing was run: each step needs a text `name` and a date `applied`; correct it, or restore it from a backup";
        Error::corrupt(self.id.clone().into(), "steps", text)
    }
}

fn document(raw: &RawDocumentBuf) -> Result<Document> {
    Ok(Document::try_from(raw.as_ref()).map_err(mongodb::error::Error::from)?)
}

/// The error of a holder that has lost the lease.
pub(crate) fn lost() -> Error {
    Error::new(
        ErrorKind::Contention,
        "this instance has lost its lease, because it was paused or the server did not answer in time, and has not recorded the step: call run() again, which waits for the instance that has the lease now; if this repeats, set a longer time_to_live(..)",
    )
}

fn claim(fence: i64) -> Document {
    doc! { "$set": {
        "fence": { "$max": ["$fence", fence] },
        "failed": { "$cond": [{ "$gt": [fence, "$fence"] }, "$$REMOVE", "$failed"] },
        "steps": { "$ifNull": ["$steps", []] },
    } }
}

fn add(step: Document) -> Document {
    doc! { "$set": { "steps": { "$concatArrays": ["$steps", [Bson::from(step)]] } } }
}

fn unmark(step: &str, by: &str) -> Document {
    let unmarked = doc! { "name": { "$literal": step }, "by": { "$literal": by }, "at": "$$NOW" };
    let others = doc! { "$ne": ["$$this.name", { "$literal": step }] };
    let all = doc! { "$concatArrays": [{ "$ifNull": ["$unmarked", []] }, [unmarked]] };
    doc! { "$set": {
        "steps": { "$filter": { "input": "$steps", "cond": others } },
        "unmarked": { "$slice": [all, -100] },
    } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_value_and_no_expression() {
        let step = doc! { "name": { "$literal": "$$ROOT" } };
        assert_eq!(
            add(step.clone()),
            doc! { "$set": { "steps": { "$concatArrays": ["$steps", [step]] } } }
        );
        let unmarked = unmark("$$ROOT", "$by").to_string();
        assert_eq!(
            unmarked.matches("{ \"$literal\": \"$$ROOT\" }").count(),
            2,
            "{unmarked}"
        );
        assert_eq!(unmarked.matches("{ \"$literal\": \"$by\" }").count(), 1, "{unmarked}");
    }
}
