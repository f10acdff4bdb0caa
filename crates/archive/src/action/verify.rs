use std::vec::IntoIter;

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
        let mut searches = vec![
            Search::InBoth,
            Search::NoDate(&shared.current),
            Search::NoDate(&shared.archived),
        ];
        for related in &shared.related.collections {
            searches.extend([false, true].map(|archived| Search::Elsewhere(related, archived)));
        }
        Verify::new(shared.ensure(), |reporter| {
            scan(Check {
                shared,
                reporter,
                searches: searches.into_iter(),
                begun: None,
            })
        })
    }
}

/// What the verification looks for.
#[derive(Clone, Copy)]
enum Search<'a> {
    /// Archived documents that the collection has too.
    InBoth,
    /// Documents of a collection without a date.
    NoDate(&'a Collection<RawDocumentBuf>),
    /// Related documents, archived or not, whose document is in the other collection.
    Elsewhere(&'a RelatedCollection, bool),
}

struct Check<'a> {
    shared: &'a Shared,
    reporter: Reporter<'a>,
    searches: IntoIter<Search<'a>>,
    begun: Option<(Search<'a>, Rows)>,
}

impl<'a> Search<'a> {
    fn collection(self, shared: &'a Shared) -> &'a Collection<RawDocumentBuf> {
        match self {
            Self::InBoth => &shared.archived,
            Self::NoDate(collection) => collection,
            Self::Elsewhere(related, archived) => related.source_and_target(archived)[0],
        }
    }

    async fn begin(self, shared: &Shared, reporter: &mut Reporter<'_>) -> Result<Rows> {
        let (mut filter, mut sort, mut field) = (Document::new(), None, "_id");
        match self {
            Self::InBoth => {
                sort = Some(doc! { "_id": 1 });
                if reporter.is_asked() {
                    reporter.begin(send::estimated_count(&shared.archived).await?);
                }
            }
            Self::NoDate(_) => filter = query::without_date(shared.age_field()),
            Self::Elsewhere(related, _) => field = related.field.as_str(),
        }
        let options = FindOptions::builder().projection(doc! { field: 1 }).batch_size(BATCH);
        let options = send::latest(options.sort(sort).build());
        Ok(send::find_rows(self.collection(shared), filter, options).await?)
    }
}

impl Scan for Check<'_> {
    type Found = Finding;

    async fn next(&mut self) -> Result<Option<Vec<Finding>>> {
        let (search, rows) = match (&mut self.begun, self.searches.as_slice().first()) {
            (Some(begun), _) => begun,
            (None, None) => return Ok(None),
            (None, Some(search)) => {
                let rows = search.begin(self.shared, &mut self.reporter).await?;
                self.begun.insert((*search, rows))
            }
        };
        let (search, rows) = (*search, next_rows(rows, BATCH as usize).await?);
        if rows.is_empty() {
            (self.begun, _) = (None, self.searches.next());
            return Ok(Some(Vec::new()));
        }
        let (ids, problem) = match search {
            Search::InBoth => {
                self.reporter.advance(rows.len() as u64);
                (in_both(self.shared, &ids_of(&rows)).await?, Problem::InBoth)
            }
            Search::NoDate(_) => (ids_of(&rows), Problem::NoDate),
            Search::Elsewhere(related, archived) => {
                let ids = elsewhere(self.shared, related, archived, &rows).await?;
                (ids, Problem::Elsewhere)
            }
        };
        let namespace = search.collection(self.shared).namespace();
        let findings = ids.into_iter().map(|id| Finding::new(namespace.clone(), id, problem));
        Ok(Some(findings.collect()))
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
            .find_all(related.source_and_target(archived)[0], filter, None)
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
