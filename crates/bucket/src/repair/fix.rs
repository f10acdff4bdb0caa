//! How the buckets of a key are mended, as far as that needs no guess. Pure.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

use mongo_patterns_core::rewrite::Changes;
use mongo_patterns_core::{EncodedKey, ErrorKind, Key, Result};
use mongodb::bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use crate::form::chain::{Chain, StoredItem};
use crate::form::id::{self, Tail};
use crate::form::layout::Page;
use crate::repair::check::{self, Look, Place, check};
use crate::settings::Settings;
use crate::{Finding, Problem};

/// Why something was left as it is. Its text says what to do, and holds no user value.
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_bucket::{BucketRepository, Unrepaired};
/// # use mongodb::bson::Document;
/// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
/// let mut keys = trades.repair().stream();
/// while let Some(repaired) = keys.try_next().await? {
///     match repaired.left {
///         Some(Unrepaired::TooLarge) => println!("use smaller pages"),
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
    /// It is undecidable which key a bucket belongs to: its `_id` and its key field name different ones, or neither
    /// names one. Nothing of the key was changed.
    AmbiguousKey,
    /// The items of a bucket are no array. Nothing of the key was changed.
    ItemsNotArray,
    /// A bucket's place among those of its key is unknown: its `_id` has no second before the year 2286, and its first
    /// item no time. Nothing of the key was changed.
    UnknownPosition,
    /// Items of the key have the same id, and are different. Nothing of the key was changed.
    ItemsDiffer,
    /// Items have no id. All else of the key was mended.
    NoItemId,
    /// Items are `null`, or have no date in the time field. All else of the key was repaired.
    UnreadableItems,
    /// A bucket would go away that has fields of the user's own. Nothing of the key was changed.
    OwnFields,
    /// A page of the items would pass 16 MiB. Nothing of the key was changed.
    TooLarge,
    /// A second would need more than 1,000,000 buckets. Nothing of the key was changed.
    SuffixesExhausted,
}

impl fmt::Display for Unrepaired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AmbiguousKey => "whose items they are is undecidable: set the key field of the bucket that does not belong there, or its `_id`, by hand",
            Self::ItemsNotArray => "a bucket's items are no array: correct them by hand",
            Self::UnknownPosition => "a bucket's place is unknown: give its `_id` the second at which it was opened, by hand",
            Self::ItemsDiffer => "different items have the same id: change the id of one, or remove one, by hand",
            Self::NoItemId => "items have no usable id: give them one by hand",
            Self::UnreadableItems => "items are null, or have no BSON date in the time field: correct or remove them by hand",
            Self::OwnFields => "a bucket would go away that has fields of your own: move them to another bucket of the key, or remove them",
            Self::TooLarge => "a page of these items would pass 16 MiB: use a smaller page size",
            Self::SuffixesExhausted => "a second of the key has 1,000,000 buckets, and no more fit: use a larger page size",
        })
    }
}

/// What is to be done for a key.
pub(crate) struct Mending {
    /// What is wrong.
    pub(crate) findings: Vec<Finding>,
    pub(crate) changes: Changes,
    pub(crate) left: Option<Unrepaired>,
    /// How many items there are afterwards.
    pub(crate) items: u64,
}

/// Decides what is to be done, given all documents that may be buckets of the key.
///
/// # Errors
/// When they are not valid BSON.
pub(crate) fn mend<K: Key>(settings: &Settings, key: &EncodedKey, found: Vec<RawDocumentBuf>) -> Result<Mending> {
    let mut undecided = false;
    let mut buckets = Vec::new();
    for document in found {
        let look = Look::of_bucket::<K>(settings, &document);
        let disagrees = look.belongs.problems.contains(&Problem::KeyDisagrees);
        let type_differs = look.belongs.problems.contains(&Problem::KeyType);
        if look.key_text() == Some(key.text()) {
            undecided |= disagrees || (type_differs && !says_the_same(settings, key, &document));
            buckets.push((look, document));
        } else {
            // It has an `_id` of this key. With a hand-written one of another key it only looks so.
            undecided |= disagrees;
        }
    }
    buckets.sort_by_cached_key(|(look, _)| look.place());
    let (looks, documents): (Vec<Look>, Vec<RawDocumentBuf>) = buckets.into_iter().unzip();
    let findings = check(settings, &looks);
    let is_any = |of: fn(&Problem) -> bool| findings.iter().any(|finding| of(&finding.problem));
    let left = if is_any(|problem| matches!(problem, Problem::ItemIdMissing { .. })) {
        Some(Unrepaired::NoItemId)
    } else {
        is_any(Problem::is_of_an_item).then_some(Unrepaired::UnreadableItems)
    };
    let mut mending = Mending {
        left,
        findings,
        changes: Changes::default(),
        items: 0,
    };
    if mending.findings.is_empty() {
        return Ok(mending);
    }
    if undecided {
        mending.left = Some(Unrepaired::AmbiguousKey);
    } else if looks.iter().any(|look| look.items.is_none()) {
        mending.left = Some(Unrepaired::ItemsNotArray);
    } else {
        let left = plan(settings, key, &looks, documents, &mut mending)?;
        mending.left = left.or(mending.left);
    }
    Ok(mending)
}

