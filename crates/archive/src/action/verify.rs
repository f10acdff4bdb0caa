mod refused;

use mongo_patterns_core::action::one_batch;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::document_id::{by_ids, with_ids};
use mongo_patterns_core::migration::and;
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::send::{self, next_rows};
use mongo_patterns_core::verify::{Results, Verify, begin, scan};
use mongo_patterns_core::{Error, Result};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::FindOptions;

use self::refused::BATCH;
use crate::finding::{Finding, Problem};
use crate::query;
use crate::related::{RelatedCollection, distinct_ids};
use crate::repository::{Archive, Shared};
use crate::transfer::ids_of;

impl<D> Archive<D> {
    /// Checks both collections: whether a document is in both, whether a unique index of the archive refuses an old one, and
    /// whether each age is a date.
    ///
    /// It also checks whether [related](crate::ArchiveBuilder::related) documents are where their document is.
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
    /// [`verify`](mongo_patterns_core::verify) says what is true of the verifications of all patterns, and
    /// [`repair`](Self::repair) what it repairs.
    ///
    /// # Cost
    /// Two round trips for each 1000 documents of the archive, and for each 1000 related documents. For each unique index of
    /// the archive, two for each 1000 documents that are old enough. The server reads all documents of both collections to
    /// check their ages.
    pub fn verify(&self) -> Verify<'_, Problem> {
        let shared = self.shared();
        Verify::new(shared.ensure(), move |reporter| {
            scan(move |results| find_problems(shared, reporter, results))
        })
    }
}

pub(super) async fn find_problems(
    shared: &Shared,
    mut reporter: Reporter<'_>,
    mut results: Results<Finding>,
) -> Result<()> {
    let (current, archived) = (&shared.current, &shared.archived);
    let options = |field: &str| {
        FindOptions::builder()
            .projection(doc! { field: 1 })
            .batch_size(BATCH)
            .build()
    };
    begin(&mut reporter, [archived]).await?;
    let mut in_order = options("_id");
    in_order.sort = Some(doc! { "_id": 1 });
    let mut rows = send::find_rows(archived, Document::new(), send::latest(in_order)).await?;
    while let Some(batch) = next_rows(&mut rows, BATCH as usize).await? {
        reporter.advance(batch.len() as u64);
        let ids = in_both(shared, &ids_of(&batch)).await?;
        results.add_all(findings(archived, ids, Problem::InBoth)).await;
    }
    refused::find(shared, &mut results).await?;
    for collection in [current, archived] {
        let filter = query::without_date(shared.age_field());
        let mut rows = send::find_rows(collection, filter, send::latest(options("_id"))).await?;
        while let Some(batch) = next_rows(&mut rows, BATCH as usize).await? {
            results
                .add_all(findings(collection, ids_of(&batch), Problem::NoDate))
                .await;
        }
    }
    for related in &shared.related.collections {
        for is_archived in [false, true] {
            let collection = related.source_and_target(is_archived)[0];
            let options = send::latest(options(related.field.as_str()));
            let mut rows = send::find_rows(collection, Document::new(), options).await?;
            while let Some(batch) = next_rows(&mut rows, BATCH as usize).await? {
                let ids = elsewhere(shared, related, is_archived, &batch).await?;
                results.add_all(findings(collection, ids, Problem::Elsewhere)).await;
            }
        }
    }
    Ok(())
}

fn findings(
    collection: &Collection<RawDocumentBuf>,
    ids: Vec<Bson>,
    problem: Problem,
) -> impl Iterator<Item = Finding> {
    let namespace = collection.namespace();
    ids.into_iter()
        .map(move |id| Finding::new(namespace.clone(), id, problem))
}

/// Returns the given related documents whose document is in the other collection.
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
    let options = FindOptions::builder()
        .projection(doc! { id: 1 })
        .batch_size(one_batch(named.len()))
        .build();
    let others = Conn::new().find_all(other, with(&named), options).await?;
    for named in distinct_ids(&others, id) {
        let named = std::slice::from_ref(&named);
        let is_here = async || Ok::<_, Error>(Conn::new().find_one(own, with(named), None).await?.is_some());
        if is_here().await? {
            continue;
        }
        let filter = and(by_ids(&ids_of(rows)), related.with_ids(named));
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

/// Returns the given archived documents that both collections still have.
async fn in_both(shared: &Shared, archived: &[Bson]) -> Result<Vec<Bson>> {
    let mut in_both = archived.to_vec();
    // The archive again, because a document may have been restored between the reads.
    for collection in [&shared.current, &shared.archived] {
        if in_both.is_empty() {
            break;
        }
        let options = FindOptions::builder()
            .projection(doc! { "_id": 1 })
            .batch_size(one_batch(in_both.len()))
            .build();
        in_both = ids_of(&Conn::new().find_all(collection, by_ids(&in_both), options).await?);
    }
    Ok(in_both)
}
