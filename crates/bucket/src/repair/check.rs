//! Finds the problems of the buckets of a key. Pure.

use std::collections::{HashMap, HashSet};

use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::{EncodedKey, Key};
use mongodb::bson::{Bson, DateTime, RawBsonRef, RawDocument};

use crate::form::document::id_of;
use crate::form::id::{Tail, key_of_id};
use crate::form::item_id::ItemId;
use crate::form::window::start;
use crate::repair::finding::{Finding, Problem};
use crate::settings::Settings;
use crate::settings::figures::Figures;

/// The key of a stored document, by its `_id` and its key field.
pub(crate) struct Identity {
    pub(crate) key: Option<EncodedKey>,
    /// The tail of its `_id`, in any form.
    pub(crate) tail: Option<String>,
    pub(crate) problems: Vec<Problem>,
}

impl Identity {
    pub(crate) fn of_document<K: Key>(id: &Bson, field: Option<RawBsonRef<'_>>) -> Self {
        let id = id.as_str();
        let Some(key) = field.and_then(K::from_stored).and_then(|key| key.encode_key().ok()) else {
            return Self::by_id_only::<K>(id, field);
        };
        let (tail, problem) = if let Some(tail) = id.and_then(|id| proper_tail(&key, id)) {
            (Some(tail), None)
        } else if let Some(tail) = id.and_then(|id| unescaped_tail(&key, id)) {
            (Some(tail), Some(Problem::IdFormat))
        } else if id.and_then(key_of_id::<K>).is_some() {
            (None, Some(Problem::KeyMismatch))
        } else {
            (None, Some(Problem::IdFormat))
        };
        Self {
            key: Some(key),
            tail: tail.map(str::to_owned),
            problems: problem.into_iter().chain(tail.and_then(order)).collect(),
        }
    }

    fn by_id_only<K: Key>(id: Option<&str>, field: Option<RawBsonRef<'_>>) -> Self {
        let problem = match field {
            None | Some(RawBsonRef::Null) => Problem::KeyMissing,
            Some(_) => Problem::KeyType,
        };
        match id.and_then(key_of_id::<K>) {
            None => Self {
                key: None,
                tail: None,
                problems: vec![Problem::IdFormat, problem],
            },
            Some((key, tail)) => Self {
                key: Some(key),
                tail: Some(tail.to_owned()),
                problems: [problem].into_iter().chain(order(tail)).collect(),
            },
        }
    }
}

/// Returns a problem unless the order of the text is the order of time.
fn order(tail: &str) -> Option<Problem> {
    let normalized = Tail::parse(tail).and_then(Tail::normalized);
    (normalized.as_deref() != Some(tail)).then_some(Problem::IdOrder)
}

fn proper_tail<'id>(key: &EncodedKey, id: &'id str) -> Option<&'id str> {
    key.tail(id).filter(|tail| Tail::parse(tail).is_some())
}

/// Returns the tail of a hand-written `_id`, which starts with the unescaped key.
fn unescaped_tail<'id>(key: &EncodedKey, id: &'id str) -> Option<&'id str> {
    let tail = id.strip_prefix(key.value().as_str()?)?.strip_prefix('_')?;
    Tail::parse(tail).is_some().then_some(tail)
}

/// The fields of a bucket that are checked.
pub(crate) struct Summary {
    pub(crate) id: Bson,
    /// The value of its key field; null for a missing one.
    pub(crate) stored_key: Bson,
    pub(crate) identity: Identity,
    count: Option<i64>,
    /// The number of its items. `None` when they are not an array.
    pub(crate) items: Option<u64>,
    /// The number of items that are `null`.
    nulls: u64,
    /// The number of other items without a date in the time field, if the settings have one.
    timeless: u64,
    /// The number of items that are not `null` and lack a value for the figures.
    valueless: u64,
    /// Whether the figures are the figures of the items.
    has_figures: bool,
    /// The stored start of its window.
    window: Option<DateTime>,
    /// The number of items with a time that is not in the stored window.
    outside: u64,
    /// The ids of the items, if they are checked. `None` for an item without an id.
    item_ids: Vec<Option<ItemId>>,
}

/// The position of a bucket in its key: second, suffix, and `_id`.
pub(crate) type Position = (i128, u32, String);

