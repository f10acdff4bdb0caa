//! The number of revisions of the documents, and the effect of deleting old ones.

use futures::TryStreamExt;
use mongodb::bson::{Bson, Document, doc};
use serde_json::json;

use super::{Work, id_of_revision};
use crate::analyze::{Managed, managed};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Summary, grouped};
use crate::progress::Progress;
use crate::settings::HistorySettings;

/// The numbers of revisions that could be kept.
const KEEP: [i64; 4] = [1, 10, 100, 1000];

impl Work<'_> {
    /// Prints the numbers.
    pub(super) async fn analyze(&self, settings: &HistorySettings) -> Outcome {
        let output = self.context.output;
        let id = id_of_revision(settings)?;
        let revisions = self.documents.revisions_collection();
        let namespace = revisions.namespace();
        let current = self.documents.collection();
        let stored = [current.name(), revisions.name()].map(Managed::new);
        managed::print(self.context, &stored, None).await?;
        let progress = Progress::new(output, "analyze", "revisions", None);
        let rows = revisions.aggregate(pipeline(id)).allow_disk_use(true);
        let mut rows = rows.await.map_err(Failure::on(&namespace))?;
        let row = rows.try_next().await.map_err(Failure::on(&namespace))?;
        progress.end();
        let row = row.unwrap_or_default();
        let documents = current.estimated_document_count().await;
        let documents = documents.map_err(Failure::on(current.namespace()))?;
        let (stored, bytes) = (integer(&row, "revisions"), integer(&row, "bytes"));
        for keep in KEEP {
            let (deleted, saved) = (
                integer(&row, &format!("deleted{keep}")),
                integer(&row, &format!("saved{keep}")),
            );
            output.text(&format!(
                "--keep-last {keep}: deletes {} revisions, about {} bytes",
                grouped(deleted),
                grouped(saved)
            ))?;
            output.object(&json!({ "type": "keep_last", "keep_last": keep, "revisions": deleted, "bytes": saved }))?;
        }
        let summary = Summary::new("history analyze", namespace.to_string())
            .row("current_documents", documents)
            .row("documents_with_revisions", integer(&row, "documents"))
            .row("revisions", stored)
            .row("bytes", bytes)
            .row("bytes_per_revision", bytes.checked_div(stored).unwrap_or(0))
            .row("most_revisions_of_a_document", integer(&row, "most"));
        output.summary(&summary, Exit::Success)?;
        Ok(Exit::Success)
    }
}

/// Groups the revisions by document, and sums the groups.
fn pipeline(id: &str) -> Vec<Document> {
    let mut group = doc! {
        "_id": null,
        "documents": { "$sum": 1 },
        "revisions": { "$sum": "$n" },
        "bytes": { "$sum": "$bytes" },
        "most": { "$max": "$n" },
    };
    for keep in KEEP {
        let deleted = doc! { "$max": [{ "$subtract": ["$n", keep] }, 0] };
        // Each revision with the average size of those of its document.
        let saved = doc! { "$multiply": [&deleted, { "$divide": ["$bytes", "$n"] }] };
        group.insert(format!("deleted{keep}"), doc! { "$sum": deleted });
        group.insert(format!("saved{keep}"), doc! { "$sum": saved });
    }
    let by_id = doc! { "_id": format!("${id}"), "n": { "$sum": 1 }, "bytes": { "$sum": { "$bsonSize": "$$ROOT" } } };
    vec![doc! { "$group": by_id }, doc! { "$group": group }]
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // an estimate
fn integer(row: &Document, field: &str) -> u64 {
    match row.get(field) {
        Some(Bson::Int32(number)) => u64::try_from(*number).unwrap_or(0),
        Some(Bson::Int64(number)) => u64::try_from(*number).unwrap_or(0),
        Some(Bson::Double(number)) => number.max(0.0) as u64,
        _ => 0,
    }
}
