//! References: orders with their customer and their products, which are in one collection of sources.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use futures::future::LocalBoxFuture;
use mongo_patterns::Repository;
use mongo_patterns::reference::{Finding, OnReferences, Problem, Reference, Repaired};
use mongodb::Collection;
use mongodb::bson::{Document, doc};

use super::operation::Promise::{Atomic, Reads, Steps};
use super::operation::{Call, EXISTS, Model, Of, UNREAD, calls, documents, indexes, number_of, retry_policy};
use support::reference::{Orders, builder, customer, number, order, rename};

/// Orders 1 and 2 refer to source 1, order 2 also has the products 1 and 2, and order 3 refers to nothing. Source 4 is not
/// referred to.
pub(super) struct Sales {
    pub(super) stored: Collection<Document>,
    pub(super) customers: Collection<Document>,
    pub(super) orders: Orders,
}

/// Returns the facts of an order: it, and each of its references without what is copied.
fn facts(order: &Document) -> Vec<String> {
    let id = order.get("_id").unwrap();
    let mut facts = vec![format!("order {id}")];
    facts.extend(copies(order).iter().map(|(field, copy)| {
        let mark = if copy.contains_key("deleted") { " deleted" } else { "" };
        format!("order {id} {field} {}{mark}", copy.get("_id").unwrap())
    }));
    facts
}

/// Returns the copies in an order, each with the name of its field.
fn copies(order: &Document) -> Vec<(&'static str, Document)> {
    let customer = order.get_document("customer").ok().cloned();
    let products = order.get_array("products").cloned().unwrap_or_default();
    let products = products
        .into_iter()
        .filter_map(|product| product.as_document().cloned());
    let customer = customer.into_iter().map(|copy| ("customer", copy));
    customer.chain(products.map(|copy| ("products", copy))).collect()
}

/// Returns the problem of a copy.
fn problem(field: &str, copy: &Document, sources: &BTreeMap<String, Document>) -> Option<&'static str> {
    let is_deleted = copy.contains_key("deleted");
    let Some(source) = sources.get(&copy.get("_id").unwrap().to_string()) else {
        return (!is_deleted).then_some("missing");
    };
    let copied: &[&str] = if field == "customer" {
        &["name", "address"]
    } else {
        &["name"]
    };
    let differs = is_deleted || copied.iter().any(|name| copy.get(name) != source.get(name));
    match number(copy, "v").cmp(&number(source, "v")) {
        std::cmp::Ordering::Less => Some("stale"),
        std::cmp::Ordering::Greater => Some("newer"),
        std::cmp::Ordering::Equal => differs.then_some("differs"),
    }
}

impl Model for Sales {
    const PATTERN: &'static str = "reference";
    const COLLECTIONS: &'static [&'static str] = &["orders", "customers"];

    fn new(of: Of<'_>) -> Self {
        let products = Reference::new("products").copied_fields(["name"]).array();
        Self {
            stored: of.collection("orders"),
            customers: of.collection("customers"),
            orders: builder(of.database)
                .add_reference(products)
                .retry(retry_policy())
                .build()
                .unwrap(),
        }
    }

    async fn fill(&self) {
        self.orders.ensure_indexes().await.unwrap();
        let sources = (1..=4).map(|id| customer(id, "Ann"));
        self.customers.insert_many(sources).await.unwrap();
        self.orders.insert(&order(1, 1)).await.unwrap();
        let mut second = order(2, 1);
        second.insert("products", vec![doc! { "_id": 1 }, doc! { "_id": 2 }]);
        self.orders.insert(&second).await.unwrap();
        self.orders.insert(&doc! { "_id": 3 }).await.unwrap();
    }

    async fn facts(&self) -> Vec<String> {
        let [orders, sources] = documents([&self.stored, &self.customers]).await;
        let mut facts: Vec<String> = orders.iter().flat_map(facts).collect();
        facts.extend(sources.iter().map(|source| {
            let value = |field: &str| source.get(field).map(ToString::to_string).unwrap_or_default();
            let [id, name, visits] = ["_id", "name", "visits"].map(value);
            format!("{UNREAD}source {id} {name} {visits}")
        }));
        facts.extend(indexes(&self.stored).await);
        facts
    }

    async fn read(&self) -> Option<Vec<String>> {
        let mut read = Vec::new();
        for id in 1..=6 {
            let order = self.orders.get(id).await.unwrap();
            read.extend(order.iter().flat_map(facts));
        }
        Some(read)
    }

    async fn damage(&self) -> Vec<String> {
        let [orders, sources] = documents([&self.stored, &self.customers]).await;
        let sources = sources.into_iter();
        let sources: BTreeMap<String, Document> = sources
            .map(|source| (source.get("_id").unwrap().to_string(), source))
            .collect();
        let mut damage = Vec::new();
        for order in &orders {
            for (field, copy) in copies(order) {
                if let Some(problem) = problem(field, &copy, &sources) {
                    let [id, source] = [order, &copy].map(|document| document.get("_id").unwrap());
                    damage.push(format!("{id} {field} {source} {problem}"));
                }
            }
        }
        damage
    }

    async fn found(&self) -> Vec<String> {
        let found: Vec<Finding> = self.orders.verify().stream().try_collect().await.unwrap();
        let name = |finding: &Finding| {
            let problem = match finding.problem {
                Problem::Stale { .. } => "stale",
                Problem::Differs => "differs",
                Problem::NewerThanSource { .. } => "newer",
                Problem::SourceMissing => "missing",
                other => panic!("{other:?}"),
            };
            let source = finding.related_id.as_ref().unwrap();
            format!("{} {} {source} {problem}", finding.document_id, finding.fields[0])
        };
        found.iter().map(name).collect()
    }

    async fn repair(&self) {
        let repaired: Result<Vec<Repaired>, _> = self.orders.repair().stream().try_collect().await;
        match repaired {
            Err(error) => assert!(error.is_setup_error(), "{error:?}"),
            // The rest of a deletion needs its rule.
            Ok(repaired) => {
                assert!(
                    repaired.iter().all(|repaired| repaired.unrepaired.is_none()
                        || repaired.findings[0].problem == Problem::SourceMissing),
                    "{repaired:?}"
                );
            }
        }
    }
}

