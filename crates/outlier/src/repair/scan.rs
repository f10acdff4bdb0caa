//! Looks at documents and their extras, all of them or those of one, with a projection of what is checked.

use std::pin::Pin;
use std::time::Duration;

use futures::stream::once;
use futures::{Stream, TryStreamExt};
use mongo_patterns_core::progress::{OnProgress, Reporter};
use mongo_patterns_core::send::find_all;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{Error, ErrorKind, Result, document_id};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf};
use mongodb::options::{FindOptions, ReadConcern, ReadPreference, SelectionCriteria};

use crate::query;
use crate::query::repair as mend_query;
use crate::query::repair::Names;
use crate::repair::check::{Look, check, confirmed};
use crate::repair::finding::Finding;
use crate::repository::Shared;

/// What a writer of another process needs between two of its commands, when all is well.
const BETWEEN_COMMANDS: Duration = Duration::from_millis(50);

pub(crate) type Looks<'a> = Pin<Box<dyn Stream<Item = Result<Look>> + Send + 'a>>;

/// All documents that have extras, or a flag, or an array that is not as it should be. One without a flag does not tell
/// that it is there.
pub(crate) fn looks(shared: &Shared) -> Looks<'_> {
    let start = async move {
        check_databases(shared)?;
        let Shared { main, settings, .. } = shared;
        let pipeline = mend_query::looks(settings, names(shared));
        let rows = main.aggregate(pipeline).allow_disk_use(true);
        let rows = rows.with_type::<RawDocumentBuf>().await?;
        Ok::<_, Error>(rows.map_ok(|row| Look::of_row(&row)).map_err(Error::from))
    };
    Box::pin(once(start).try_flatten())
}

/// The same, and tells how many of them were looked at, where somebody asked.
pub(crate) fn looks_told<'a>(shared: &'a Shared, on_progress: Option<OnProgress<'a>>) -> Looks<'a> {
    let mut reporter = Reporter::new(on_progress);
    if !reporter.is_asked() {
        return looks(shared);
    }
    let start = async move {
        check_databases(shared)?;
        let special = mend_query::seems_special(&shared.settings);
        reporter.begin(shared.main.count_documents(special).await?);
        Ok::<_, Error>(looks(shared).inspect_ok(move |_| reporter.advance(1)))
    };
    Box::pin(once(start).try_flatten())
}

pub(crate) fn names(shared: &Shared) -> Names<'_> {
    Names {
        main: shared.main.name(),
        overflow: shared.overflow.name(),
    }
}

/// One document with its extras, as the primary has them now, and how many of its elements are there again where they are
/// unique. That takes one aggregation, which two databases do not allow.
pub(crate) async fn look_closely(shared: &Shared, id: &Bson) -> Result<Look> {
    let Shared { main, settings, .. } = shared;
    if !settings.unique || check_databases(shared).is_err() {
        return look_at(shared, id, None).await;
    }
    let rows = main
        .aggregate(mend_query::looks_of(settings, names(shared), id))
        .allow_disk_use(true)
        .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
        .read_concern(ReadConcern::local())
        .with_type::<RawDocumentBuf>();
    let row = rows.await?.try_next().await?;
    let none: [&RawDocument; 0] = [];
    Ok(Look {
        id: id.clone(),
        ..row.map_or_else(|| Look::of_rows(id.clone(), None, &none), |row| Look::of_row(&row))
    })
}

/// One document with its extras, as the primary has them now.
pub(crate) async fn look_at(shared: &Shared, id: &Bson, mut session: Option<&mut Session<'_>>) -> Result<Look> {
    let Shared {
        main,
        overflow,
        settings,
        ..
    } = shared;
    let (of_main, sizes) = (query::by_id(id), mend_query::main_sizes(settings));
    let of_main = of_primary(session.as_deref_mut(), main, of_main, Some(sizes)).await?;
    let (of_extras, sizes) = (
        mend_query::true_extras_of(settings, id),
        mend_query::extras_sizes(settings),
    );
    let of_extras = of_primary(session, overflow, of_extras, Some(sizes)).await?;
    Ok(Look::of_rows(id.clone(), of_main.first(), &of_extras))
}

/// What the primary has now, or the transaction sees.
pub(crate) async fn of_primary(
    session: Option<&mut Session<'_>>,
    collection: &Collection<RawDocumentBuf>,
    filter: Document,
    projection: Option<Document>,
) -> mongodb::error::Result<Vec<RawDocumentBuf>> {
    let mut options = FindOptions::builder().projection(projection).build();
    if session.is_none() {
        options.selection_criteria = Some(SelectionCriteria::ReadPreference(ReadPreference::Primary));
        options.read_concern = Some(ReadConcern::local());
    }
    find_all(session, collection, filter, options).await
}

/// What is wrong with a document when one looks again, too, and once more somewhat later. Not while a write of this
/// process is between two commands.
pub(crate) async fn confirm(shared: &Shared, look: &Look) -> Result<Vec<Finding>> {
    let mut findings = check(&shared.settings, look);
    for wait in [Duration::ZERO, BETWEEN_COMMANDS] {
        if findings.is_empty() {
            break;
        }
        tokio::time::sleep(wait).await;
        let id = document_id::text(&look.id);
        // A push unlocks the document between its flag and its overflow documents. Two looks could each meet such a push.
        let _pushes = shared.pushes.exclusive(&id).await;
        let _locked = shared.locks.exclusive(&id).await;
        let again = look_closely(shared, &look.id).await?;
        // The first look does not tell a missing document from one without a flag.
        let so = check(&shared.settings, &again);
        findings = if wait.is_zero() && look.main.is_none() {
            so
        } else {
            confirmed(&findings, so)
        };
    }
    Ok(findings)
}

/// One aggregation reads both collections.
fn check_databases(shared: &Shared) -> Result<()> {
    if shared.main.namespace().db == shared.overflow.namespace().db {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Configuration,
        "main documents and extras are in two databases, which no aggregation can read together: move them into one",
    ))
}
