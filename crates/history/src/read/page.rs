//! Pages of the history of a document.

use crate::form::document::{Head, decode_revision, invalid_argument};
use crate::form::token::RevisionToken;
use crate::query::options::Reader;
use crate::read::{find_current, hinted};
use crate::repository::prelude::*;
use crate::results::RevisionPage;

/// A page to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    pub(crate) limit: u32,
    pub(crate) newest_first: bool,
    pub(crate) after: Option<RevisionToken>,
}

/// Reads a page.
pub(crate) async fn page<D: DeserializeOwned>(
    shared: &Shared,
    id: &Bson,
    page: Page,
    session: Option<&mut Session<'_>>,
) -> Result<RevisionPage<D>> {
    if page.limit == 0 {
        return Err(invalid_argument("the limit is 0: read at least one revision"));
    }
    let settings = &shared.settings;
    let mut rows = rows(shared, id, page, session).await?;
    let has_more = rows.len() as u64 > u64::from(page.limit);
    rows.truncate(page.limit as usize);
    let revisions = rows
        .iter()
        .map(|row| decode_revision(settings, row))
        .collect::<Result<Vec<_>>>()?;
    let next = match revisions.last() {
        Some(last) if has_more => Some(RevisionToken::after(last.revision)),
        _ => None,
    };
    Ok(RevisionPage { revisions, next })
}

/// Reads the documents of a page, and one more if there are more. The newest revision can be that of the current document
/// alone.
async fn rows(
    shared: &Shared,
    id: &Bson,
    page: Page,
    mut session: Option<&mut Session<'_>>,
) -> Result<Vec<RawDocumentBuf>> {
    let reader = Reader::Caller;
    let after = page.after.map(RevisionToken::revision);
    let full = page.limit as usize;
    if page.newest_first {
        let current = match after {
            None => find_current(shared, id, reader, session.as_deref_mut()).await?,
            Some(_) => None,
        };
        let mut rows = copies(shared, id, page, after, session).await?;
        if let Some(current) = current.filter(|current| is_after(shared, current, rows.first())) {
            rows.insert(0, current);
        }
        return Ok(rows);
    }
    let mut rows = copies(shared, id, page, after, session.as_deref_mut()).await?;
    if rows.len() > full {
        return Ok(rows);
    }
    let Some(current) = find_current(shared, id, reader, session.as_deref_mut()).await? else {
        return Ok(rows);
    };
    if is_after(shared, &current, rows.last()) && is_beyond(shared, &current, after) {
        // The copies of all earlier revisions are stored by now.
        let last = rows.last().and_then(|row| Head::of(&shared.settings, row));
        let last = last.map(|last| last.revision).or(after);
        rows.extend(copies(shared, id, page, last, session).await?);
        if is_after(shared, &current, rows.last()) {
            rows.push(current);
        }
    }
    Ok(rows)
}

/// Returns whether a current document has a later revision than a copy.
fn is_after(shared: &Shared, current: &RawDocument, copy: Option<&RawDocumentBuf>) -> bool {
    let revision = |document: &RawDocument| Head::of(&shared.settings, document).map_or(0, |head| head.revision);
    revision(current) > copy.map_or(0, |copy| revision(copy))
}

fn is_beyond(shared: &Shared, current: &RawDocument, position: Option<u64>) -> bool {
    Head::of(&shared.settings, current).is_some_and(|head| head.revision > position.unwrap_or(0))
}

/// Reads the copies after a position, at most one more than a page has.
async fn copies(
    shared: &Shared,
    id: &Bson,
    page: Page,
    after: Option<u64>,
    session: Option<&mut Session<'_>>,
) -> Result<Vec<RawDocumentBuf>> {
    let settings = &shared.settings;
    let filter = query::beyond(settings, id, after, page.newest_first);
    let options = options::find_page(settings, page.limit.saturating_add(1), page.newest_first);
    let found = send::find_all(session, &shared.revisions, filter, options).await;
    found.map_err(|error| hinted(error, &settings.revision_index))
}
