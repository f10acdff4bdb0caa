use std::collections::BTreeSet;

use mongo_patterns_core::send::{self, Rows, next_rows};
use mongo_patterns_core::verify::{Scan, Verify, scan};
use mongodb::options::FindOptions;

use super::prelude::*;
use super::problem::{FileFinding, FileProblem};

impl<D> FileArchive<D> {
    /// Checks the files: whether each is there, with its SHA-256 and number of documents, and whether the store has others.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(archive: mongo_patterns::archive::files::FileArchive<()>) -> mongo_patterns::Result<()> {
    /// let mut findings = archive.verify().stream();
    /// while let Some(finding) = findings.try_next().await? {
    ///     println!("{}: {}", finding.document_id, finding.problem);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// See [`verify`](mongo_patterns_core::verify) for what is true of the verifications of all patterns. The progress is of files.
    ///
    /// # Cost
    /// It reads all files, one after another. Two round trips, one for each problem, and one for each 1000 files of the store. The
    /// names of all files are in memory.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// [`SettingsMismatch`], [`FileStore`], and those of the driver, as the last item of the stream.
    pub fn verify(&self) -> Verify<'_, FileProblem> {
        let shared = self.shared();
        Verify::new(shared.ensure(), |reporter| {
            scan(Check {
                shared,
                reporter,
                part: Part::Begin,
            })
        })
    }
}

/// A part of the verification.
enum Part {
    Begin,
    /// The files of records.
    Recorded(Rows),
    /// The files of the store.
    Stored,
    End,
}

struct Check<'a> {
    shared: &'a Shared,
    reporter: Reporter<'a>,
    part: Part,
}

impl Scan for Check<'_> {
    type Found = FileFinding;

    async fn next(&mut self) -> Result<Option<Vec<FileFinding>>> {
        let mut found = Vec::new();
        match &mut self.part {
            Part::Begin => {
                let (records, all) = (&self.shared.records, self.shared.records(&[PENDING, STORED, DELETED]));
                if self.reporter.is_asked() {
                    let files = Conn::new().count_documents(records, all.clone(), None).await?;
                    self.reporter.begin(files);
                }
                let rows = send::find_rows(records, all, send::latest(FindOptions::default())).await?;
                self.part = Part::Recorded(rows);
            }
            Part::Recorded(rows) => match next_rows(rows, 1).await?.pop() {
                Some(record) => {
                    let problem = self.shared.check(&record).await?;
                    found.extend(problem.map(|problem| self.shared.finding(name_of(&record), problem)));
                    self.reporter.advance(1);
                }
                None => self.part = Part::Stored,
            },
            Part::Stored => {
                let unknown = self.shared.unknown().await?.into_iter();
                found.extend(unknown.map(|name| self.shared.finding(name, FileProblem::Unknown)));
                self.part = Part::End;
            }
            Part::End => return Ok(None),
        }
        Ok(Some(found))
    }
}

impl Shared {
    fn finding(&self, name: String, problem: FileProblem) -> FileFinding {
        FileFinding::new(self.records.namespace(), name, problem)
    }

    async fn check(&self, record: &RawDocument) -> Result<Option<FileProblem>> {
        if record.get_str("state").is_ok_and(|state| state != STORED) {
            return Ok(Some(FileProblem::Unfinished));
        }
        let (file, conn) = (ArchiveFile::of(record)?, &mut Conn::new());
        match self.open(&file, conn).await? {
            // Unless it was restored or deleted since.
            Err(problem) if self.find(&file.name, conn).await?.is_some() => Ok(Some(problem)),
            _ => Ok(None),
        }
    }

    /// Returns the files of the store that have no record.
    async fn unknown(&self) -> Result<BTreeSet<String>> {
        let conn = &mut Conn::new();
        let mut unknown = self.listed(conn).await?;
        let names: Vec<String> = unknown.iter().cloned().collect();
        for names in names.chunks(1000) {
            let ids: Vec<Document> = names.iter().map(|name| self.record_id(name.as_str())).collect();
            let records = conn.find_all(&self.records, doc! { "_id": { "$in": ids } }, None);
            for record in records.await? {
                unknown.remove(&name_of(&record));
            }
        }
        if !unknown.is_empty() {
            // Others were deleted since.
            let still = self.listed(conn).await?;
            unknown.retain(|name| still.contains(name));
        }
        Ok(unknown)
    }

    async fn listed(&self, conn: &Conn<'_>) -> Result<BTreeSet<String>> {
        let names = conn.finish(self.store.list()).await;
        Ok(names
            .map_err(|error| store_failed("list", error))?
            .into_iter()
            .collect())
    }
}
