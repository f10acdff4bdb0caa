//! Overflow documents: new ones, and rewritten ones.

use mongo_patterns_core::array::{Encoded, append_array};
use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::{Error, Result};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::raw::{CString, RawArrayBuf};
use mongodb::bson::{Bson, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, cstr};

use crate::form::layout::DOCUMENT_BYTES;
use crate::settings::Settings;

type BsonResult<T> = mongodb::error::Result<T>;

/// The most overflow documents of one insert. A broken connection leaves the outcome of one command unknown.
const DOCUMENTS: usize = 100;
/// About the most bytes of one insert.
const BYTES: usize = 16 * 1024 * 1024;

/// Returns the first elements that have at most this many bytes together, and at least one.
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

/// Returns new overflow documents from a position on, as many as one insert takes, and the number of elements in each.
pub(crate) fn new_documents(
    settings: &Settings,
    id: &Bson,
    first: i32,
    elements: &[Encoded],
) -> BsonResult<(Vec<RawDocumentBuf>, Vec<usize>)> {
    let (mut documents, mut counts) = (Vec::new(), Vec::new());
    let (mut seq, mut rest, mut bytes) = (first, elements, 0);
    while !rest.is_empty() && documents.len() < DOCUMENTS {
        let offered = rest.iter().take(settings.max_overflow_elements as usize);
        let count = within(offered, DOCUMENT_BYTES).count();
        let (chunk, after) = rest.split_at(count);
        bytes += chunk.iter().map(Encoded::bytes).sum::<usize>();
        if bytes > BYTES && !documents.is_empty() {
            break;
        }
        let document = new_head(settings, id, seq.into(), count)?;
        documents.push(append_array(document, settings.extras.as_str(), chunk.iter())?);
        counts.push(count);
        rest = after;
        seq = seq.saturating_add(1);
    }
    Ok((documents, counts))
}

/// Returns a new overflow document without elements.
pub(crate) fn new_empty(settings: &Settings, id: &Bson, seq: RawBson) -> BsonResult<RawDocumentBuf> {
    let mut document = new_head(settings, id, seq, 0)?;
    document.append(name(settings.extras.as_str())?, RawArrayBuf::new());
    Ok(document)
}

fn new_head(settings: &Settings, id: &Bson, seq: RawBson, count: usize) -> BsonResult<RawDocumentBuf> {
    let mut document = RawDocumentBuf::new();
    document.append(cstr!("_id"), ObjectId::new());
    document.append(name(settings.parent.as_str())?, RawBson::try_from(id.clone())?);
    document.append(name(settings.seq.as_str())?, seq);
    document.append(name(settings.count.as_str())?, int32(count));
    Ok(document)
}

/// The `_id`s of rewritten overflow documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ids {
    Kept,
    New,
}

/// Returns an overflow document with these elements. Where it replaces an old one, correct fields and the user's own fields
/// stay in place.
pub(crate) fn rewritten<'e>(
    settings: &Settings,
    id: &Bson,
    old: Option<&RawDocumentBuf>,
    ids: Ids,
    seq: usize,
    elements: impl ExactSizeIterator<Item = RawBsonRef<'e>>,
) -> BsonResult<RawDocumentBuf> {
    let (seq, count) = (int32(seq), int32(elements.len()));
    let mut array = RawArrayBuf::new();
    for element in elements {
        array.push(element);
    }
    let mut array = Some(array);
    let (mut has_id, mut has_seq, mut has_count) = (false, false, false);
    let mut document = RawDocumentBuf::new();
    for field in old.into_iter().flat_map(|old| old.iter()) {
        let (name, value) = field?;
        let mut integer = |has: &mut bool, number: i32| {
            *has = true;
            match stored_integer(value) {
                Some(stored) if stored == i64::from(number) => document.append(name, value),
                _ => document.append(name, number),
            }
        };
        if *name == *settings.seq.as_str() {
            integer(&mut has_seq, seq);
        } else if *name == *settings.count.as_str() {
            integer(&mut has_count, count);
        } else if *name == *settings.extras.as_str() {
            if let Some(array) = array.take() {
                document.append(name, array);
            }
        } else {
            let is_id = *name == *"_id";
            has_id |= is_id;
            match ids {
                Ids::New if is_id => document.append(name, ObjectId::new()),
                _ => document.append(name, value),
            }
        }
    }
    if !has_id {
        document.append(cstr!("_id"), ObjectId::new());
        document.append(name(settings.parent.as_str())?, RawBson::try_from(id.clone())?);
    }
    if !has_seq {
        document.append(name(settings.seq.as_str())?, seq);
    }
    if !has_count {
        document.append(name(settings.count.as_str())?, count);
    }
    if let Some(array) = array {
        document.append(name(settings.extras.as_str())?, array);
    }
    Ok(document)
}

/// Returns whether an overflow document has fields that are not of the pattern.
pub(crate) fn has_own_fields(settings: &Settings, document: &RawDocument) -> bool {
    let [parent, extras, seq, count] = settings.overflow_fields();
    let known = ["_id", parent, extras, seq, count];
    document
        .iter()
        .flatten()
        .any(|(name, _)| !known.contains(&name.as_str()))
}

/// Returns the position after this one.
pub(crate) fn next_position(id: &Bson, seq: i32) -> Result<i32> {
    seq.checked_add(1).ok_or_else(|| {
        Error::corrupt(
            id.clone(),
            "",
            "the newest overflow document has the last possible position, the rest was not stored: call repair()",
        )
    })
}

fn name(name: &str) -> BsonResult<CString> {
    Ok(CString::try_from(name)?)
}

fn int32(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
