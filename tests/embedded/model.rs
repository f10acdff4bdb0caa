//! The embedded repository against a model in memory.

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};
use proptest::prelude::*;

use support::embedded::*;
use support::model::{Sequence, check_random};

const MOST: usize = 4;

#[derive(Clone, Debug)]
enum Call {
    Insert(Vec<i32>),
    Add(i32, i32),
    Replace(i32, i32),
    Upsert(i32, i32),
    Update {
        id: i32,
        zip: i32,
        unset: bool,
    },
    Inc(i32, i32),
    /// Adds to an element of the child's list, or to a missing one.
    Grandchild(i32, i32, i32),
    Remove(i32),
    /// Reorders by these numbers, with one child left out if the flag is set.
    Reorder(Vec<u8>, bool),
    Child(i32),
    Get,
}

fn call() -> impl Strategy<Value = (usize, Call)> {
    let (id, zip) = (|| 0..7_i32, || 0..3_i32);
    let call = prop_oneof![
        2 => prop::collection::vec(id(), 0..6).prop_map(Call::Insert),
        8 => (id(), zip()).prop_map(|(id, zip)| Call::Add(id, zip)),
        3 => (id(), zip()).prop_map(|(id, zip)| Call::Replace(id, zip)),
        4 => (id(), zip()).prop_map(|(id, zip)| Call::Upsert(id, zip)),
        3 => (id(), zip(), any::<bool>()).prop_map(|(id, zip, unset)| Call::Update { id, zip, unset }),
        3 => (id(), zip()).prop_map(|(id, by)| Call::Inc(id, by)),
        3 => (id(), 0..3_i32, zip()).prop_map(|(id, number, by)| Call::Grandchild(id, number, by)),
        4 => id().prop_map(Call::Remove),
        2 => (prop::collection::vec(any::<u8>(), MOST), prop::bool::weighted(0.2))
            .prop_map(|(order, short)| Call::Reorder(order, short)),
        1 => id().prop_map(Call::Child),
        1 => Just(Call::Get),
    ];
    (0..2_usize, call)
}

fn home(id: i32, zip: i32) -> Document {
    let phones = [doc! { "number": 0, "calls": 0 }, doc! { "number": 1, "calls": 0 }];
    doc! { "id": id, "street": "123 Fake Street", "zip": zip, "phones": phones.to_vec() }
}

struct Model<'a> {
    db: &'a TestDatabase,
    patrons: &'a Patrons,
    ids: [i32; 2],
    /// The children, or `None` without the parent.
    stored: [Option<Vec<Document>>; 2],
}

fn position(children: &[Document], id: i32) -> Option<usize> {
    children.iter().position(|child| child.get_i32("id").ok() == Some(id))
}

impl Model<'_> {
    async fn run(&mut self, of: usize, call: Call) {
        let (patrons, parent) = (self.patrons, self.ids[of]);
        let stored = &mut self.stored[of];
        let none = stored.is_none();
        let outcome: Result<bool, ErrorKind> = match &call {
            Call::Insert(ids) => {
                let children = ids.iter().map(|id| home(*id, 0));
                let inserted = patrons.insert(&patron(parent, children)).await;
                inserted.map(|_| true)
            }
            Call::Add(id, zip) => patrons.add_child(parent, &home(*id, *zip)).await.map(|()| true),
            Call::Replace(id, zip) => {
                let replaced = patrons.replace_child(parent, &home(*id, *zip)).await;
                replaced.map(|replaced| replaced.modified)
            }
            Call::Upsert(id, zip) => {
                let upserted = patrons.upsert_child(parent, &home(*id, *zip)).await;
                upserted.map(|upserted| upserted.inserted)
            }
            Call::Grandchild(id, number, by) => {
                let update = doc! { "$inc": { "calls": by } };
                let updated = patrons
                    .update_grandchild(parent, *id, "phones", ("number", *number), update)
                    .await;
                updated.map(|updated| updated.modified)
            }
            Call::Update { id, zip, unset } => {
                let mut update = doc! { "$set": { "zip": zip } };
                if *unset {
                    update.insert("$unset", doc! { "street": "" });
                }
                let updated = patrons.update_child(parent, *id, update).await;
                updated.map(|updated| updated.modified)
            }
            Call::Inc(id, by) => {
                let updated = patrons
                    .update_child(parent, *id, doc! { "$inc": { "visits": by } })
                    .await;
                updated.map(|updated| updated.modified)
            }
            Call::Remove(id) => patrons.remove_child(parent, *id).await.map(|removed| removed.found),
            Call::Reorder(order, short) => {
                let ids = reordered(stored.as_deref().unwrap_or_default(), order, *short);
                patrons.reorder_children(parent, ids).await.map(|()| true)
            }
            Call::Child(id) => {
                let child = patrons.child(parent, *id).await.unwrap();
                let children = stored.as_deref().unwrap_or_default();
                assert_eq!(child.as_ref(), position(children, *id).map(|at| &children[at]));
                return;
            }
            Call::Get => {
                let found = patrons.get(parent).await.unwrap();
                assert_eq!(found, stored.clone().map(|children| patron(parent, children)));
                return;
            }
        }
        .map_err(|error| error.kind());
        let expected = match (stored.as_mut(), &call) {
            (stored, Call::Insert(ids)) => match new_children(ids) {
                Err(kind) => Err(kind),
                Ok(_) if stored.is_some() => Err(ErrorKind::AlreadyExists),
                Ok(children) => {
                    self.stored[of] = Some(children);
                    Ok(true)
                }
            },
            (None, _) => Err(ErrorKind::NotFound),
            (Some(children), call) => change(children, call),
        };
        assert_eq!(outcome, expected, "{call:?}, no parent: {none}");
        self.compare(of).await;
    }

    async fn compare(&self, of: usize) {
        let parent = self.ids[of];
        let found = stored(self.db).find_one(doc! { "_id": parent }).await.unwrap();
        let expected = self.stored[of].clone();
        assert_eq!(found, expected.map(|children| patron(parent, children)));
    }
}

