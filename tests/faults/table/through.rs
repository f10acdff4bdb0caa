//! Customers that are deleted through other repositories: as sources of references, as parents of a subset, as lists, as all of
//! them, and with a history.

use mongo_patterns::Repository;
use mongo_patterns::archive::Trash;
use mongo_patterns::history::HistoryRepository;
use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns::reference::OnReferences;
use mongo_patterns::subset::{Subset, SubsetRepository};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};

use super::operation::Promise::{Atomic, Steps};
use super::operation::{Call, Model, Of, Operations, UNREAD, calls, delegate, documents, retry_policy, session_calls};
use support::reference::{Orders, order};

const COLLECTIONS: &[&str] = &[
    "customers",
    "deleted_customers",
    "orders",
    "products",
    "more_visits",
    "customer_revisions",
];

/// What the customers have.
#[derive(Clone, Copy)]
struct Has {
    orders: bool,
    products: bool,
    visits: bool,
    history: bool,
}

const NOTHING: Has = Has {
    orders: false,
    products: false,
    visits: false,
    history: false,
};

/// Customers 1 to 4. The orders refer to the first. Each has two products and eight visits.
pub(super) struct Customers {
    has: Has,
    pub(super) stored: Vec<Collection<Document>>,
    customers: Collection<Document>,
    orders: Orders,
    products: SubsetRepository<Document, Document>,
    visits: OutlierRepository<Document, i32>,
    history: HistoryRepository<Document>,
    trash: Trash<Document>,
}

impl Model for Customers {
    const PATTERN: &'static str = "reference";
    const COLLECTIONS: &'static [&'static str] = COLLECTIONS;

    fn new(of: Of<'_>) -> Self {
        let orders = true;
        Self::with(Has { orders, ..NOTHING }, of)
    }

    async fn fill(&self) {
        self.trash.ensure_indexes().await.unwrap();
        let customers = (1..=4).map(|id| doc! { "_id": id, "name": "Ann" });
        if self.has.history {
            self.history.ensure_indexes().await.unwrap();
            let customers: Vec<Document> = customers.collect();
            self.history.insert_many(&customers).await.unwrap();
            return;
        }
        self.customers.insert_many(customers).await.unwrap();
        if self.has.products {
            self.products.ensure_indexes().await.unwrap();
            let products = |id: i32| [1, 2].map(|n| doc! { "_id": 10 * id + n, "customer": id });
            for id in 1..=4 {
                self.products.insert_many(&products(id)).await.unwrap();
            }
        }
        if self.has.visits {
            self.visits.ensure_indexes().await.unwrap();
            for id in 1..=4 {
                self.visits.push_many(id, &(0..8).collect::<Vec<i32>>()).await.unwrap();
            }
        }
        if self.has.orders {
            self.orders.ensure_indexes().await.unwrap();
            for id in 1..=2 {
                self.orders.insert(&order(id, 1)).await.unwrap();
            }
        }
    }
    async fn facts(&self) -> Vec<String> {
        let stored: [&Collection<Document>; 6] = std::array::from_fn(|number| &self.stored[number]);
        let [customers, deleted, orders, products, visits, revisions] = documents(stored).await;
        let mut facts: Vec<String> = customers.iter().map(|customer| fact(customer, "customers")).collect();
        let deleted = deleted.iter().map(|entry| entry.get_document("document").unwrap());
        facts.extend(deleted.map(|customer| fact(customer, "deleted_customers")));
        for order in orders {
            let copy = order.get_document("customer").unwrap();
            let is_kept = copy.contains_key("deleted");
            facts.push(format!("{UNREAD}order {:?} kept: {is_kept}", order.get("_id")));
        }
        facts.extend(
            products
                .iter()
                .map(|product| format!("{UNREAD}product {:?}", product.get("_id"))),
        );
        facts.extend(
            visits
                .iter()
                .map(|visits| format!("{UNREAD}visits of {:?}", visits.get("customer"))),
        );
        facts.extend(revisions.iter().map(|revision| {
            let [id, number, deleted] = ["documentId", "revision", "deleted"].map(|field| revision.get(field));
            format!("{UNREAD}revision {number:?} of {id:?}, deleted: {deleted:?}")
        }));
        facts
    }

    async fn read(&self) -> Option<Vec<String>> {
        let deleted = self.trash.list().page().await.ok()?.items;
        let mut facts: Vec<String> = deleted
            .iter()
            .map(|entry| fact(&entry.document, "deleted_customers"))
            .collect();
        for id in 1..=4 {
            let customer = self.visits.get_full(id).await.unwrap();
            facts.extend(customer.map(|customer| fact(&customer, "customers")));
        }
        Some(facts)
    }
}

fn fact(customer: &Document, collection: &str) -> String {
    let number = |field: &str| customer.get_array(field).map_or(0, |array: &Vec<Bson>| array.len());
    let parts = [number("newest"), number("visits")].map(|parts| if parts == 0 { "none" } else { "some" });
    let id = customer.get("_id").unwrap();
    format!(
        "customer {id} in {collection}, products: {}, visits: {}",
        parts[0], parts[1]
    )
}

