//! The reference repository against a model in memory.

use std::collections::BTreeMap;

use mongo_patterns::ErrorKind;
use mongo_patterns::reference::OnReferences;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};
use proptest::prelude::*;

use support::common::all;
use support::model::{Sequence, check_random};
use support::reference::*;

/// The orders and customers of a sequence.
const NUMBER: usize = 3;

/// A call. The first number is that of an order, or of a customer for the calls on one.
#[derive(Clone, Debug)]
enum Call {
    /// Inserts an order of a customer, or of none.
    Insert(usize, Option<usize>),
    Set(usize, usize),
    Clear(usize),
    Rename(usize, i32),
    RemoveName(usize),
    Visit(usize),
    Delete(usize, OnReferences),
    /// Another program inserts the customer, after its last version.
    Create(usize),
    /// A process dies between the update of a customer and its sweep.
    Die(usize, i32),
    Repair,
    Get(usize, Option<u32>),
}

fn call() -> impl Strategy<Value = Call> {
    let one = || 0..NUMBER;
    let rules = [OnReferences::Restrict, OnReferences::KeepCopy, OnReferences::Clear];
    prop_oneof![
        5 => (one(), prop::option::of(one())).prop_map(|(order, customer)| Call::Insert(order, customer)),
        4 => (one(), one()).prop_map(|(order, customer)| Call::Set(order, customer)),
        1 => one().prop_map(Call::Clear),
        5 => (one(), 0..100_i32).prop_map(|(customer, name)| Call::Rename(customer, name)),
        1 => one().prop_map(Call::RemoveName),
        1 => one().prop_map(Call::Visit),
        3 => (one(), 0..3_usize).prop_map(move |(customer, rule)| Call::Delete(customer, rules[rule])),
        3 => one().prop_map(Call::Create),
        2 => (one(), 0..100_i32).prop_map(|(customer, name)| Call::Die(customer, name)),
        3 => Just(Call::Repair),
        4 => (one(), prop::option::of(0..3_u32)).prop_map(|(order, versions)| Call::Get(order, versions)),
    ]
}

#[derive(Clone, Debug, PartialEq)]
struct Source {
    name: Option<i32>,
    version: i64,
}

#[derive(Clone, Debug, PartialEq)]
struct Copy {
    source: usize,
    of: Source,
    is_deleted: bool,
}

#[derive(Debug, Default)]
struct Model {
    sources: BTreeMap<usize, Source>,
    /// The next version of a customer that was deleted.
    next: BTreeMap<usize, i64>,
    orders: BTreeMap<usize, Option<Copy>>,
}

struct Run<'a> {
    db: &'a TestDatabase,
    orders: &'a Orders,
    /// The sequence, which the ids start with.
    number: u32,
    model: Model,
}

impl Model {
    fn copy_of(&self, source: usize) -> Option<Copy> {
        let of = self.sources.get(&source)?.clone();
        let is_deleted = false;
        Some(Copy { source, of, is_deleted })
    }

    fn copies(&mut self, source: usize) -> impl Iterator<Item = &mut Copy> {
        let copies = self.orders.values_mut().flatten();
        copies.filter(move |copy| copy.source == source)
    }

    /// Updates the copies of a source. Returns how many were older.
    fn sweep(&mut self, source: usize) -> u64 {
        let Some(now) = self.sources.get(&source).cloned() else {
            return 0;
        };
        let mut changed = 0;
        for copy in self.copies(source).filter(|copy| copy.of.version < now.version) {
            copy.of = now.clone();
            changed += 1;
        }
        changed
    }

    fn change(&mut self, source: usize, name: Option<i32>) -> Option<i64> {
        let source = self.sources.get_mut(&source)?;
        source.name = name;
        source.version += 1;
        Some(source.version)
    }
}

fn is_kind<T: std::fmt::Debug>(result: Result<T, mongo_patterns::Error>, kind: ErrorKind, call: &Call) {
    let error = result.err().unwrap_or_else(|| panic!("{call:?} was not refused"));
    assert_eq!(error.kind(), kind, "{call:?}: {error:?}");
}

