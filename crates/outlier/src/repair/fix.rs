//! How a document and its extras are written anew, so that all elements are where they belong. Pure.

use std::collections::HashSet;
use std::fmt;

use mongo_patterns_core::Result;
use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::rewrite::Changes;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::raw::{CString, RawArrayBuf};
use mongodb::bson::{Bson, Document, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, cstr, doc};

use crate::form::document::id_of;
use crate::form::equality as same;
use crate::form::layout::lay_out;
use crate::query::repair::{Kept, array_of};
use crate::repair::check::{Extra, Flag, Look, Main, check};
use crate::repair::finding::Finding;
use crate::settings::Settings;

/// MongoDB's limit of a document.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// What an element of an array has beside its value: its type, and its index up to the millionth, with its end.
const ELEMENT_HEAD: usize = 9;

/// Why something was left as it is. Its text says what to do, and holds no user value.
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_outlier::{Unrepaired, OutlierRepository};
/// # use mongodb::bson::Document;
/// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
/// let mut documents = books.repair().stream();
/// while let Some(repaired) = documents.try_next().await? {
///     match repaired.left {
///         Some(Unrepaired::Orphaned) => println!("extras of no book: delete_orphans() deletes them"),
///         Some(left) => println!("{left}"),
///         None => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unrepaired {
    /// The extras belong to no document. They were not deleted, since elements are in them.
    Orphaned,
    /// The array field of the main document is no array. Nothing of the document was changed.
    ArrayNotArray,
    /// The elements of an extras document are no array. Nothing of the document was changed.
    ElementsNotArray,
    /// An extras document would go away that has fields of the user's own. Nothing of the document was changed.
    OwnFields,
    /// An extras document would pass 16 MiB. Nothing of the document was changed.
    TooLarge,
    /// It takes a transaction, and a standalone server has none. What single commands can mend was mended.
    NeedsTransaction,
}

impl fmt::Display for Unrepaired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Orphaned => "the extras belong to no document: call delete_orphans() to delete them, or insert it again without its array, and repair it",
            Self::ArrayNotArray => "the array field is no array: correct it by hand",
            Self::ElementsNotArray => "the elements of an extras document are no array: correct them by hand",
            Self::OwnFields => "an extras document would go away that has fields of your own: move them to another one of the document, or remove them",
            Self::TooLarge => "an extras document would pass 16 MiB: move fields of your own out of it",
            Self::NeedsTransaction => "this needs a transaction, and a standalone server has none: make it a replica set, of one node if need be",
        })
    }
}

/// What is stored of a document.
#[derive(Default)]
pub(crate) struct Stored {
    /// What [`main_parts`](crate::query::repair::main_parts) projects.
    pub(crate) main: Option<RawDocumentBuf>,
    pub(crate) extras: Vec<RawDocumentBuf>,
}

/// What is to be done for a document.
#[derive(Default)]
pub(crate) struct Mending {
    /// What is wrong.
    pub(crate) findings: Vec<Finding>,
    /// Whether there is a main document.
    pub(crate) found: bool,
    /// What is to be set in the main document, by a pipeline.
    pub(crate) main: Document,
    /// What is to be written to the extras.
    pub(crate) changes: Changes,
    /// The place after the newest of the extras, when a push that opens it at the same moment must not be missed.
    pub(crate) claim: Option<i64>,
    /// Whether the flag goes.
    pub(crate) clears_flag: bool,
    pub(crate) left: Option<Unrepaired>,
    /// How many elements are in the main document then.
    pub(crate) inline: u64,
    /// How many elements are in the extras then.
    pub(crate) overflow: u64,
}

impl Mending {
    /// Whether nothing must be written.
    pub(crate) fn is_empty(&self) -> bool {
        self.main.is_empty() && self.changes.is_empty()
    }

    /// How many extras documents go away.
    pub(crate) fn removed(&self) -> u64 {
        let written: Vec<Bson> = self.changes.written.iter().map(|document| id_of(document)).collect();
        let removed = self.changes.removed.iter().filter(|id| !written.contains(id));
        removed.count() as u64
    }
}

/// An element, and where it is.
struct Item<'s> {
    value: RawBsonRef<'s>,
    /// Its place in the array of the main document, if it is there.
    inline: Option<usize>,
}

