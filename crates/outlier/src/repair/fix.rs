//! The rewrite of a list that puts all elements in place. Pure.

use std::collections::HashSet;

use mongo_patterns_core::rewrite::Changes;
use mongo_patterns_core::stored::id_of;
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, cstr, doc};

use crate::form::document::number;
use crate::form::equality;
use crate::form::layout::lay_out;
use crate::form::overflow::{Ids, has_own_fields, rewritten};
use crate::query::{Kept, array_of};
use crate::repair::check::{Flag, Main, Overflow, Summary, check};
use crate::repair::finding::{Finding, Unrepaired};
use crate::repository::Shared;
use crate::settings::Settings;

/// MongoDB's limit of a document.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// The bytes of an element in an array beside its value: its type, and its index up to the millionth, with its end.
const ELEMENT_HEAD: usize = 9;

/// The stored documents of a list.
#[derive(Default)]
pub(crate) struct Stored {
    /// What [`query::main_parts`](crate::query::main_parts) projects.
    pub(crate) main: Option<RawDocumentBuf>,
    pub(crate) overflow: Vec<RawDocumentBuf>,
}

/// The changes that put all elements of a list in place.
#[derive(Default)]
pub(crate) struct Fix {
    /// The findings before the changes.
    pub(crate) findings: Vec<Finding>,
    /// Whether the main document exists.
    pub(crate) has_main: bool,
    /// The fields of the main document to set, as expressions.
    pub(crate) main: Document,
    /// The changes of the overflow documents.
    pub(crate) changes: Changes,
    /// The position after the newest overflow document, if the rewrite must conflict with a push that opens it.
    pub(crate) claim: Option<i64>,
    pub(crate) clears_flag: bool,
    /// Why nothing is changed.
    pub(crate) unrepaired: Option<Unrepaired>,
    /// The number of elements in the main document after the changes.
    pub(crate) inline: u64,
    /// The number of elements in overflow documents after the changes.
    pub(crate) overflow: u64,
}

impl Fix {
    /// Returns whether nothing must be written.
    pub(crate) fn is_empty(&self) -> bool {
        self.main.is_empty() && self.changes.is_empty()
    }

    /// Returns the error of a call that cannot rewrite the list.
    pub(crate) fn refused(&self, left: Unrepaired, shared: &Shared, id: &Bson) -> Error {
        let kind = match left {
            Unrepaired::OwnFields => ErrorKind::Unsupported,
            Unrepaired::TooLarge => ErrorKind::TooLarge,
            Unrepaired::ArrayNotArray | Unrepaired::ElementsNotArray | Unrepaired::Orphaned => ErrorKind::Corrupt,
        };
        let error = Error::new(kind, format!("nothing of the document was changed: {left}"));
        let about = self.findings.iter().find(|finding| finding.problem.needs_hand());
        let settings = &shared.settings;
        match about {
            None => error.of_document(id.clone(), "_id"),
            Some(about) if about.namespace == settings.main => {
                error.of_document(about.document_id.clone(), settings.array.as_str())
            }
            Some(about) => error
                .of_document(about.document_id.clone(), settings.extras.as_str())
                .of_collection(&shared.overflow),
        }
    }
}

/// An element of a list.
struct Item<'s> {
    value: RawBsonRef<'s>,
    /// Its index in the array of the main document, if it is there.
    inline: Option<usize>,
}

/// Returns the changes for a list. Deletes orphaned overflow documents only with `delete_orphans`.
pub(crate) fn fix(settings: &Settings, id: &Bson, stored: Stored, delete_orphans: bool) -> Result<Fix> {
    let Stored { main, overflow } = stored;
    // An equality on the parent also matches the values of an array.
    let is_own =
        |document: &RawDocumentBuf| !matches!(document.get(settings.parent.as_str()), Ok(Some(RawBsonRef::Array(_))));
    let mut overflow: Vec<(Overflow, RawDocumentBuf)> = overflow
        .into_iter()
        .filter(is_own)
        .map(|document| (Overflow::of_document(settings, &document), document))
        .collect();
    overflow.sort_by_cached_key(|(summary, _)| summary.order());
    let (overflow, documents): (Vec<Overflow>, Vec<RawDocumentBuf>) = overflow.into_iter().unzip();
    let summary = Summary {
        id: id.clone(),
        main: main.as_deref().map(Main::of_parts),
        overflow,
        duplicates: duplicates(settings, main.as_deref(), &documents),
    };
    let mut fix = Fix {
        findings: check(settings, &summary),
        ..Fix::default()
    };
    let (Some(main), Some(of_main)) = (&main, &summary.main) else {
        if delete_orphans {
            fix.changes.removed = documents.iter().map(|document| id_of(document)).collect();
        } else {
            fix.unrepaired = (!documents.is_empty()).then_some(Unrepaired::Orphaned);
        }
        return Ok(fix);
    };
    fix.has_main = true;
    fix.unrepaired = if of_main.elements.is_none() {
        Some(Unrepaired::ArrayNotArray)
    } else if summary.overflow.iter().any(|document| document.elements.is_none()) {
        Some(Unrepaired::ElementsNotArray)
    } else {
        plan(settings, &summary, main, &documents, &mut fix)?
    };
    if fix.unrepaired.is_some() {
        fix.main.clear();
        fix.changes = Changes::default();
    }
    Ok(fix)
}