impl Run<'_> {
    fn id(&self, number: usize) -> String {
        format!("{}/{number}", self.number)
    }

    async fn run(&mut self, call: Call) {
        let (orders, model) = (self.orders, &mut self.model);
        let number = self.number;
        let id = |of: usize| format!("{number}/{of}");
        match call {
            Call::Insert(order, customer) => {
                let mut new = doc! { "_id": id(order), "total": 5 };
                if let Some(customer) = customer {
                    new.insert("customer", doc! { "_id": id(customer) });
                }
                let inserted = orders.insert(&new).await;
                let copy = customer.map(|customer| model.copy_of(customer));
                match copy {
                    Some(None) => is_kind(inserted, ErrorKind::NotFound, &call),
                    _ if model.orders.contains_key(&order) => is_kind(inserted, ErrorKind::AlreadyExists, &call),
                    copy => {
                        inserted.unwrap();
                        model.orders.insert(order, copy.flatten());
                    }
                }
            }
            Call::Set(order, customer) => {
                let set = orders.set_reference(id(order), id(customer)).await;
                match model.copy_of(customer) {
                    Some(copy) if model.orders.contains_key(&order) => {
                        let before = model.orders.insert(order, Some(copy.clone())).flatten();
                        let modified = set.unwrap().modified;
                        // The same values in another order of the fields count as a change.
                        assert!(modified || before == Some(copy), "{call:?}");
                    }
                    _ => is_kind(set, ErrorKind::NotFound, &call),
                }
            }
            Call::Clear(order) => {
                let cleared = orders.clear_reference(id(order)).await;
                match model.orders.get_mut(&order) {
                    Some(copy) => assert_eq!(cleared.unwrap().modified, copy.take().is_some()),
                    None => is_kind(cleared, ErrorKind::NotFound, &call),
                }
            }
            Call::Rename(customer, name) => {
                let update = doc! { "$set": { "name": name } };
                let updated = orders.update_source(id(customer), update).await;
                self.changed(&call, customer, Some(name), updated);
            }
            Call::RemoveName(customer) => {
                let update = doc! { "$unset": { "name": "" } };
                let updated = orders.update_source(id(customer), update).await;
                self.changed(&call, customer, None, updated);
            }
            Call::Visit(customer) => {
                let updated = orders
                    .update_source(id(customer), doc! { "$inc": { "visits": 1 } })
                    .await;
                match model.sources.get(&customer) {
                    Some(source) => {
                        let updated = updated.unwrap();
                        assert_eq!((updated.version as i64, updated.copies), (source.version, 0));
                    }
                    None => is_kind(updated, ErrorKind::NotFound, &call),
                }
            }
            Call::Delete(customer, rule) => self.delete(&call, customer, rule).await,
            Call::Create(customer) => {
                if !model.sources.contains_key(&customer) {
                    let version = model.next.get(&customer).copied().unwrap_or(0);
                    let name = Some(7);
                    let new = doc! { "_id": id(customer), "name": 7, "v": version };
                    customers(self.db).insert_one(new).await.unwrap();
                    model.sources.insert(customer, Source { name, version });
                }
            }
            Call::Die(customer, name) => {
                let update = doc! { "$set": { "name": name }, "$inc": { "v": 1 } };
                customers(self.db)
                    .update_one(doc! { "_id": id(customer) }, update)
                    .await
                    .unwrap();
                model.change(customer, Some(name));
            }
            Call::Repair => self.repair().await,
            Call::Get(order, versions) => return self.get(order, versions).await,
        }
        self.compare().await;
    }

    fn changed(
        &mut self,
        call: &Call,
        customer: usize,
        name: Option<i32>,
        updated: Result<mongo_patterns::reference::UpdatedSource, mongo_patterns::Error>,
    ) {
        match self.model.change(customer, name) {
            Some(version) => {
                let updated = updated.unwrap();
                let copies = self.model.sweep(customer);
                assert_eq!((updated.version as i64, updated.copies), (version, copies), "{call:?}");
            }
            None => is_kind(updated, ErrorKind::NotFound, call),
        }
    }

    async fn delete(&mut self, call: &Call, customer: usize, rule: OnReferences) {
        let deleted = self.orders.delete_source(self.id(customer)).on_references(rule).await;
        let model = &mut self.model;
        let exists = model.sources.contains_key(&customer);
        let references = model.copies(customer).count() as u64;
        let not_kept = model.copies(customer).filter(|copy| !copy.is_deleted).count() as u64;
        let copies = match rule {
            OnReferences::Restrict if exists && references > 0 => {
                return is_kind(deleted, ErrorKind::Referenced, call);
            }
            OnReferences::Restrict => 0,
            OnReferences::KeepCopy => {
                model.copies(customer).for_each(|copy| copy.is_deleted = true);
                not_kept
            }
            _ => {
                let of_customer = |copy: &Option<Copy>| copy.as_ref().is_some_and(|copy| copy.source == customer);
                model
                    .orders
                    .values_mut()
                    .filter(|copy| of_customer(copy))
                    .for_each(|copy| *copy = None);
                references
            }
        };
        let deleted = deleted.unwrap();
        assert_eq!((deleted.found, deleted.copies), (exists, copies), "{call:?}");
        if let Some(source) = model.sources.remove(&customer) {
            model.next.insert(customer, source.version + 1);
        }
    }

    /// All copies equal their customers afterwards, and those without a customer are kept.
    async fn repair(&mut self) {
        use futures::TryStreamExt;
        let repair = self.orders.repair().on_missing(OnReferences::KeepCopy);
        let repaired: Vec<_> = repair.stream().try_collect().await.unwrap();
        assert!(
            repaired.iter().all(|repaired| repaired.unrepaired.is_none()),
            "{repaired:?}"
        );
        assert_eq!(findings(self.orders).await, []);
        // A repair may raise the version of a customer.
        for customer in 0..NUMBER {
            let found = customers(self.db)
                .find_one(doc! { "_id": self.id(customer) })
                .await
                .unwrap();
            let Some(source) = self.model.sources.get_mut(&customer) else {
                self.model.copies(customer).for_each(|copy| copy.is_deleted = true);
                continue;
            };
            let version = number(&found.unwrap(), "v");
            assert!(version >= source.version);
            source.version = version;
            let now = source.clone();
            self.model.copies(customer).for_each(|copy| {
                copy.of = now.clone();
                copy.is_deleted = false;
            });
        }
    }

    async fn get(&self, order: usize, versions: Option<u32>) {
        let call = self.orders.get(self.id(order));
        let found = match versions {
            Some(versions) => call.max_staleness(versions).await.unwrap(),
            None => call.await.unwrap(),
        };
        let Some(expected) = self.model.orders.get(&order) else {
            assert_eq!(found, None);
            return;
        };
        let mut expected = expected.clone();
        if let (Some(copy), Some(versions)) = (&mut expected, versions)
            && let Some(source) = self.model.sources.get(&copy.source)
            && source.version - copy.of.version > i64::from(versions)
        {
            copy.of = source.clone();
            // Whether a read keeps the mark of an earlier deletion is not compared.
            copy.is_deleted = false;
        }
        let found = found.unwrap();
        let copy = found.get_document("customer").ok();
        assert_eq!(copy.map(|copy| self.read(copy).of), expected.map(|copy| copy.of));
    }

    fn read(&self, copy: &Document) -> Copy {
        let id = copy.get_str("_id").unwrap();
        let (number_of, source) = id.split_once('/').unwrap();
        assert_eq!(number_of, self.number.to_string());
        Copy {
            source: source.parse().unwrap(),
            of: Source {
                name: copy.get_i32("name").ok(),
                version: number(copy, "v"),
            },
            is_deleted: copy.get_bool("deleted").unwrap_or(false),
        }
    }

    /// Compares the stored documents with the model, without the repository.
    async fn compare(&self) {
        let of_sequence = |document: &Document| {
            let id = document.get_str("_id").unwrap();
            let (of, number) = id.split_once('/').unwrap();
            (of == self.number.to_string()).then(|| number.parse::<usize>().unwrap())
        };
        let mut found = BTreeMap::new();
        for order in all(&stored(self.db)).await {
            if let Some(number) = of_sequence(&order) {
                let copy = order.get("customer").and_then(Bson::as_document);
                found.insert(number, copy.map(|copy| self.read(copy)));
            }
        }
        assert_eq!(found, self.model.orders);
        let mut found = BTreeMap::new();
        for customer in all(&customers(self.db)).await {
            if let Some(id) = of_sequence(&customer) {
                let name = customer.get_i32("name").ok();
                let version = number(&customer, "v");
                assert!(!customer.contains_key("mongo_patterns_deleting"));
                found.insert(id, Source { name, version });
            }
        }
        assert_eq!(found, self.model.sources);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn random_calls() {
    testkit::run(async |db| {
        let orders = orders(db).await;
        check_random(db, call(), async |Sequence { number, calls, .. }| {
            // `repair` is of all documents.
            stored(db).delete_many(doc! {}).await.unwrap();
            customers(db).delete_many(doc! {}).await.unwrap();
            let mut run = Run {
                db,
                orders: &orders,
                number,
                model: Model::default(),
            };
            run.run(Call::Create(0)).await;
            for call in calls {
                run.run(call).await;
            }
        })
        .await;
    })
    .await;
}
