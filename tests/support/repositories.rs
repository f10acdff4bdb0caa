//! A repository of each pattern.

use mongo_patterns::Repository;
use mongo_patterns::bucket::BucketRepository;
use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns::sharding::EnsureSharded;
use mongodb::Database;
use mongodb::bson::Document;

use crate::common::Trade;
use crate::embedded::Patrons;
use crate::history::{Policies, builder as policies};
use crate::outlier::Book;
use crate::reference::{Orders, builder as orders};
use crate::subset::{Products, builder as products};

/// A repository of each pattern.
pub struct Repositories {
    pub trades: BucketRepository<u32, Trade>,
    pub books: OutlierRepository<Book, String>,
    pub products: Products,
    pub patrons: Patrons,
    pub policies: Policies,
    pub orders: Orders,
}

impl Repositories {
    pub fn new(database: &Database) -> Self {
        let collection = |name: &str| database.collection::<Document>(name);
        let trades = BucketRepository::builder(collection("trades"))
            .key_field("customerId")
            .items_field("history")
            .item_id_field("n");
        let books = OutlierRepository::builder(collection("sales"), collection("extra_sales"))
            .array_field("customers_purchased")
            .parent_field("book_id")
            .unique_elements();
        let patrons = Patrons::builder(collection("patron")).children_field("addresses");
        Self {
            trades: trades.build().unwrap(),
            books: books.build().unwrap(),
            products: products(database).build().unwrap(),
            patrons: patrons.build().unwrap(),
            policies: policies(database).build().unwrap(),
            orders: orders(database).build().unwrap(),
        }
    }

    pub fn all(&self) -> [&dyn Repository; 6] {
        [
            &self.trades,
            &self.books,
            &self.products,
            &self.patrons,
            &self.policies,
            &self.orders,
        ]
    }

    pub fn ensure_sharded(&self) -> Vec<EnsureSharded<'_>> {
        self.all().map(Repository::ensure_sharded).into()
    }
}