/// Plans the changes of a list whose elements are all in arrays. Returns the reason if there can be none.
fn plan(
    settings: &Settings,
    summary: &Summary,
    main: &RawDocument,
    documents: &[RawDocumentBuf],
    fix: &mut Fix,
) -> Result<Option<Unrepaired>> {
    let items = items_of(settings, main, documents)?;
    let sizes: Vec<usize> = items.iter().map(|item| size_of(item.value) + ELEMENT_HEAD).collect();
    let in_main = items.iter().filter(|item| item.inline.is_some()).count();
    let array_bytes = match main.get("array") {
        Ok(Some(RawBsonRef::Array(array))) => array.as_bytes().len(),
        _ => 0,
    };
    let layout = lay_out(
        settings.threshold as usize,
        settings.max_overflow_elements as usize,
        &sizes,
        in_main,
        number(main, "bytes").saturating_sub(array_bytes),
    );
    let (inline, overflow) = items.split_at(layout.inline);
    fix.inline = inline.len() as u64;
    fix.overflow = overflow.len() as u64;
    plan_main(settings, summary, inline, overflow, fix)?;
    // A concurrent push of a unique element must see that elements have joined the array.
    let has_joined = settings.unique && inline.iter().any(|item| item.inline.is_none());
    let ids = if has_joined { Ids::New } else { Ids::Kept };

    let mut rest = overflow;
    for (seq, count) in layout.overflow.iter().enumerate() {
        let (chunk, after) = rest.split_at(*count);
        rest = after;
        let old = documents.get(seq);
        let new = rewritten(
            settings,
            &summary.id,
            old,
            ids,
            seq,
            chunk.iter().map(|item| item.value),
        )?;
        if old.is_some_and(|old| old.as_bytes() == new.as_bytes()) {
            continue;
        }
        if new.as_bytes().len() > MAX_BYTES {
            return Ok(Some(Unrepaired::TooLarge));
        }
        fix.changes.removed.extend(old.map(|old| id_of(old)));
        fix.changes.written.push(new);
    }
    for old in documents.iter().skip(layout.overflow.len()) {
        if has_own_fields(settings, old) {
            return Ok(Some(Unrepaired::OwnFields));
        }
        fix.changes.removed.push(id_of(old));
    }
    let parent = doc! { "$eq": &summary.id };
    fix.changes.filter = doc! { settings.parent.as_str(): parent };
    let newest = summary.overflow.iter().filter_map(|document| document.seq).max();
    let newest = newest.unwrap_or(-1);
    let positions = i64::try_from(layout.overflow.len()).unwrap_or(i64::MAX);
    if fix.clears_flag || documents.len() > layout.overflow.len() || positions <= newest {
        fix.claim = newest.checked_add(1);
    }
    Ok(None)
}

/// Plans the changes of the main document: the elements that must join its array or leave it, and the flag.
fn plan_main(
    settings: &Settings,
    summary: &Summary,
    inline: &[Item<'_>],
    overflow: &[Item<'_>],
    fix: &mut Fix,
) -> mongodb::error::Result<()> {
    let main = summary.main.as_ref();
    let stored = main.and_then(|main| main.elements).unwrap_or(0);
    let stored = usize::try_from(stored).unwrap_or(usize::MAX);
    let in_place = inline.iter().enumerate();
    let stay = in_place.take_while(|(index, item)| item.inline == Some(*index)).count();
    let added = inline[stay..].iter().map(|item| item.value.try_into());
    let added: Vec<Bson> = added.collect::<std::result::Result<_, _>>()?;
    if stay < stored || !added.is_empty() || main.is_some_and(|main| main.is_null) {
        let kept = match i32::try_from(stay) {
            Ok(first) if stay < stored => Kept::First(first),
            _ => Kept::All,
        };
        let array = array_of(settings, kept, &added);
        fix.main.insert(settings.array.as_str(), array);
    }
    let flag = main.map_or(Flag::Clear, |main| main.flag);
    if overflow.is_empty() && flag != Flag::Clear {
        fix.main.insert(settings.flag.as_str(), "$$REMOVE");
        fix.clears_flag = true;
    } else if !overflow.is_empty() && flag != Flag::Set {
        fix.main.insert(settings.flag.as_str(), true);
    }
    Ok(())
}

/// Returns all elements, in order. Where they are unique, without duplicates.
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
        items.retain(|item| seen.insert(equality::form(item.value)));
    }
    Ok(items)
}

/// Returns the number of unique elements that are equal to an earlier one.
fn duplicates(settings: &Settings, main: Option<&RawDocument>, documents: &[RawDocumentBuf]) -> u64 {
    if !settings.unique {
        return 0;
    }
    let of_main = main.and_then(|main| main.get_array("array").ok());
    let of_overflow = documents
        .iter()
        .filter_map(|document| document.get_array(settings.extras.as_str()).ok());
    let elements = of_main.into_iter().chain(of_overflow).flatten().flatten();
    let mut seen = HashSet::new();
    elements
        .filter(|element| !seen.insert(equality::form(*element)))
        .count() as u64
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

#[cfg(test)]
mod tests;
