//! New extras documents.

use mongo_patterns_core::array::{Encoded, append_array};
use mongo_patterns_core::{Error, Result};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::raw::CString;
use mongodb::bson::{Bson, RawBson, RawDocumentBuf, cstr};

use crate::repository::Shared;

/// What goes out in one command, at most. A broken connection leaves the outcome of one command unknown.
const DOCUMENTS: usize = 100;
const BYTES: usize = 16 * 1024 * 1024;
/// How large a new extras document gets, at most.
pub(crate) const DOCUMENT_BYTES: usize = 8 * 1024 * 1024;

/// The elements that are so many bytes together, and one at least.
pub(crate) fn within<'e>(
    elements: impl Iterator<Item = &'e Encoded>,
    bytes: usize,
) -> impl Iterator<Item = &'e Encoded> {
    let mut sum = 0;
    elements.enumerate().map_while(move |(index, element)| {
        sum += element.bytes();
        (index == 0 || sum <= bytes).then_some(element)
    })
}

/// New extras documents from a place on, as many as go out in one command, and how many elements each has.
pub(crate) fn extras_documents(
    shared: &Shared,
    id: &Bson,
    first: i32,
    elements: &[Encoded],
) -> mongodb::error::Result<(Vec<RawDocumentBuf>, Vec<usize>)> {
    let settings = &shared.settings;
    let (mut documents, mut counts) = (Vec::new(), Vec::new());
    let (mut seq, mut rest, mut bytes) = (first, elements, 0);
    while !rest.is_empty() && documents.len() < DOCUMENTS {
        let offered = rest.iter().take(settings.max_extras_elements as usize);
        let count = within(offered, DOCUMENT_BYTES).count();
        let (page, after) = rest.split_at(count);
        bytes += page.iter().map(Encoded::bytes).sum::<usize>();
        if bytes > BYTES && !documents.is_empty() {
            break;
        }
        let name = |name: &str| CString::try_from(name);
        let mut document = RawDocumentBuf::new();
        document.append(cstr!("_id"), ObjectId::new());
        document.append(name(settings.parent.as_str())?, RawBson::try_from(id.clone())?);
        document.append(name(settings.seq.as_str())?, seq);
        document.append(name(settings.count.as_str())?, i32::try_from(count).unwrap_or(i32::MAX));
        documents.push(append_array(document, settings.extras.as_str(), page.iter())?);
        counts.push(count);
        rest = after;
        seq = seq.saturating_add(1);
    }
    Ok((documents, counts))
}

/// The position after this one.
pub(crate) fn next_place(id: &Bson, seq: i32) -> Result<i32> {
    seq.checked_add(1).ok_or_else(|| {
        Error::corrupt(
            id.clone(),
            "seq",
            "the place of the newest extras document is the last possible one: repair it",
        )
    })
}