/// Decides what is to be done. Extras that belong to no document go only where that is asked for.
///
/// # Errors
/// When what is stored is not valid BSON.
pub(crate) fn mend(settings: &Settings, id: &Bson, stored: Stored, delete_orphans: bool) -> Result<Mending> {
    let Stored { main, extras } = stored;
    let is_own =
        |document: &RawDocumentBuf| !matches!(document.get(settings.parent.as_str()), Ok(Some(RawBsonRef::Array(_))));
    let mut extras: Vec<(Extra, RawDocumentBuf)> = extras
        .into_iter()
        .filter(is_own)
        .map(|document| (Extra::of_document(settings, &document), document))
        .collect();
    extras.sort_by_cached_key(|(extra, _)| extra.order());
    let (of_extras, documents): (Vec<Extra>, Vec<RawDocumentBuf>) = extras.into_iter().unzip();
    let look = Look {
        id: id.clone(),
        main: main.as_deref().map(Main::of_parts),
        extras: of_extras,
        doubled: doubled(settings, main.as_deref(), &documents),
    };
    let mut mending = Mending {
        findings: check(settings, &look),
        ..Mending::default()
    };
    let (Some(main), Some(of_main)) = (&main, &look.main) else {
        if delete_orphans {
            mending.changes.removed = documents.iter().map(|document| id_of(document)).collect();
        } else {
            mending.left = (!documents.is_empty()).then_some(Unrepaired::Orphaned);
        }
        return Ok(mending);
    };
    mending.found = true;
    mending.left = if of_main.elements.is_none() {
        Some(Unrepaired::ArrayNotArray)
    } else if look.extras.iter().any(|extra| extra.elements.is_none()) {
        Some(Unrepaired::ElementsNotArray)
    } else {
        plan(settings, &look, main, &documents, &mut mending)?
    };
    if mending.left.is_some() {
        mending.main.clear();
        mending.changes = Changes::default();
    }
    Ok(mending)
}

/// Plans the changes where all elements are known. Returns why there are none, where that is so.
fn plan(
    settings: &Settings,
    look: &Look,
    main: &RawDocument,
    documents: &[RawDocumentBuf],
    mending: &mut Mending,
) -> Result<Option<Unrepaired>> {
    let items = items_of(settings, main, documents)?;
    let stored_inline = look.main.as_ref().and_then(|main| main.elements).unwrap_or(0);
    let stored_inline = usize::try_from(stored_inline).unwrap_or(usize::MAX);
    let sizes: Vec<usize> = items.iter().map(|item| size_of(item.value) + ELEMENT_HEAD).collect();
    let in_main = items.iter().filter(|item| item.inline.is_some()).count();
    let array_bytes = match main.get("array") {
        Ok(Some(RawBsonRef::Array(array))) => array.as_bytes().len(),
        _ => 0,
    };
    let bytes = main.get("bytes").ok().flatten().and_then(stored_integer);
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0);
    let layout = lay_out(
        settings.threshold as usize,
        settings.max_extras_elements as usize,
        &sizes,
        in_main,
        bytes.saturating_sub(array_bytes),
    );
    let (inline, overflow) = items.split_at(layout.inline);
    mending.inline = inline.len() as u64;
    mending.overflow = overflow.len() as u64;

    let stay = inline
        .iter()
        .enumerate()
        .take_while(|(index, item)| item.inline == Some(*index));
    let stay = stay.count();
    let added: Vec<Bson> = inline[stay..]
        .iter()
        .map(|item| item.value.try_into().map_err(mongodb::error::Error::from))
        .collect::<mongodb::error::Result<_>>()?;
    let is_null = look.main.as_ref().is_some_and(|main| main.is_null);
    if stay < stored_inline || !added.is_empty() || is_null {
        let kept = match i32::try_from(stay) {
            Ok(first) if stay < stored_inline => Kept::First(first),
            _ => Kept::All,
        };
        let array = array_of(settings, kept, &added);
        mending.main.insert(settings.array.as_str(), array);
    }
    let flag = look.main.as_ref().map_or(Flag::Clear, |main| main.flag);
    if overflow.is_empty() && flag != Flag::Clear {
        mending.main.insert(settings.flag.as_str(), "$$REMOVE");
        mending.clears_flag = true;
    } else if !overflow.is_empty() && flag != Flag::Set {
        mending.main.insert(settings.flag.as_str(), true);
    }

    let mut rest = overflow;
    for (seq, count) in layout.extras.iter().enumerate() {
        let (chunk, after) = rest.split_at(*count);
        rest = after;
        let old = documents.get(seq);
        let new = extras_document(settings, &look.id, old, seq, chunk)?;
        if old.is_some_and(|old| old.as_bytes() == new.as_bytes()) {
            continue;
        }
        if new.as_bytes().len() > MAX_BYTES {
            return Ok(Some(Unrepaired::TooLarge));
        }
        mending.changes.removed.extend(old.map(|old| id_of(old)));
        mending.changes.written.push(new);
    }
    for old in documents.iter().skip(layout.extras.len()) {
        if has_other_fields(settings, old) {
            return Ok(Some(Unrepaired::OwnFields));
        }
        mending.changes.removed.push(id_of(old));
    }
    let parent = doc! { "$eq": &look.id };
    mending.changes.filter = doc! { settings.parent.as_str(): parent };
    let newest = look.extras.iter().filter_map(|extra| extra.seq).max().unwrap_or(-1);
    let places = i64::try_from(layout.extras.len()).unwrap_or(i64::MAX);
    if mending.clears_flag || documents.len() > layout.extras.len() || places <= newest {
        mending.claim = newest.checked_add(1);
    }
    Ok(None)
}