impl Summary {
    /// Creates it from a row of [`summaries`](crate::query::summary::summaries).
    pub(crate) fn of_row<K: Key>(row: &RawDocument) -> Self {
        let value = |field: &str| row.get(field).ok().flatten();
        let ids = value("ids").and_then(RawBsonRef::as_array);
        let number = |field: &str| {
            let number = value(field).and_then(stored_integer);
            number.and_then(|number| u64::try_from(number).ok())
        };
        let key = value("key").and_then(RawBsonRef::as_document);
        let key = key.and_then(|key| key.get("v").ok().flatten());
        Self {
            items: number("items"),
            nulls: number("nulls").unwrap_or(0),
            timeless: number("timeless").unwrap_or(0),
            valueless: number("valueless").unwrap_or(0),
            has_figures: !matches!(value("figures"), Some(RawBsonRef::Boolean(false))),
            window: value("window").and_then(RawBsonRef::as_datetime),
            outside: number("outside").unwrap_or(0),
            item_ids: ids
                .into_iter()
                .flatten()
                .map(|id| ItemId::from_stored(id.ok()?))
                .collect(),
            ..Self::without_items::<K>(row, key, value("count"))
        }
    }

    /// Creates it from a whole bucket.
    pub(crate) fn of_bucket<K: Key>(settings: &Settings, bucket: &RawDocument) -> Self {
        let value = |field: &str| bucket.get(field).ok().flatten();
        let items = value(settings.items.as_str()).and_then(RawBsonRef::as_array);
        let id_of = |item: RawBsonRef<'_>, field: &str| ItemId::from_stored(item.as_document()?.get(field).ok()??);
        let ids = settings.item_id.as_ref().zip(items);
        let ids = ids.map(|(field, items)| {
            items
                .into_iter()
                .map(|item| id_of(item.ok()?, field.as_str()))
                .collect()
        });
        let is_null = |item: &RawBsonRef<'_>| matches!(item, RawBsonRef::Null | RawBsonRef::Undefined);
        let has_time = |item: RawBsonRef<'_>, field: &str| {
            let time = item.as_document().and_then(|item| item.get(field).ok().flatten());
            time.is_some_and(|time| time.as_datetime().is_some())
        };
        let is_timeless = |item: &RawBsonRef<'_>| {
            let time = settings.time.as_ref();
            !is_null(item) && time.is_some_and(|time| !has_time(*item, time.as_str()))
        };
        let values: Vec<RawBsonRef<'_>> = items.into_iter().flatten().flatten().collect();
        let all = || values.iter().copied();
        let figures = settings.figures.as_ref();
        let is_valueless =
            |item: &RawBsonRef<'_>| !is_null(item) && figures.is_some_and(|figures| !figures.are_of(*item));
        let stored = |figures: &Figures| value(figures.field.as_str());
        let windows = settings.windows.as_ref();
        let window = windows.and_then(|windows| value(windows.field.as_str())?.as_datetime());
        let is_outside = |item: &RawBsonRef<'_>| {
            let own = windows.and_then(|windows| windows.of_item(settings, *item)).map(start);
            window.is_some() && own.is_some() && own != window
        };
        Self {
            items: items.map(|items| items.into_iter().count() as u64),
            nulls: all().filter(is_null).count() as u64,
            timeless: all().filter(is_timeless).count() as u64,
            valueless: all().filter(is_valueless).count() as u64,
            has_figures: figures.is_none_or(|figures| figures.match_items(stored(figures), &all())),
            window,
            outside: all().filter(is_outside).count() as u64,
            item_ids: ids.unwrap_or_default(),
            ..Self::without_items::<K>(bucket, value(settings.key.as_str()), value(settings.count.as_str()))
        }
    }

    fn without_items<K: Key>(
        document: &RawDocument,
        key: Option<RawBsonRef<'_>>,
        count: Option<RawBsonRef<'_>>,
    ) -> Self {
        let id = id_of(document);
        Self {
            identity: Identity::of_document::<K>(&id, key),
            id,
            stored_key: key.and_then(|key| key.try_into().ok()).unwrap_or(Bson::Null),
            count: count.and_then(stored_integer),
            items: None,
            nulls: 0,
            timeless: 0,
            valueless: 0,
            has_figures: true,
            window: None,
            outside: 0,
            item_ids: Vec::new(),
        }
    }

    /// Returns the text of the key, which identifies the group of buckets.
    pub(crate) fn key_text(&self) -> Option<&str> {
        self.identity.key.as_ref().map(EncodedKey::text)
    }

    /// Returns whether its key field has no key of the type.
    pub(crate) fn is_stray(&self) -> bool {
        let problems = &self.identity.problems;
        problems.contains(&Problem::KeyMissing) || problems.contains(&Problem::KeyType)
    }

    /// Returns its position among the buckets of its key, by time.
    pub(crate) fn position(&self) -> Position {
        let tail = self.identity.tail.as_deref().and_then(Tail::parse);
        let (second, suffix) = tail.map_or((i128::MAX, 0), |tail| (tail.number(), tail.suffix));
        (second, suffix, self.id.as_str().unwrap_or_default().to_owned())
    }
}

