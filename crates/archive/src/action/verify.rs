#[allow(unused_imports)] // the documentation links to them
use mongo_patterns_core::ErrorKind::SettingsMismatch;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::document_id::{by_ids, with_ids};
use mongo_patterns_core::migration::both;
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::send::{self, Rows, next_rows};
use mongo_patterns_core::verify::{Scan, Verify, scan};
use mongo_patterns_core::{Error, Result};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::FindOptions;

use crate::finding::{Finding, Problem};
use crate::query;
use crate::related::{RelatedCollection, distinct_ids};
use crate::repository::{Archive, Shared};
use crate::transfer::ids_of;

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
                stage: Stage::InBoth,
                rows: None,
            })
        })
    }
}

/// A stage of the verification.
#[derive(Clone, Copy)]
enum Stage {
    /// The documents that are in both collections.
    InBoth,
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
    stage: Stage,
    rows: Option<Rows>,
}

impl Check<'_> {
    fn collection(&self) -> &Collection<RawDocumentBuf> {
        match self.stage {
            Stage::Current => &self.shared.current,
            Stage::InBoth | Stage::Archived => &self.shared.archived,
            Stage::Related(number, archived) => self.shared.related.collections[number].from_and_to(archived)[0],
        }
    }

    async fn open(&mut self) -> Result<Rows> {
        let options = FindOptions::builder().projection(doc! { "_id": 1 }).batch_size(BATCH);
        let (filter, options) = match self.stage {
            Stage::InBoth => {
                if self.reporter.is_asked() {
                    self.reporter.begin(send::estimated_count(&self.shared.archived).await?);
                }
                (Document::new(), options.sort(doc! { "_id": 1 }).build())
            }
            Stage::Current | Stage::Archived => (query::without_date(self.shared.age_field()), options.build()),
            Stage::Related(number, _) => {
                let field = self.shared.related.collections[number].field.as_str();
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
            let next = match self.stage {
                Stage::InBoth => Stage::Current,
                Stage::Current => Stage::Archived,
                Stage::Archived => Stage::Related(0, false),
                Stage::Related(number, false) => Stage::Related(number, true),
                Stage::Related(number, true) => Stage::Related(number + 1, false),
            };
            if matches!(next, Stage::Related(number, _) if number == self.shared.related.collections.len()) {
                return Ok(None);
            }
            self.stage = next;
            return Ok(Some(Vec::new()));
        }
        let batch = ids_of(&rows);
        let namespace = self.collection().namespace();
        let named = |ids: Vec<Bson>, problem| {
            let named = ids.into_iter().map(|id| Finding::new(namespace.clone(), id, problem));
            named.collect::<Vec<_>>()
        };
        Ok(Some(match self.stage {
            Stage::InBoth => {
                self.reporter.advance(batch.len() as u64);
                named(in_both(self.shared, &batch).await?, Problem::InBoth)
            }
            Stage::Current | Stage::Archived => named(batch, Problem::NoDate),
            Stage::Related(number, archived) => {
                let related = &self.shared.related.collections[number];
                named(
                    elsewhere(self.shared, related, archived, &rows).await?,
                    Problem::Elsewhere,
                )
            }
        }))
    }
}

/// Returns the related documents of these whose document is in the other collection.
async fn elsewhere(
    shared: &Shared,
    related: &RelatedCollection,
    archived: bool,
    rows: &[RawDocumentBuf],
) -> Result<Vec<Bson>> {
    let (own, other) = match archived {
        true => (&shared.archived, &shared.current),
        false => (&shared.current, &shared.archived),
    };
    let id = shared.related.id.as_str();
    let with = |ids: &[Bson]| with_ids(id, ids);
    let named = distinct_ids(rows, related.field.as_str());
    let mut elsewhere = Vec::new();
    if named.is_empty() {
        return Ok(elsewhere);
    }
    let options = FindOptions::builder().projection(doc! { id: 1 }).build();
    let others = Conn::new().find_all(other, with(&named), options).await?;
    for named in distinct_ids(&others, id) {
        let named = std::slice::from_ref(&named);
        let is_here = async || Ok::<_, Error>(Conn::new().find_one(own, with(named), None).await?.is_some());
        if is_here().await? {
            continue;
        }
        let filter = both(by_ids(&ids_of(rows)), related.with_ids(named));
        let still = Conn::new()
            .find_all(related.from_and_to(archived)[0], filter, None)
            .await?;
        // All of them may have moved since.
        if !is_here().await? {
            elsewhere.extend(ids_of(&still));
        }
    }
    Ok(elsewhere)
}

/// Returns the archived documents of these that the collection has too, and the archive still.
async fn in_both(shared: &Shared, archived: &[Bson]) -> Result<Vec<Bson>> {
    let mut in_both = archived.to_vec();
    // The archive again, because a document may have been restored between the reads.
    for collection in [&shared.current, &shared.archived] {
        if in_both.is_empty() {
            break;
        }
        let options = FindOptions::builder().projection(doc! { "_id": 1 }).build();
        in_both = ids_of(&Conn::new().find_all(collection, by_ids(&in_both), options).await?);
    }
    Ok(in_both)
}