/// All elements, in order. Where they are unique, each once.
fn items_of<'s>(
    settings: &Settings,
    main: &'s RawDocument,
    documents: &'s [RawDocumentBuf],
) -> mongodb::error::Result<Vec<Item<'s>>> {
    let mut items = Vec::new();
    for (index, value) in main.get_array("array").into_iter().flatten().enumerate() {
        items.push(Item {
            value: value?,
            inline: Some(index),
        });
    }
    for document in documents {
        for value in document.get_array(settings.extras.as_str()).into_iter().flatten() {
            items.push(Item {
                value: value?,
                inline: None,
            });
        }
    }
    if settings.unique {
        let mut seen = HashSet::new();
        items.retain(|item| seen.insert(same::form(item.value)));
    }
    Ok(items)
}

/// How many elements are equal to one before them, where they are unique.
fn doubled(settings: &Settings, main: Option<&RawDocument>, documents: &[RawDocumentBuf]) -> u64 {
    if !settings.unique {
        return 0;
    }
    let of_main = main.and_then(|main| main.get_array("array").ok());
    let of_extras = documents
        .iter()
        .filter_map(|document| document.get_array(settings.extras.as_str()).ok());
    let elements = of_main.into_iter().chain(of_extras).flatten().flatten();
    let mut seen = HashSet::new();
    elements.filter(|element| !seen.insert(same::form(*element))).count() as u64
}

fn size_of(value: RawBsonRef<'_>) -> usize {
    match value {
        RawBsonRef::Document(document) => document.as_bytes().len(),
        RawBsonRef::Array(array) => array.as_bytes().len(),
        RawBsonRef::String(text) => text.len() + 5,
        RawBsonRef::Binary(binary) => binary.bytes.len() + 5,
        RawBsonRef::Int32(_)
        | RawBsonRef::Int64(_)
        | RawBsonRef::Double(_)
        | RawBsonRef::ObjectId(_)
        | RawBsonRef::DateTime(_) => 12,
        other => {
            let mut document = RawDocumentBuf::new();
            document.append(cstr!("i"), other);
            document.as_bytes().len()
        }
    }
}

fn has_other_fields(settings: &Settings, document: &RawDocument) -> bool {
    let Settings {
        parent,
        extras,
        seq,
        count,
        ..
    } = settings;
    let own = ["_id", parent.as_str(), extras.as_str(), seq.as_str(), count.as_str()];
    document.iter().flatten().any(|(name, _)| !own.contains(&name.as_str()))
}

/// An extras document with these elements, on the base of an old one: what is right in there stays as it is, in its
/// place.
fn extras_document(
    settings: &Settings,
    id: &Bson,
    old: Option<&RawDocumentBuf>,
    seq: usize,
    items: &[Item<'_>],
) -> mongodb::error::Result<RawDocumentBuf> {
    let integer = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let (seq, count) = (integer(seq), integer(items.len()));
    let mut array = RawArrayBuf::new();
    for item in items {
        array.push(item.value);
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
            has_id |= *name == *"_id";
            document.append(name, value);
        }
    }
    let name = |name: &str| CString::try_from(name);
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

#[cfg(test)]
mod tests;