/// Returns the findings of the buckets of one key, which are in the order of their [positions](Summary::position).
pub(crate) fn check(settings: &Settings, summaries: &[Summary]) -> Vec<Finding> {
    let page_size = u64::from(settings.page_size);
    let has_room = |items: u64| (1..page_size).contains(&items);
    let is_open = |summary: &Summary| summary.items.is_some_and(has_room);
    let window_of = |summary: &Summary| settings.window_of(summary.identity.tail.as_deref()?);
    // The number of open buckets of each window, and the newest of them.
    let mut open_in: HashMap<Option<i64>, (u64, usize)> = HashMap::new();
    for (index, summary) in summaries.iter().enumerate().filter(|(_, summary)| is_open(summary)) {
        let (open, newest) = open_in.entry(window_of(summary)).or_default();
        (*open, *newest) = (*open + 1, index);
    }
    let mut item_ids = HashSet::new();
    let mut findings = Vec::new();
    for (index, summary) in summaries.iter().enumerate() {
        let mut problems = summary.identity.problems.clone();
        let window = window_of(summary);
        let (open, newest) = open_in.get(&window).copied().unwrap_or_default();
        if window.is_some() && summary.window != window.map(start) {
            problems.push(Problem::Window);
        } else if summary.outside > 0 {
            problems.push(Problem::ItemOutsideWindow { items: summary.outside });
        }
        match summary.items {
            None => problems.push(Problem::ItemsNotArray),
            Some(items) => {
                if summary.count != i64::try_from(items).ok() {
                    let count = summary.count;
                    problems.push(Problem::Count { count, items });
                }
                problems.extend((!summary.has_figures).then_some(Problem::Figures));
                if items == 0 {
                    problems.push(Problem::Empty);
                } else if items > page_size {
                    problems.push(Problem::TooManyItems { items });
                } else if open > 1 && newest == index {
                    problems.push(Problem::SeveralOpen { open });
                } else if open > 1 && is_open(summary) {
                    problems.push(Problem::NotFull { items });
                }
            }
        }
        let nulls = Problem::ItemNull { items: summary.nulls };
        problems.extend((summary.nulls > 0).then_some(nulls));
        let timeless = Problem::ItemTimeMissing {
            items: summary.timeless,
        };
        problems.extend((summary.timeless > 0).then_some(timeless));
        let valueless = Problem::ItemValueInvalid {
            items: summary.valueless,
        };
        problems.extend((summary.valueless > 0).then_some(valueless));
        let (mut missing, mut duplicate) = (0, 0);
        for id in &summary.item_ids {
            match id {
                None => missing += 1,
                Some(id) if !item_ids.insert(id) => duplicate += 1,
                Some(_) => {}
            }
        }
        problems.extend((missing > 0).then_some(Problem::ItemIdMissing { items: missing }));
        problems.extend((duplicate > 0).then_some(Problem::DuplicateItemId { items: duplicate }));
        findings.extend(problems.into_iter().map(|problem| {
            let mut finding = Finding::new(settings.namespace.clone(), summary.id.clone(), problem);
            finding.related_id = summary.identity.key.as_ref().map(|key| key.value().clone());
            finding
        }));
    }
    findings
}
