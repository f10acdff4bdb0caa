//! Finds what is wrong with the buckets of a key. Pure.

use std::collections::HashSet;
use std::mem::discriminant;

use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::{EncodedKey, Key};
use mongodb::bson::{Bson, RawBsonRef, RawDocument};

use crate::form::id::Tail;
use crate::settings::Settings;
use crate::{Finding, Problem};

/// Whose a stored document is, by its `_id` and key field.
pub(crate) struct Belongs {
    pub(crate) key: Option<EncodedKey>,
    /// The second and suffix in its `_id`, in which form ever.
    pub(crate) tail: Option<String>,
    pub(crate) problems: Vec<Problem>,
}

impl Belongs {
    pub(crate) fn of<K: Key>(id: &Bson, field: Option<RawBsonRef<'_>>) -> Self {
        let id = id.as_str();
        let Some(key) = field.and_then(K::from_stored).and_then(|key| key.encode_key().ok()) else {
            return Self::by_id_alone::<K>(id, field);
        };
        let (tail, problem) = if let Some(tail) = id.and_then(|id| proper_tail(&key, id)) {
            (Some(tail), None)
        } else if let Some(tail) = id.and_then(|id| raw_tail(&key, id)) {
            (Some(tail), Some(Problem::IdFormat))
        } else if id.and_then(key_of_id::<K>).is_some() {
            (None, Some(Problem::KeyDisagrees))
        } else {
            (None, Some(Problem::IdFormat))
        };
        Self {
            key: Some(key),
            tail: tail.map(str::to_owned),
            problems: problem.into_iter().chain(tail.and_then(order)).collect(),
        }
    }

    fn by_id_alone<K: Key>(id: Option<&str>, field: Option<RawBsonRef<'_>>) -> Self {
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

/// Whether text sorts such a tail where its time is.
fn order(tail: &str) -> Option<Problem> {
    let normal = Tail::parse(tail).and_then(Tail::normal);
    (normal.as_deref() != Some(tail)).then_some(Problem::IdOrder)
}

fn proper_tail<'id>(key: &EncodedKey, id: &'id str) -> Option<&'id str> {
    key.tail(id).filter(|tail| Tail::parse(tail).is_some())
}

/// The tail of an `_id` that begins with the key as it is, as everyone writes it by hand.
fn raw_tail<'id>(key: &EncodedKey, id: &'id str) -> Option<&'id str> {
    let tail = id.strip_prefix(key.value().as_str()?)?.strip_prefix('_')?;
    Tail::parse(tail).is_some().then_some(tail)
}

/// The key in a bucket's `_id`, and what follows it there.
pub(crate) fn key_of_id<K: Key>(id: &str) -> Option<(EncodedKey, &str)> {
    let (text, tail) = id.split_once('_')?;
    let key = K::decode_key(text)?.encode_key().ok()?;
    Tail::parse(tail).is_some().then_some((key, tail))
}

/// A bucket as far as it is checked.
pub(crate) struct Look {
    pub(crate) id: Bson,
    pub(crate) belongs: Belongs,
    count: Option<i64>,
    /// How many items it has; `None` when they are no array.
    pub(crate) items: Option<u64>,
    /// How many of them are `null`.
    nulls: u64,
    /// How many of the others have no date in the time field, where the settings name one.
    timeless: u64,
    /// The ids of the items, where they are checked; `None` for an item without.
    item_ids: Vec<Option<ItemId>>,
}

/// Second, suffix, and `_id`.
pub(crate) type Place = (i128, u32, String);

/// The id of an item, in a form that is equal where MongoDB takes ids for equal.
pub(crate) type ItemId = (u8, Vec<u8>);