pub(super) fn operations() -> Vec<Call<Sales>> {
    calls! { Sales;
        Atomic, "ReferenceRepository::insert", "", |m| m.orders.insert(&order(5, 1)).await => retry_errors(EXISTS);
        Atomic, "ReferenceRepository::insert", "of two sources", |m| {
            let mut new = order(5, 1);
            new.insert("products", vec![doc! { "_id": 2 }, doc! { "_id": 4 }]);
            m.orders.insert(&new).await
        } => retry_errors(EXISTS);
        Atomic, "ReferenceRepository::insert_many", "", |m| m.orders.insert_many(&two()).await => retry_errors(EXISTS);
        Atomic, "ReferenceRepository::set_reference", "", |m| m.orders.set_reference(1, 4).await.map(drop);
        Atomic, "ReferenceRepository::clear_reference", "", |m| m.orders.clear_reference(1).await.map(drop);
        Atomic, "ReferenceRepository::add_reference_to", "", |m|
            m.orders.add_reference_to(2, 4).field("products").await.map(drop);
        Atomic, "ReferenceRepository::add_reference_to", "the first", |m|
            m.orders.add_reference_to(3, 4).field("products").await.map(drop);
        Atomic, "ReferenceRepository::remove_reference", "", |m|
            m.orders.remove_reference(2, 1).field("products").await.map(drop);
        Atomic, "ReferenceRepository::update_source", "", |m|
            m.orders.update_source(1, rename("Cas")).await.map(|updated| updated.version);
        Atomic, "ReferenceRepository::update_source", "after a process died", |m|
            m.orders.update_source(1, rename("Cas")).await.map(|updated| updated.version) => prepare(stale);
        Atomic, "ReferenceRepository::refresh_copies", "", |m|
            m.orders.refresh_copies(1).await.map(|refreshed| refreshed.version);
        Atomic, "ReferenceRepository::update_source", "of other fields", |m|
            m.orders.update_source(1, doc! { "$set": { "visits": 7 } }).await;
        Atomic, "ReferenceRepository::delete_source", "", |m| m.orders.delete_source(4).await.map(drop);
        Steps, "ReferenceRepository::delete_source", "keeping copies", |m|
            m.orders.delete_source(1).on_references(OnReferences::KeepCopy).await.map(drop);
        Steps, "ReferenceRepository::delete_source", "clearing references", |m|
            m.orders.delete_source(1).on_references(OnReferences::Clear).await.map(drop);
        Reads, "ReferenceRepository::get", "", |m| m.orders.get(2).await;
        Reads, "ReferenceRepository::find", "", |m|
            m.orders.find(doc! { "customer._id": 1 }).sort(doc! { "_id": 1 }).await;
        Reads, "ReferenceRepository::get", "with the newest copies", |m|
            m.orders.get(2).max_staleness(0).await => prepare(stale);
        Steps, "ReferenceRepository::ensure_indexes", "", |m|
            m.orders.ensure_indexes().await.map(drop)
            => prepare(|m| m.stored.drop_indexes().await.unwrap());
        Reads, "ReferenceRepository::verify", "", |m|
            number_of(m.orders.verify().stream()).await => prepare(stale);
        Steps, "ReferenceRepository::repair + RepairReferences::stream", "", |m|
            m.orders.repair().stream().try_collect::<Vec<_>>().await.map(drop) => prepare(stale);
    }
}

/// Leaves source 1 as a process does that died between its update and that of the copies.
fn stale(m: &Sales) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        let update = doc! { "$set": { "name": "Bea" }, "$inc": { "v": 1_i64 } };
        m.customers.update_one(doc! { "_id": 1 }, update).await.unwrap();
    })
}

/// Returns two new orders, of two customers.
pub(super) fn two() -> [Document; 2] {
    [order(5, 1), order(6, 4)]
}
