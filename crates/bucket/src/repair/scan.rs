//! Looks at buckets, all of them or those of a key, with a projection of what is checked.

use std::collections::{BTreeMap, HashSet};
use std::marker::PhantomData;

use futures::TryStreamExt;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{EncodedKey, Key, Result, send};
use mongodb::Cursor;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::{AggregateOptions, ReadConcern, ReadPreference, SelectionCriteria};

use crate::repair::check::{Look, check, confirmed};
use crate::repository::Shared;
use crate::{Finding, query};

/// Is called with how many buckets were looked at.
pub(crate) type OnProgress<'a> = Box<dyn FnMut(u64) + Send + 'a>;

/// A walk through the collection, key by key. It holds the looks at one key's buckets at a time.
pub(crate) struct Scan<'a, K> {
    shared: &'a Shared,
    key: Option<EncodedKey>,
    cursor: Option<Cursor<RawDocumentBuf>>,
    /// The first of the next key.
    next: Option<Look>,
    seen: u64,
    on_progress: Option<OnProgress<'a>>,
    types: PhantomData<fn() -> K>,
}

/// A key in whose buckets something seems wrong. While others write, they are not all seen at the same moment.
pub(crate) struct Suspect {
    /// `None` where the one bucket there is tells no key.
    pub(crate) key: Option<EncodedKey>,
    pub(crate) findings: Vec<Finding>,
    /// The ids of the buckets that were found.
    pub(crate) ids: Vec<Bson>,
    /// Whether none of their key fields holds the key, so that they tell it by their `_id` alone. Calls for the key find
    /// them by that.
    is_stray: bool,
}

impl<'a, K: Key> Scan<'a, K> {
    /// Through the buckets of one key, or all.
    pub(crate) fn new(shared: &'a Shared, key: Option<EncodedKey>, on_progress: Option<OnProgress<'a>>) -> Self {
        Self {
            shared,
            key,
            cursor: None,
            next: None,
            seen: 0,
            on_progress,
            types: PhantomData,
        }
    }

    /// The next key in whose buckets something seems wrong.
    pub(crate) async fn next(&mut self) -> Result<Option<Suspect>> {
        while let Some(looks) = self.group().await? {
            let findings = check(&self.shared.settings, &looks);
            if !findings.is_empty() {
                return Ok(Some(Suspect {
                    key: looks[0].belongs.key.clone(),
                    findings,
                    is_stray: looks.iter().all(Look::is_stray),
                    ids: looks.into_iter().map(|look| look.id).collect(),
                }));
            }
        }
        Ok(None)
    }

    /// The buckets of the next key.
    async fn group(&mut self) -> Result<Option<Vec<Look>>> {
        let mut group: Vec<Look> = self.next.take().into_iter().collect();
        while let Some(look) = self.look().await? {
            let of_group = |first: &Look| first.key_text().is_some() && first.key_text() == look.key_text();
            if group.first().is_none_or(of_group) {
                group.push(look);
            } else {
                self.next = Some(look);
                break;
            }
        }
        group.sort_by_cached_key(Look::place);
        Ok((!group.is_empty()).then_some(group))
    }

    async fn look(&mut self) -> Result<Option<Look>> {
        let Shared {
            collection, settings, ..
        } = self.shared;
        let cursor = match &mut self.cursor {
            Some(cursor) => cursor,
            None => {
                let filter = match &self.key {
                    Some(key) => query::buckets_of_any_form(settings, key, &[]),
                    None => Document::new(),
                };
                let aggregate = collection
                    .aggregate(query::looks(settings, filter))
                    .allow_disk_use(true);
                self.cursor.insert(aggregate.with_type::<RawDocumentBuf>().await?)
            }
        };
        while let Some(row) = cursor.try_next().await? {
            let look = Look::of_row::<K>(&row);
            self.seen += 1;
            if let Some(call) = &mut self.on_progress {
                call(self.seen);
            }
            // The ids of one key can begin with those of another, as people write them.
            if self.key.as_ref().is_none_or(|key| look.key_text() == Some(key.text())) {
                return Ok(Some(look));
            }
        }
        Ok(None)
    }
}

impl Suspect {
    /// What is wrong when one looks again, too.
    pub(crate) async fn confirm<K: Key>(&self, shared: &Shared) -> Result<Vec<Finding>> {
        let again = looks_of::<K>(shared, self.key.as_ref(), &self.ids, None).await?;
        Ok(confirmed(&self.findings, check(&shared.settings, &again)))
    }
}

/// A scan that returns each key once. The buckets of a key stand together but for those whose key field has no key of the
/// type, which stand elsewhere and tell their key by their `_id`. They wait for the others of their key, or for the end.
pub(crate) struct EachKeyOnce<'a, K> {
    scan: Scan<'a, K>,
    /// What waits, by the text of its key.
    strays: BTreeMap<String, Suspect>,
    /// The keys that were returned.
    returned: HashSet<String>,
}

impl<'a, K: Key> EachKeyOnce<'a, K> {
    pub(crate) fn new(scan: Scan<'a, K>) -> Self {
        Self {
            scan,
            strays: BTreeMap::new(),
            returned: HashSet::new(),
        }
    }

    /// The next key in whose buckets something seems wrong.
    pub(crate) async fn next(&mut self) -> Result<Option<Suspect>> {
        while let Some(mut suspect) = self.scan.next().await? {
            let Some(key) = suspect.key.as_ref().map(|key| key.text().to_owned()) else {
                return Ok(Some(suspect));
            };
            if let Some(stray) = self.strays.remove(&key) {
                suspect.findings.extend(stray.findings);
                suspect.ids.extend(stray.ids);
            }
            if suspect.is_stray {
                if !self.returned.contains(&key) {
                    self.strays.insert(key, suspect);
                }
            } else {
                self.returned.insert(key);
                return Ok(Some(suspect));
            }
        }
        Ok(self.strays.pop_first().map(|(_, suspect)| suspect))
    }
}

/// The buckets of a key, with those of these ids, as the primary has them now.
pub(crate) async fn looks_of<K: Key>(
    shared: &Shared,
    key: Option<&EncodedKey>,
    ids: &[Bson],
    session: Option<&mut Session<'_>>,
) -> Result<Vec<Look>> {
    let Shared {
        collection, settings, ..
    } = shared;
    let filter = match key {
        Some(key) => query::buckets_of_any_form(settings, key, ids),
        None => doc! { "_id": { "$in": ids } },
    };
    let mut options = AggregateOptions::builder().allow_disk_use(true).build();
    if session.is_none() {
        options.selection_criteria = Some(SelectionCriteria::ReadPreference(ReadPreference::Primary));
        options.read_concern = Some(ReadConcern::local());
    }
    let rows = send::aggregate_all(session, collection, query::looks(settings, filter), options).await?;
    let looks = rows.iter().map(|row| Look::of_row::<K>(row));
    let mut looks: Vec<Look> = looks
        .filter(|look| look.key_text() == key.map(EncodedKey::text))
        .collect();
    looks.sort_by_cached_key(Look::place);
    Ok(looks)
}