/// Returns the children of a new parent, or the expected error.
fn new_children(ids: &[i32]) -> Result<Vec<Document>, ErrorKind> {
    if ids.len() > MOST {
        return Err(ErrorKind::LimitReached);
    }
    let mut children = Vec::new();
    for id in ids {
        if position(&children, *id).is_some() {
            return Err(ErrorKind::InvalidArgument);
        }
        children.push(home(*id, 0));
    }
    Ok(children)
}

/// Applies a call to the model. Returns whether it changes anything.
fn change(children: &mut Vec<Document>, call: &Call) -> Result<bool, ErrorKind> {
    let before = children.clone();
    match call {
        Call::Add(id, _) if position(children, *id).is_some() => return Err(ErrorKind::AlreadyExists),
        Call::Add(..) if children.len() >= MOST => return Err(ErrorKind::LimitReached),
        Call::Add(id, zip) => children.push(home(*id, *zip)),
        Call::Upsert(id, zip) => match position(children, *id) {
            Some(at) => {
                children[at] = home(*id, *zip);
                return Ok(false);
            }
            None if children.len() >= MOST => return Err(ErrorKind::LimitReached),
            None => children.push(home(*id, *zip)),
        },
        Call::Reorder(order, short) => {
            let ids = reordered(children, order, *short);
            if ids.len() != children.len() {
                return Err(ErrorKind::ChildSetMismatch);
            }
            *children = ids
                .iter()
                .map(|id| before[position(&before, *id).unwrap()].clone())
                .collect();
            return Ok(true);
        }
        Call::Replace(id, _)
        | Call::Update { id, .. }
        | Call::Inc(id, _)
        | Call::Grandchild(id, ..)
        | Call::Remove(id) => {
            let Some(at) = position(children, *id) else {
                return match call {
                    Call::Remove(_) => Ok(false),
                    _ => Err(ErrorKind::ChildNotFound),
                };
            };
            match call {
                Call::Replace(id, zip) => children[at] = home(*id, *zip),
                Call::Update { zip, unset, .. } => {
                    children[at].insert("zip", *zip);
                    if *unset {
                        children[at].remove("street");
                    }
                }
                Call::Inc(_, by) => {
                    let visits = children[at].get_i32("visits").unwrap_or(0);
                    children[at].insert("visits", visits + by);
                }
                Call::Grandchild(_, number, by) => {
                    let phones = children[at].get_array_mut("phones").unwrap();
                    let Some(phone) = phones.get_mut(usize::try_from(*number).unwrap()) else {
                        return Err(ErrorKind::GrandchildNotFound);
                    };
                    let phone = phone.as_document_mut().unwrap();
                    let calls = phone.get_i32("calls").unwrap();
                    phone.insert("calls", calls + by);
                }
                _ => drop(children.remove(at)),
            }
        }
        _ => {}
    }
    Ok(*children != before)
}

/// Returns the ids of the children, sorted by some numbers, without the last one if `short`.
fn reordered(children: &[Document], order: &[u8], short: bool) -> Vec<i32> {
    let ids = children.iter().map(|child| child.get_i32("id").unwrap());
    let mut ids: Vec<(u8, i32)> = order.iter().copied().zip(ids).collect();
    ids.sort_unstable();
    if short {
        ids.pop();
    }
    ids.into_iter().map(|(_, id)| id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_calls() {
    testkit::run(async |db| {
        let patrons = Patrons::builder(stored(db))
            .children_field("addresses")
            .child_id_field("id");
        let patrons = patrons.max_children(MOST as u32).build().unwrap();
        check_random(db, call(), async |Sequence { number, calls, .. }| {
            let id = i32::try_from(number).unwrap() * 2;
            let mut model = Model {
                db,
                patrons: &patrons,
                ids: [id, id + 1],
                stored: [None, None],
            };
            model.run(0, Call::Insert(Vec::new())).await;
            for (of, call) in calls {
                model.run(of, call).await;
            }
            for of in 0..2 {
                model.compare(of).await;
            }
        })
        .await;
        let findings: Vec<_> = patrons.verify().stream().try_collect().await.unwrap();
        assert_eq!(findings, []);
    })
    .await;
}
