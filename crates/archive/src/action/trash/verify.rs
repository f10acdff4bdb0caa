use std::collections::{HashMap, HashSet};

use mongo_patterns_core::Result;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::document_id::{by_ids, bytes, with_ids};
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::send::{self, next_rows};
use mongo_patterns_core::stored::{id_of, value};
use mongo_patterns_core::verify::{Results, Verify, begin, confirmed, pause, scan};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::AggregateOptions;

use crate::entry::{DELETED_AT, EXPIRES_AT, ID, OF, RELATED};
use crate::finding::{TrashFinding, TrashProblem};
use crate::related_entries::count;
use crate::trash::{Shared, Trash};

/// The entries that are checked together.
const BATCH: u32 = 1000;

impl<D> Trash<D> {
    /// Checks the entries: whether each has a document with an `_id`, a time, and all [related](crate#related-documents-of-a-trash)
    /// documents. It leaves out expired entries.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(trash: mongo_patterns::archive::Trash<()>) -> mongo_patterns::Result<()> {
    /// let mut findings = trash.verify().stream();
    /// while let Some(finding) = findings.try_next().await? {
    ///     println!("{}: {}", finding.document_id, finding.problem);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`verify`](mongo_patterns_core::verify) says what is true of the verifications of all patterns. There is no repair,
    /// because the missing parts are stored nowhere.
    ///
    /// # Cost
    /// One round trip for each 1000 entries, and two more with related documents.
    pub fn verify(&self) -> Verify<'_, TrashProblem> {
        let shared = self.shared();
        Verify::new(shared.ensure(), move |reporter| {
            scan(move |results| find_problems(shared, reporter, results))
        })
    }
}

async fn find_problems(shared: &Shared, mut reporter: Reporter<'_>, mut results: Results<TrashFinding>) -> Result<()> {
    begin(&mut reporter, [&shared.trash]).await?;
    let options = AggregateOptions::builder().batch_size(BATCH).build();
    let mut rows = send::aggregate_rows(&shared.trash, entries(Document::new()), send::latest(options)).await?;
    while let Some(batch) = next_rows(&mut rows, BATCH as usize).await? {
        reporter.advance(batch.len() as u64);
        let found = problems(shared, &batch).await?;
        if found.is_empty() {
            continue;
        }
        // A document may have been restored between the reads, or old entries deleted.
        pause().await?;
        let ids: Vec<Bson> = found.iter().map(|finding| finding.document_id.clone()).collect();
        let again = Conn::new()
            .aggregate_all(&shared.trash, entries(by_ids(&ids)), None)
            .await?;
        results
            .add_all(confirmed(&found, problems(shared, &again).await?))
            .await;
    }
    Ok(())
}

/// Returns the stages that read the checked parts of matching entries that have not expired.
fn entries(filter: Document) -> Vec<Document> {
    let is_of = |field: &str, name: &str| doc! { "$eq": [{ "$type": format!("${field}") }, name] };
    let expired = doc! { EXPIRES_AT: { "$type": "date" }, "$expr": { "$lte": [format!("${EXPIRES_AT}"), "$$NOW"] } };
    vec![
        doc! { "$match": filter },
        doc! { "$match": { "$nor": [expired] } },
        doc! { "$project": {
            "has_document": is_of("document", "object"),
            "has_id": { "$ne": [{ "$type": format!("${ID}") }, "missing"] },
            "has_time": is_of(DELETED_AT, "date"),
            OF: 1,
            RELATED: 1,
        } },
    ]
}

/// Returns the problems of entries.
async fn problems(shared: &Shared, rows: &[RawDocumentBuf]) -> Result<Vec<TrashFinding>> {
    let of: Vec<Bson> = rows.iter().filter_map(|row| value(row, OF)).collect();
    let with_related = rows.iter().filter(|row| count(row) > 0);
    let with_related: Vec<Bson> = with_related.map(|row| id_of(row)).collect();
    let (mut documents, mut left) = (HashSet::new(), HashMap::new());
    if shared.has_related() && !of.is_empty() {
        let stages = [doc! { "$match": by_ids(&of) }, doc! { "$project": { "_id": 1 } }];
        let found = Conn::new().aggregate_all(&shared.trash, stages, None).await?;
        documents.extend(found.iter().map(|row| bytes(&id_of(row))));
    }
    if shared.has_related() && !with_related.is_empty() {
        let group = doc! { "$group": { "_id": format!("${OF}"), "entries": { "$sum": 1_i64 } } };
        let stages = [doc! { "$match": with_ids(OF, &with_related) }, group];
        for row in Conn::new().aggregate_all(&shared.trash, stages, None).await? {
            left.insert(bytes(&id_of(&row)), row.get_i64("entries").unwrap_or(0));
        }
    }
    let of_row = |row: &RawDocumentBuf| {
        let is = |field: &str| row.get_bool(field).unwrap_or(false);
        let (id, of) = (id_of(row), value(row, OF));
        let (related, left) = (count(row), left.get(&bytes(&id)).copied().unwrap_or(0));
        let problem = match of {
            _ if !is("has_document") => TrashProblem::NoDocument,
            _ if !is("has_id") => TrashProblem::NoId,
            _ if !is("has_time") => TrashProblem::NoTime,
            _ if !shared.has_related() && (of.is_some() || related > 0) => TrashProblem::NotRelated,
            Some(of) if !documents.contains(&bytes(&of)) => TrashProblem::WithoutDocument,
            None if left != related => TrashProblem::Incomplete {
                left: u64::try_from(left).unwrap_or(0),
                related: u64::try_from(related).unwrap_or(0),
            },
            _ => return None,
        };
        Some(TrashFinding::new(shared.trash.namespace(), id, problem))
    };
    Ok(rows.iter().filter_map(of_row).collect())
}
