//! Tasks that insert orders of few customers, and rename these customers. Each acknowledged rename is one version.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use futures::TryStreamExt;
use mongo_patterns::Repository;
use mongo_patterns::reference::Finding;
use mongodb::Database;
use mongodb::bson::{Document, doc};

use super::calls::{Fate, Fates, Load, Outcome, lock};
use support::common::all;
use support::reference::{Orders, customer, order};

const CUSTOMERS: i64 = 4;
const ORDERS_NAME: &str = "shopOrders";
const CUSTOMERS_NAME: &str = "shopCustomers";

#[derive(Debug)]
pub struct References {
    load: Arc<Load>,
    next: AtomicI64,
    orders: Fates,
    renames: Fates,
    /// The customers and versions of the acknowledged renames.
    versions: Mutex<BTreeSet<(i64, u64)>>,
}

impl References {
    pub fn new(load: &Arc<Load>) -> Arc<Self> {
        Arc::new(Self {
            load: Arc::clone(load),
            next: AtomicI64::new(0),
            orders: Fates::default(),
            renames: Fates::default(),
            versions: Mutex::default(),
        })
    }

    /// Creates the indexes, and stores the customers.
    pub async fn prepare(database: &Database) -> Orders {
        let orders = Self::repository(database);
        orders.ensure_indexes().await.unwrap();
        let customers: Vec<Document> = (0..CUSTOMERS).map(|id| customer(id, "Ann")).collect();
        let stored = database.collection::<Document>(CUSTOMERS_NAME);
        stored.insert_many(customers).await.unwrap();
        orders
    }

    pub fn repository(database: &Database) -> Orders {
        let of = |name| database.collection::<Document>(name);
        let builder = Orders::builder(of(ORDERS_NAME), of(CUSTOMERS_NAME)).reference_field("customer");
        builder.copied_fields(["name", "address"]).build().unwrap()
    }

    /// Inserts orders and renames customers until the load stops.
    pub async fn write(self: Arc<Self>, orders: Orders) {
        while self.load.continues().await {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            let of = n % CUSTOMERS;
            if n % 3 == 0 {
                self.rename(&orders, of, n).await;
            } else {
                self.insert(&orders, of, n).await;
            }
        }
    }

    /// Renames a customer. It is not repeated, because the list of renames would have it twice.
    async fn rename(&self, orders: &Orders, customer: i64, n: i64) {
        let rename = doc! { "$set": { "name": n.to_string() }, "$push": { "renames": n } };
        let call = orders.update_source(customer, rename);
        let outcome = self.load.call("reference update_source", n, call).await;
        self.renames.note(n, Fate::from(&outcome));
        if let Outcome::Done(updated) = outcome {
            let version = updated.version;
            let is_new = lock(&self.versions).insert((customer, version));
            assert!(is_new, "version {version} of customer {customer} was returned twice");
        }
    }

    /// Inserts an order, and repeats it until it is known to be stored.
    async fn insert(&self, orders: &Orders, customer: i64, n: i64) {
        let order = order(n, customer);
        let insert = || orders.insert(&order);
        self.load.store("reference insert", n, insert).await;
        self.orders.note(n, Fate::Acknowledged);
    }

    /// Compares the stored orders and renames with the outcomes of the writers, and the copies with the customers. A
    /// dropped call can leave stale copies, which a repair updates.
    pub async fn judge(&self, database: &Database) -> [(&'static str, (usize, usize, usize)); 2] {
        let repository = Self::repository(database);
        let _: Vec<_> = repository.repair().stream().try_collect().await.unwrap();
        let findings: Vec<Finding> = repository.verify().stream().try_collect().await.unwrap();
        assert_eq!(findings, []);
        let (mut renames, mut names) = (Vec::new(), Vec::new());
        for customer in all(&database.collection::<Document>(CUSTOMERS_NAME)).await {
            let of_customer = customer.get_array("renames").unwrap();
            renames.extend(of_customer.iter().map(|n| n.as_i64().unwrap()));
            assert_eq!(customer.get_i64("v").unwrap(), of_customer.len() as i64);
            names.push(customer.get_str("name").unwrap().to_owned());
        }
        let orders = all(&database.collection::<Document>(ORDERS_NAME)).await;
        for order in &orders {
            let copy = order.get_document("customer").unwrap();
            let of = usize::try_from(copy.get_i64("_id").unwrap()).unwrap();
            assert_eq!(copy.get_str("name").unwrap(), names[of]);
        }
        let ids = orders.iter().map(|order| order.get_i64("_id").unwrap());
        let orders = self.orders.judge("reference insert", ids);
        let renames = self.renames.judge("reference update_source", renames);
        [("reference orders", orders), ("reference renames", renames)]
    }
}
