use mongo_patterns_core::send::{self, Rows, next_rows};
use mongo_patterns_core::verify::{Scan, Verify, scan};
use mongodb::options::FindOptions;

use super::prelude::*;
use crate::finding::{Finding, Problem};
use crate::transfer::ids;

/// The documents that are looked for together.
const BATCH: u32 = 1000;

impl<D> Archive<D> {
    /// Checks both collections: whether a document is in both, and whether each age is a date.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(archive: mongo_patterns::archive::Archive<()>) -> mongo_patterns::Result<()> {
    /// let mut findings = archive.verify().stream();
    /// while let Some(finding) = findings.try_next().await? {
    ///     println!("{}: {}", finding.document_id, finding.problem);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// See [`verify`](mongo_patterns_core::verify) for what is true of the verifications of all patterns. A repair would have to
    /// guess which of two documents is needed, so there is none.
    ///
    /// # Cost
    /// The server reads the `_id`s of the archive, and looks for them in the collection: two round trips for each 1000
    /// documents. It reads all documents of both to check their ages.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// [`SettingsMismatch`], and those of the driver, as the last item of the stream.
    pub fn verify(&self) -> Verify<'_, Problem> {
        let shared = self.shared();
        Verify::new(shared.ensure(), |reporter| {
            scan(Check {
                shared,
                reporter,
                part: Part::Both,
                rows: None,
            })
        })
    }
}

/// A part of the verification.
#[derive(Clone, Copy)]
enum Part {
    /// The documents that are in both collections.
    Both,
    /// The ages of the documents of the collection.
    Current,
    /// The ages of the archived documents.
    Archived,
}

struct Check<'a> {
    shared: &'a Shared,
    reporter: Reporter<'a>,
    part: Part,
    rows: Option<Rows>,
}

impl Check<'_> {
    fn collection(&self) -> &Raw {
        match self.part {
            Part::Current => &self.shared.current,
            Part::Both | Part::Archived => &self.shared.archived,
        }
    }

    async fn open(&mut self) -> Result<Rows> {
        let options = FindOptions::builder().projection(doc! { "_id": 1 }).batch_size(BATCH);
        let (filter, options) = match self.part {
            Part::Both => {
                if self.reporter.is_asked() {
                    self.reporter.begin(send::estimated_count(&self.shared.archived).await?);
                }
                (Document::new(), options.sort(doc! { "_id": 1 }).build())
            }
            Part::Current | Part::Archived => (query::without_date(&self.shared.settings), options.build()),
        };
        Ok(send::find_rows(self.collection(), filter, send::latest(options)).await?)
    }
}

impl Scan for Check<'_> {
    type Found = Finding;

    async fn next(&mut self) -> Result<Option<Vec<Finding>>> {
        let rows = match &mut self.rows {
            Some(rows) => rows,
            None => {
                let rows = self.open().await?;
                self.rows.insert(rows)
            }
        };
        let batch = ids(&next_rows(rows, BATCH as usize).await?);
        if batch.is_empty() {
            self.rows = None;
            self.part = match self.part {
                Part::Both => Part::Current,
                Part::Current => Part::Archived,
                Part::Archived => return Ok(None),
            };
            return Ok(Some(Vec::new()));
        }
        let namespace = self.collection().namespace();
        let named = |ids: Vec<Bson>, problem| {
            let named = ids.into_iter().map(|id| Finding::new(namespace.clone(), id, problem));
            named.collect::<Vec<_>>()
        };
        Ok(Some(match self.part {
            Part::Both => {
                self.reporter.advance(batch.len() as u64);
                let (unfinished, others) = in_both(self.shared, &batch).await?;
                let mut findings = named(unfinished, Problem::Unfinished);
                findings.extend(named(others, Problem::InBoth));
                findings
            }
            Part::Current | Part::Archived => named(batch, Problem::NoDate),
        }))
    }
}

/// Returns the archived documents of these that the collection has too, and the archive still: those of a move between
/// clusters that has not ended, and the others.
async fn in_both(shared: &Shared, archived: &[Bson]) -> Result<(Vec<Bson>, Vec<Bson>)> {
    let found = look_in_both(shared, archived).await?;
    match &shared.link {
        Some(link) if !found.is_empty() => {
            let moving: Vec<Vec<u8>> = link.unfinished().await?.iter().map(bytes).collect();
            let (unfinished, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|id| moving.contains(&bytes(id)));
            // The move of the others may have ended by now.
            Ok((unfinished, look_in_both(shared, &others).await?))
        }
        _ => Ok((Vec::new(), found)),
    }
}

/// Returns the archived documents of these that the collection has too, and the archive still.
async fn look_in_both(shared: &Shared, archived: &[Bson]) -> Result<Vec<Bson>> {
    let mut found = archived.to_vec();
    // The archive again, because a document may have been restored between the reads.
    for collection in [&shared.current, &shared.archived] {
        if found.is_empty() {
            break;
        }
        let options = FindOptions::builder().projection(doc! { "_id": 1 }).build();
        found = ids(&Conn::new().find_all(collection, by_ids(&found), options).await?);
    }
    Ok(found)
}