impl Customers {
    fn with(has: Has, of: Of<'_>) -> Self {
        let customers = of.collection("customers");
        let newest = Subset::new("newest").sort(doc! { "_id": -1 }).size(1);
        let products = SubsetRepository::builder(customers.clone(), of.collection("products")).subset(newest);
        let products = products
            .parent_field("customer")
            .child_id_field("_id")
            .retry(retry_policy());
        let visits = OutlierRepository::builder(customers.clone(), of.collection("more_visits")).array_field("visits");
        let visits = visits
            .parent_field("customer")
            .threshold(5)
            .max_overflow_elements(5)
            .retry(retry_policy());
        let history =
            HistoryRepository::builder(customers.clone(), of.collection("customer_revisions")).id_field("_id");
        let orders = Orders::builder(of.collection("orders"), customers.clone()).reference_field("customer");
        Self {
            has,
            orders: orders.copied_fields(["name"]).retry(retry_policy()).build().unwrap(),
            products: products.build().unwrap(),
            visits: visits.build().unwrap(),
            history: history.retry(retry_policy()).build().unwrap(),
            trash: Trash::builder(customers.clone(), of.collection("deleted_customers"))
                .retry(retry_policy())
                .build()
                .unwrap(),
            stored: COLLECTIONS.iter().map(|name| of.collection(name)).collect(),
            customers,
        }
    }
}

impl Operations for Customers {
    fn operations() -> Vec<Call<Self>> {
        let mut operations = calls! { Self;
            Atomic, "ReferenceRepository::delete_source", "through a trash", |m|
                m.orders.delete_source(4).through(&m.trash).await.map(drop);
            Atomic, "ReferenceRepository::delete_source", "through a trash, absent", |m|
                m.orders.delete_source(9).through(&m.trash).await;
            Steps, "ReferenceRepository::delete_source", "through a trash, keeping copies", |m| {
                let deletion = m.orders.delete_source(1).through(&m.trash);
                deletion.on_references(OnReferences::KeepCopy).await.map(drop)
            };
        };
        operations.extend(session_calls! { Self, customers;
            Atomic, "ReferenceRepository::delete_source", "through a trash, in the caller's transaction", |m, s|
                m.orders.delete_source(4).through(&m.trash).session(s).await;
        });
        operations
    }
}

/// The same as parents.
pub(super) struct Parents(Customers);

impl Model for Parents {
    const PATTERN: &'static str = "subset";
    const COLLECTIONS: &'static [&'static str] = COLLECTIONS;

    fn new(of: Of<'_>) -> Self {
        let products = true;
        Self(Customers::with(Has { products, ..NOTHING }, of))
    }

    delegate! { fill -> (), facts -> Vec<String>, read -> Option<Vec<String>> }
}

impl Operations for Parents {
    fn operations() -> Vec<Call<Self>> {
        calls! { Self;
            Atomic, "SubsetRepository::delete_parent", "through a trash", |m|
                m.0.products.delete_parent(2).through(&m.0.trash).await.map(drop);
        }
    }
}

/// The same as lists.
pub(super) struct Lists(Customers);

impl Model for Lists {
    const PATTERN: &'static str = "outlier";
    const COLLECTIONS: &'static [&'static str] = COLLECTIONS;

    fn new(of: Of<'_>) -> Self {
        let visits = true;
        Self(Customers::with(Has { visits, ..NOTHING }, of))
    }

    delegate! { fill -> (), facts -> Vec<String>, read -> Option<Vec<String>> }
}

impl Operations for Lists {
    fn operations() -> Vec<Call<Self>> {
        calls! { Self;
            Atomic, "OutlierRepository::delete", "through a trash", |m|
                m.0.visits.delete(2).through(&m.0.trash).await.map(drop);
        }
    }
}

/// The same as sources, parents and lists.
pub(super) struct All(Customers);

impl Model for All {
    const PATTERN: &'static str = "reference";
    const COLLECTIONS: &'static [&'static str] = COLLECTIONS;

    fn new(of: Of<'_>) -> Self {
        let has = Has {
            orders: true,
            products: true,
            visits: true,
            history: false,
        };
        Self(Customers::with(has, of))
    }

    delegate! { fill -> (), facts -> Vec<String>, read -> Option<Vec<String>> }
}

impl Operations for All {
    fn operations() -> Vec<Call<Self>> {
        calls! { Self;
            Atomic, "ReferenceRepository::delete_source", "through three others", |m|
                m.0.orders.delete_source(4).through(&m.0.visits).through(&m.0.products).through(&m.0.trash).await.map(drop);
        }
    }
}

/// The same with a history.
pub(super) struct Recorded(Customers);

impl Model for Recorded {
    const PATTERN: &'static str = "history";
    const COLLECTIONS: &'static [&'static str] = COLLECTIONS;

    fn new(of: Of<'_>) -> Self {
        let history = true;
        Self(Customers::with(Has { history, ..NOTHING }, of))
    }

    delegate! { fill -> (), facts -> Vec<String>, read -> Option<Vec<String>> }
}

impl Operations for Recorded {
    fn operations() -> Vec<Call<Self>> {
        calls! { Self;
            Atomic, "HistoryRepository::delete", "through a trash", |m|
                m.0.history.delete(2).through(&m.0.trash).await.map(drop);
        }
    }
}
