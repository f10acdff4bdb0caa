//! Calls of all patterns that write one document.

use futures::future::BoxFuture;
use mongo_patterns::Error;
use mongo_patterns::bucket::BucketRepository;
use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns::history::HistoryRepository;
use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns::reference::ReferenceRepository;
use mongo_patterns::schema::SchemaRepository;
use mongo_patterns::subset::{Subset, SubsetRepository};
use mongodb::Database;
use mongodb::bson::{DateTime, Document, doc};

/// The number of the first call. A document has items of lower numbers before, from 0.
pub const FIRST: i32 = 1000;

/// Returns the application name of the clients that end while their calls are in flight.
pub fn ending_app_name(database: &str) -> String {
    format!("{database}-ending")
}

/// The repositories of a service: each is built once. A clone shares them.
#[derive(Clone, Debug)]
pub struct Repositories {
    pub trades: BucketRepository<i32, Document>,
    pub books: OutlierRepository<Document, String>,
    pub products: SubsetRepository<Document, Document>,
    pub policies: HistoryRepository<Document>,
    pub patrons: EmbeddedRepository<Document, Document>,
    pub orders: ReferenceRepository<Document, Document>,
    pub contacts: SchemaRepository<Document>,
}

impl Repositories {
    pub fn new(database: &Database) -> Self {
        let of = |name| database.collection::<Document>(name);
        Self {
            trades: BucketRepository::builder(of("trades"))
                .key_field("customerId")
                .items_field("history")
                .time_field("date")
                .item_id_field("n")
                .page_size(1000)
                .build()
                .unwrap(),
            books: OutlierRepository::builder(of("sales"), of("extra_sales"))
                .array_field("customers")
                .parent_field("book_id")
                .threshold(1000)
                .build()
                .unwrap(),
            products: SubsetRepository::builder(of("product"), of("review"))
                .parent_field("product_id")
                .child_id_field("review_id")
                .subset(Subset::new("reviews").sort(doc! { "published": -1 }))
                .build()
                .unwrap(),
            policies: HistoryRepository::builder(of("currentPolicies"), of("policyRevisions"))
                .id_field("policyId")
                .revision_field("revision")
                .time_field("dateSet")
                .build()
                .unwrap(),
            patrons: EmbeddedRepository::builder(of("patron"))
                .children_field("addresses")
                .child_id_field("id")
                .max_children(1000)
                .build()
                .unwrap(),
            orders: ReferenceRepository::builder(of("orders"), of("customers"))
                .reference_field("customer")
                .copied_fields(["name"])
                .build()
                .unwrap(),
            contacts: SchemaRepository::builder(of("contacts"))
                .step(1, |old: Document| Ok(old))
                .build()
                .unwrap(),
        }
    }
}

/// A call that writes one document.
#[derive(Debug)]
pub struct Operation {
    pub name: &'static str,
    /// The collection of the document.
    pub collection: &'static str,
    /// The field with its id.
    pub id_field: &'static str,
    run: fn(Repositories, i32, i32) -> BoxFuture<'static, Result<(), Error>>,
}

impl Operation {
    /// Runs a call for a document. The numbers of calls begin with [`FIRST`].
    pub async fn run(&self, repositories: &Repositories, document: i32, number: i32) -> Result<(), Error> {
        (self.run)(repositories.clone(), document, number).await
    }
}

pub fn operation(name: &str) -> &'static Operation {
    let mut operations = OPERATIONS.iter();
    operations
        .find(|operation| operation.name == name)
        .unwrap_or_else(|| panic!("no operation is named `{name}`"))
}

pub fn trade(n: i32) -> Document {
    doc! { "n": n, "date": DateTime::from_millis(1_698_335_223_000 + i64::from(n)) }
}

pub fn user(n: i32) -> String {
    format!("user{n}")
}

/// Returns review `n` of a product.
pub fn review(product: i32, n: i32) -> Document {
    let published = DateTime::from_millis(1_548_979_200_000 + i64::from(n));
    doc! { "review_id": review_id(product, n), "product_id": product, "review_author": "Kristina", "published": published }
}

pub fn review_id(product: i32, n: i32) -> i32 {
    product * 10_000 + n
}

/// Defines an operation.
macro_rules! operation {
    ($name:literal, $collection:literal $id_field:literal, |$repositories:ident, $document:ident, $n:ident| $call:expr) => {
        Operation {
            name: $name,
            collection: $collection,
            id_field: $id_field,
            run: |$repositories, $document, $n| Box::pin(async move { $call.await.map(drop) }),
        }
    };
}

/// All operations.
pub static OPERATIONS: [Operation; 12] = [
    operation!("append", "trades" "customerId", |of, key, n| of.trades.append(&key, &trade(n))),
    operation!("append_many", "trades" "customerId", |of, key, n| {
        of.trades.append_many(&key, &[n, n + 100_000, n + 200_000].map(trade))
    }),
    operation!("remove_item", "trades" "customerId", |of, key, n| of.trades.remove_item(&key, n - FIRST)),
    operation!("push", "sales" "_id", |of, book, n| of.books.push(book, &user(n))),
    operation!("insert", "product" "_id", |of, product, n| of.products.insert(&review(product, n))),
    operation!("update of a child", "product" "_id", |of, product, n| {
        let update = doc! { "$set": { "review_author": user(n) } };
        of.products.update(product, review_id(product, 0), update)
    }),
    operation!("update", "currentPolicies" "policyId", |of, policy, n| {
        of.policies.update(policy, doc! { "$push": { "itemsInsured": n } })
    }),
    operation!("add_child", "patron" "_id", |of, patron, n| of.patrons.add_child(patron, &doc! { "id": n })),
    operation!("update_source", "customers" "_id", |of, customer, n| {
        of.orders.update_source(customer, doc! { "$set": { "name": user(n) } })
    }),
    operation!("update of a version", "contacts" "_id", |of, contact, n| {
        of.contacts.update(contact, doc! { "$push": { "calls": n } })
    }),
    operation!("update of an older version", "contacts" "_id", |of, contact, n| {
        of.contacts.update(contact, doc! { "$push": { "calls": n } })
    }),
    operation!("set_reference", "orders" "_id", |of, order, n| of.orders.set_reference(order, n % 2 + 2)),
];