impl Look {
    /// From what the aggregation of [`query::looks`](crate::query::looks) returns.
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
            item_ids: ids.into_iter().flatten().map(|id| item_id(id.ok()?)).collect(),
            ..Self::without_items::<K>(value("_id"), key, value("count"))
        }
    }

    /// From a whole bucket.
    pub(crate) fn of_bucket<K: Key>(settings: &Settings, bucket: &RawDocument) -> Self {
        let value = |field: &str| bucket.get(field).ok().flatten();
        let items = value(settings.items.as_str()).and_then(RawBsonRef::as_array);
        let id_of = |item: RawBsonRef<'_>, field: &str| item_id(item.as_document()?.get(field).ok()??);
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
        let all = || items.into_iter().flatten().flatten();
        Self {
            items: items.map(|items| items.into_iter().count() as u64),
            nulls: all().filter(is_null).count() as u64,
            timeless: all().filter(is_timeless).count() as u64,
            item_ids: ids.unwrap_or_default(),
            ..Self::without_items::<K>(
                value("_id"),
                value(settings.key.as_str()),
                value(settings.count.as_str()),
            )
        }
    }

    fn without_items<K: Key>(
        id: Option<RawBsonRef<'_>>,
        key: Option<RawBsonRef<'_>>,
        count: Option<RawBsonRef<'_>>,
    ) -> Self {
        let id = id.and_then(|id| Bson::try_from(id).ok()).unwrap_or(Bson::Null);
        Self {
            belongs: Belongs::of::<K>(&id, key),
            id,
            count: count.and_then(stored_integer),
            items: None,
            nulls: 0,
            timeless: 0,
            item_ids: Vec::new(),
        }
    }

    /// What tells the groups of buckets apart: the text of the key.
    pub(crate) fn key_text(&self) -> Option<&str> {
        self.belongs.key.as_ref().map(EncodedKey::text)
    }

    /// Whether its key field holds no key of the type.
    pub(crate) fn is_stray(&self) -> bool {
        let problems = &self.belongs.problems;
        problems.contains(&Problem::KeyMissing) || problems.contains(&Problem::KeyType)
    }

    /// Where it stands among the buckets of its key, by time.
    pub(crate) fn place(&self) -> Place {
        let tail = self.belongs.tail.as_deref().and_then(Tail::parse);
        let (second, suffix) = tail.map_or((i128::MAX, 0), |tail| (tail.number(), tail.suffix));
        (second, suffix, self.id.as_str().unwrap_or_default().to_owned())
    }
}

/// The id of an item, if the value can be one.
pub(crate) fn item_id(value: RawBsonRef<'_>) -> Option<ItemId> {
    match value {
        // As integers are taken for keys: shells write them as doubles.
        RawBsonRef::Int32(_) | RawBsonRef::Int64(_) | RawBsonRef::Double(_) => {
            Some((0, stored_integer(value)?.to_be_bytes().to_vec()))
        }
        RawBsonRef::String(text) => Some((1, text.as_bytes().to_vec())),
        RawBsonRef::ObjectId(id) => Some((2, id.bytes().to_vec())),
        RawBsonRef::DateTime(time) => Some((3, time.timestamp_millis().to_be_bytes().to_vec())),
        RawBsonRef::Binary(binary) => {
            let mut bytes = vec![binary.subtype.into()];
            bytes.extend_from_slice(binary.bytes);
            Some((4, bytes))
        }
        _ => None,
    }
}

/// What is wrong with the buckets of one key, which are ordered by their [places](Look::place).
pub(crate) fn check(settings: &Settings, looks: &[Look]) -> Vec<Finding> {
    let page_size = u64::from(settings.page_size);
    let is_open = |look: &Look| look.items.is_some_and(|items| (1..page_size).contains(&items));
    let open = looks.iter().filter(|look| is_open(look)).count();
    let newest_open = looks.iter().rposition(is_open);
    let mut item_ids = HashSet::new();
    let mut findings = Vec::new();
    for (index, look) in looks.iter().enumerate() {
        let mut problems = look.belongs.problems.clone();
        match look.items {
            None => problems.push(Problem::ItemsNotArray),
            Some(items) => {
                if look.count != i64::try_from(items).ok() {
                    let count = look.count;
                    problems.push(Problem::Count { count, items });
                }
                if items == 0 {
                    problems.push(Problem::Empty);
                } else if items > page_size {
                    problems.push(Problem::OverFull { items });
                } else if open > 1 && newest_open == Some(index) {
                    problems.push(Problem::SeveralOpen { open: open as u64 });
                } else if open > 1 && is_open(look) {
                    problems.push(Problem::NotFull { items });
                }
            }
        }
        problems.extend((look.nulls > 0).then_some(Problem::ItemNull { items: look.nulls }));
        let timeless = Problem::ItemTimeMissing { items: look.timeless };
        problems.extend((look.timeless > 0).then_some(timeless));
        let (mut missing, mut doubled) = (0, 0);
        for id in &look.item_ids {
            match id {
                None => missing += 1,
                Some(id) if !item_ids.insert(id) => doubled += 1,
                Some(_) => {}
            }
        }
        problems.extend((missing > 0).then_some(Problem::ItemIdMissing { items: missing }));
        problems.extend((doubled > 0).then_some(Problem::ItemIdDoubled { items: doubled }));
        findings.extend(problems.into_iter().map(|problem| Finding {
            document_id: look.id.clone(),
            key: look.key_text().map(str::to_owned),
            problem,
        }));
    }
    findings
}

/// Those findings of a second look that the first one had too. While others write, the buckets of a key are not all
/// seen at the same moment: the old bucket as it was before it was full, and the new one, too. What is seen twice, the
/// second time after the first, is so.
pub(crate) fn confirmed(first: &[Finding], second: Vec<Finding>) -> Vec<Finding> {
    let same = |a: &Finding, b: &Finding| {
        a.document_id == b.document_id && discriminant(&a.problem) == discriminant(&b.problem)
    };
    second
        .into_iter()
        .filter(|finding| first.iter().any(|first| same(first, finding)))
        .collect()
}