/// Whether a key field of another type has the key's text all the same, as `"123"` for 123.
fn says_the_same(settings: &Settings, key: &EncodedKey, document: &RawDocument) -> bool {
    document
        .get_str(settings.key.as_str())
        .is_ok_and(|text| text == key.text())
}

/// Plans the changes for buckets whose items are known. Returns why there are none, where that is so.
fn plan(
    settings: &Settings,
    key: &EncodedKey,
    looks: &[Look],
    documents: Vec<RawDocumentBuf>,
    mending: &mut Mending,
) -> Result<Option<Unrepaired>> {
    let mut placed: Vec<(Place, String, RawDocumentBuf)> = Vec::new();
    for (look, document) in looks.iter().zip(documents) {
        let tail = look.belongs.tail.as_deref().and_then(Tail::parse);
        let tail = tail
            .and_then(Tail::normal)
            .or_else(|| second_of_first(settings, &document));
        let mut place = look.place();
        let tail = match tail {
            Some(tail) => {
                if place.0 > 0 {
                    // Also where the `_id` told none, or one that is out of range.
                    (place.0, place.1) = Tail::parse(&tail).map_or((0, 0), |tail| (tail.number(), tail.suffix));
                }
                tail
            }
            // What has no items goes away from wherever it is.
            None if look.items == Some(0) => {
                place.0 = i128::MIN;
                String::new()
            }
            None => return Ok(Some(Unrepaired::UnknownPosition)),
        };
        placed.push((place, tail, document));
    }
    placed.sort_by(|a, b| a.0.cmp(&b.0));
    let in_order = placed.is_sorted_by(|a, b| a.1 < b.1);
    let mut chain = Chain::new(settings, key);
    for (_, tail, document) in placed {
        chain.push_as(document, tail);
    }
    let mut items = chain.items()?;
    if let Some(field) = &settings.item_id {
        items = match without_doubles(items, field.as_str()) {
            Some(items) => items,
            None => return Ok(Some(Unrepaired::ItemsDiffer)),
        };
    }
    let moves = mending.findings.iter().any(|finding| {
        use Problem::{Empty, ItemIdDoubled, NotFull, OverFull, SeveralOpen};
        matches!(
            finding.problem,
            Empty | OverFull { .. } | SeveralOpen { .. } | NotFull { .. } | ItemIdDoubled { .. }
        )
    });
    let changes = if moves || !in_order {
        chain.plan(&items)
    } else {
        chain.changes(&items, &as_they_are(&chain, &items))
    };
    match changes {
        Ok(changes) => {
            mending.items = items.len() as u64;
            mending.changes = changes;
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

/// Of items that are there more than once, byte by byte, the first. `None` when different items have the same id.
fn without_doubles<'c>(items: Vec<StoredItem<'c>>, field: &str) -> Option<Vec<StoredItem<'c>>> {
    let mut seen: HashMap<check::ItemId, RawBsonRef<'c>> = HashMap::new();
    let mut kept = Vec::with_capacity(items.len());
    for item in items {
        let id = item.value.as_document().and_then(|item| item.get(field).ok().flatten());
        match id.and_then(check::item_id).map(|id| seen.entry(id)) {
            Some(Entry::Occupied(first)) if *first.get() == item.value => continue,
            Some(Entry::Occupied(_)) => return None,
            Some(Entry::Vacant(vacant)) => {
                vacant.insert(item.value);
            }
            None => {}
        }
        kept.push(item);
    }
    Some(kept)
}

/// A page for each bucket, with the items that it has.
fn as_they_are(chain: &Chain<'_>, items: &[StoredItem<'_>]) -> Vec<Page> {
    let mut start = 0;
    let pages = chain.tails().iter().enumerate().map(|(bucket, tail)| {
        let end = start + items[start..].iter().take_while(|item| item.bucket == bucket).count();
        let page = Page {
            tail: tail.clone(),
            items: start..end,
            continues: Some(bucket),
        };
        start = end;
        page
    });
    pages.collect()
}
