use std::collections::BTreeSet;

use futures::TryStreamExt;
#[allow(unused_imports)] // the documentation links to them
use mongo_patterns_core::ErrorKind::FileStore;
use mongo_patterns_core::Result;
use mongo_patterns_core::action::one_batch;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::send;
use mongo_patterns_core::verify::{Results, Verify, scan};
use mongodb::bson::{Document, RawDocument, doc};
use mongodb::options::FindOptions;

use crate::finding::{Finding, Problem};
use crate::form::{DELETED, PENDING, STORED, file_of, name_of};
use crate::repository::{FileArchive, Shared};

impl<D> FileArchive<D> {
    /// Checks the files: whether each is there, with its SHA-256 and number of documents, and whether the store has others.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(archive: mongo_patterns::archive_files::FileArchive<()>) -> mongo_patterns::Result<()> {
    /// let mut findings = archive.verify().stream();
    /// while let Some(finding) = findings.try_next().await? {
    ///     println!("{}: {}", finding.document_id, finding.problem);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`verify`](mongo_patterns_core::verify) says what is true of the verifications of all patterns. The progress is of
    /// files.
    ///
    /// # Cost
    /// It reads all files, one after another. Two round trips, one for each problem, and one for each 1000 files of the
    /// store. The names of all files are in memory.
    ///
    /// # Errors
    /// - [`FileStore`]: the store failed.
    pub fn verify(&self) -> Verify<'_, Problem> {
        let shared = self.shared();
        Verify::new(shared.ensure(), move |reporter| {
            scan(move |results| find_problems(shared, reporter, results))
        })
    }
}

async fn find_problems(shared: &Shared, mut reporter: Reporter<'_>, mut results: Results<Finding>) -> Result<()> {
    let (records, all) = (&shared.records, shared.records_in(&[PENDING, STORED, DELETED]));
    if reporter.is_asked() {
        reporter.begin(Conn::new().count_documents(records, all.clone(), None).await?);
    }
    let mut rows = send::find_rows(records, all, send::latest(FindOptions::default())).await?;
    while let Some(record) = rows.try_next().await? {
        if let Some(problem) = shared.check(&record).await? {
            results.add(shared.finding(name_of(&record), problem)).await;
        }
        reporter.advance(1);
    }
    for name in shared.unknown().await? {
        results.add(shared.finding(name, Problem::Unknown)).await;
    }
    Ok(())
}

impl Shared {
    fn finding(&self, name: String, problem: Problem) -> Finding {
        Finding::new(self.records.namespace(), name, problem)
    }

    async fn check(&self, record: &RawDocument) -> Result<Option<Problem>> {
        if record.get_str("state").is_ok_and(|state| state != STORED) {
            return Ok(Some(Problem::Unfinished));
        }
        let (file, conn) = (file_of(record)?, &mut Conn::new());
        match self.documents_or_problem(&file, conn).await? {
            // Unless it was restored or deleted since.
            Err(problem) if self.find(&file.name, conn).await?.is_some() => Ok(Some(problem)),
            _ => Ok(None),
        }
    }

    /// Returns the files of the store that have no record.
    async fn unknown(&self) -> Result<BTreeSet<String>> {
        let conn = &mut Conn::new();
        let mut unknown = self.store.list(conn).await?;
        let names: Vec<String> = unknown.iter().cloned().collect();
        for names in names.chunks(1000) {
            let ids: Vec<Document> = names.iter().map(|name| self.record_id(name.as_str())).collect();
            let options = FindOptions::builder().batch_size(one_batch(ids.len())).build();
            let records = conn.find_all(&self.records, doc! { "_id": { "$in": ids } }, options);
            for record in records.await? {
                unknown.remove(&name_of(&record));
            }
        }
        if !unknown.is_empty() {
            // Others were deleted since.
            let still = self.store.list(conn).await?;
            unknown.retain(|name| still.contains(name));
        }
        Ok(unknown)
    }
}
