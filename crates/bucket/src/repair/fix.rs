//! Plans the repair of the buckets of a key, as far as it needs no guess. Pure.

use mongo_patterns_core::rewrite::Changes;
use mongo_patterns_core::{EncodedKey, ErrorKind, Key, Result};
use mongodb::bson::{RawDocument, RawDocumentBuf};

use crate::form::chain::{Chain, without_duplicates};
use crate::form::id::{self, Tail};
use crate::repair::check::{Position, Summary, check};
use crate::repair::finding::{Finding, Problem, Unrepaired};
use crate::settings::Settings;

/// The planned repair of a key.
pub(crate) struct Fix {
    pub(crate) findings: Vec<Finding>,
    pub(crate) changes: Changes,
    pub(crate) unrepaired: Option<Unrepaired>,
    /// The number of items afterwards.
    pub(crate) items: u64,
}

/// Plans the repair, given all documents that can be buckets of the key.
pub(crate) fn fix<K: Key>(settings: &Settings, key: &EncodedKey, documents: Vec<RawDocumentBuf>) -> Result<Fix> {
    let mut is_ambiguous = false;
    let mut buckets = Vec::new();
    for document in documents {
        let summary = Summary::of_bucket::<K>(settings, &document);
        let mismatches = summary.identity.problems.contains(&Problem::KeyMismatch);
        let type_differs = summary.identity.problems.contains(&Problem::KeyType);
        if summary.key_text() == Some(key.text()) {
            is_ambiguous |= mismatches || type_differs;
            buckets.push((summary, document));
        } else {
            // Its `_id` is of this key, or it is a hand-written one of another key, which only starts alike.
            is_ambiguous |= mismatches;
        }
    }
    buckets.sort_by_cached_key(|(summary, _)| summary.position());
    let (summaries, documents): (Vec<Summary>, Vec<RawDocumentBuf>) = buckets.into_iter().unzip();
    let findings = check(settings, &summaries);
    let is_any = |of: fn(&Problem) -> bool| findings.iter().any(|finding| of(&finding.problem));
    let unrepaired = if is_any(|problem| matches!(problem, Problem::ItemIdMissing { .. })) {
        Some(Unrepaired::NoItemId)
    } else {
        is_any(Problem::is_of_items).then_some(Unrepaired::UnreadableItems)
    };
    let mut fix = Fix {
        unrepaired,
        findings,
        changes: Changes::default(),
        items: 0,
    };
    if fix.findings.is_empty() {
        return Ok(fix);
    }
    if is_ambiguous {
        fix.unrepaired = Some(Unrepaired::AmbiguousKey);
    } else if summaries.iter().any(|summary| summary.items.is_none()) {
        fix.unrepaired = Some(Unrepaired::ItemsNotArray);
    } else {
        let unrepaired = plan(settings, key, &summaries, documents, &mut fix)?;
        fix.unrepaired = unrepaired.or(fix.unrepaired);
    }
    Ok(fix)
}

/// Plans the changes of buckets whose items are arrays. Returns the reason if there are none.
fn plan(
    settings: &Settings,
    key: &EncodedKey,
    summaries: &[Summary],
    documents: Vec<RawDocumentBuf>,
    fix: &mut Fix,
) -> Result<Option<Unrepaired>> {
    let mut placed: Vec<(Position, String, RawDocumentBuf)> = Vec::new();
    for (summary, document) in summaries.iter().zip(documents) {
        let tail = summary.identity.tail.as_deref().and_then(Tail::parse);
        let tail = tail
            .and_then(Tail::normalized)
            .or_else(|| second_of_first(settings, &document));
        let mut position = summary.position();
        let tail = match tail {
            Some(tail) => {
                if position.0 > 0 {
                    // Also if the `_id` has no second, or one that is out of range.
                    (position.0, position.1) = Tail::parse(&tail).map_or((0, 0), |tail| (tail.number(), tail.suffix));
                }
                tail
            }
            // A bucket without items is removed from any position.
            None if summary.items == Some(0) => {
                position.0 = i128::MIN;
                String::new()
            }
            None => return Ok(Some(Unrepaired::UnknownPosition)),
        };
        placed.push((position, tail, document));
    }
    placed.sort_by(|a, b| a.0.cmp(&b.0));
    let in_order = placed.is_sorted_by(|a, b| a.1 < b.1);
    let mut chain = Chain::new(settings, key);
    for (_, tail, document) in placed {
        chain.push_as(document, tail);
    }
    let mut items = chain.items()?;
    if let Some(field) = &settings.item_id {
        items = match without_duplicates(items, field.as_str()) {
            Some(items) => items,
            None => return Ok(Some(Unrepaired::ItemsDiffer)),
        };
    }
    let moves_items = fix.findings.iter().any(|finding| {
        use Problem::{DuplicateItemId, Empty, TooManyItems};
        matches!(finding.problem, Empty | TooManyItems { .. } | DuplicateItemId { .. })
    });
    let count = items.len() as u64;
    // The tails are those after the repair: a corrected `_id` can move a bucket to another window.
    let changes = if moves_items || !in_order || chain.has_items_outside(&items) || chain.has_several_open(&items) {
        chain.plan(&chain.by_windows(items))
    } else {
        chain.plan_in_place(&items)
    };
    match changes {
        Ok(changes) => {
            fix.items = count;
            fix.changes = changes;
            Ok(None)
        }
        Err(error) => match error.kind() {
            ErrorKind::Unsupported => Ok(Some(Unrepaired::OwnFields)),
            ErrorKind::TooLarge => Ok(Some(Unrepaired::TooLarge)),
            ErrorKind::InvalidTime => Ok(Some(Unrepaired::SuffixesExhausted)),
            _ => Err(error),
        },
    }
}

fn second_of_first(settings: &Settings, bucket: &RawDocument) -> Option<String> {
    let items = bucket.get_array(settings.items.as_str()).ok()?;
    let first = items.get_document(0).ok()?;
    let time = first.get_datetime(settings.time.as_ref()?.as_str()).ok()?;
    id::second_text(time).ok()
}
