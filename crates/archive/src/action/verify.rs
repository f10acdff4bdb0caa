use mongo_patterns_core::document_id::with_ids;
use mongo_patterns_core::migration::both;
use mongo_patterns_core::send::{self, Rows, next_rows};
use mongo_patterns_core::verify::{Scan, Verify, scan};
use mongodb::options::FindOptions;

use super::prelude::*;
use crate::finding::{Finding, Problem};
use crate::transfer::ids;
use crate::wholes::{self, Related};

/// The documents that are looked for together.
const BATCH: u32 = 1000;

impl<D> Archive<D> {
    /// Checks both collections: whether a document is in both, and whether each age is a date. And whether
    /// [related](crate::ArchiveBuilder::related) documents are where their document is.
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
    /// documents. It reads all documents of both to check their ages. Two round trips for each 1000 related documents.
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
    /// The related documents, by the number of their collection and whether they are archived.
    Related(usize, bool),
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
            Part::Related(number, archived) => self.shared.wholes.related[number].ends(archived)[0],
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
            Part::Related(number, _) => {
                let field = self.shared.wholes.related[number].field.as_str();
                let mut options = options.build();
                options.projection = Some(doc! { field: 1 });
                (Document::new(), options)
            }
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
        let rows = next_rows(rows, BATCH as usize).await?;
        if rows.is_empty() {
            self.rows = None;
            let next = match self.part {
                Part::Both => Part::Current,
                Part::Current => Part::Archived,
                Part::Archived => Part::Related(0, false),
                Part::Related(number, false) => Part::Related(number, true),
                Part::Related(number, true) => Part::Related(number + 1, false),
            };
            if matches!(next, Part::Related(number, _) if number == self.shared.wholes.related.len()) {
                return Ok(None);
            }
            self.part = next;
            return Ok(Some(Vec::new()));
        }
        let batch = ids(&rows);
        let namespace = self.collection().namespace();
        let named = |ids: Vec<Bson>, problem| {
            let named = ids.into_iter().map(|id| Finding::new(namespace.clone(), id, problem));
            named.collect::<Vec<_>>()
        };
        Ok(Some(match self.part {
            Part::Both => {
                self.reporter.advance(batch.len() as u64);
                named(in_both(self.shared, &batch).await?, Problem::InBoth)
            }
            Part::Current | Part::Archived => named(batch, Problem::NoDate),
            Part::Related(number, archived) => {
                let related = &self.shared.wholes.related[number];
                named(
                    elsewhere(self.shared, related, archived, &rows).await?,
                    Problem::Elsewhere,
                )
            }
        }))
    }
}

/// Returns the related documents of these whose document is in the other collection.
async fn elsewhere(shared: &Shared, related: &Related, archived: bool, rows: &[RawDocumentBuf]) -> Result<Vec<Bson>> {
    let (own, other) = match archived {
        true => (&shared.archived, &shared.current),
        false => (&shared.current, &shared.archived),
    };
    let id = shared.wholes.id.as_str();
    let with = |ids: &[Bson]| with_ids(id, ids);
    let named = wholes::values(rows, related.field.as_str());
    let mut found = Vec::new();
    if named.is_empty() {
        return Ok(found);
    }
    let options = FindOptions::builder().projection(doc! { id: 1 }).build();
    let others = Conn::new().find_all(other, with(&named), options).await?;
    for named in wholes::values(&others, id) {
        let named = std::slice::from_ref(&named);
        let is_here = async || Ok::<_, Error>(Conn::new().find_one(own, with(named), None).await?.is_some());
        if is_here().await? {
            continue;
        }
        let filter = both(by_ids(&ids(rows)), related.of(named));
        let still = Conn::new().find_all(related.ends(archived)[0], filter, None).await?;
        // All of them may have moved since.
        if !is_here().await? {
            found.extend(ids(&still));
        }
    }
    Ok(found)
}

/// Returns the archived documents of these that the collection has too, and the archive still.
async fn in_both(shared: &Shared, archived: &[Bson]) -> Result<Vec<Bson>> {
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
