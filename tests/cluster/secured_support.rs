//! All patterns in one database, for deployments other than the usual one of the tests.

use futures::TryStreamExt;
use mongo_patterns::Repository;
use mongo_patterns::bucket::BucketRepository;
use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns::subset::SubsetRepository;
use mongodb::Database;
use mongodb::bson::{Document, doc};

use support::common::{Trade, spread};
use support::history::{Policies, policy, push};
use support::outlier::{Book, book, users};
use support::reference::{Orders, customer, order, rename};
use support::subset::{Product, Review, review};

/// A repository of each pattern.
pub struct Shop {
    pub database: Database,
    pub trades: BucketRepository<u32, Trade>,
    pub books: OutlierRepository<Book, String>,
    pub products: SubsetRepository<Product, Review>,
    pub patrons: EmbeddedRepository<Document, Document>,
    pub policies: Policies,
    pub orders: Orders,
}

impl Shop {
    pub fn of(database: Database) -> Self {
        let collection = |name: &str| database.collection::<Document>(name);
        let trades = BucketRepository::builder(collection("trades"))
            .key_field("customerId")
            .items_field("history")
            .time_field("date")
            .item_id_field("n")
            .page_size(3);
        let books = OutlierRepository::builder(collection("sales"), collection("extra_sales"))
            .array_field("customers_purchased")
            .parent_field("book_id")
            .threshold(3)
            .max_overflow_elements(3);
        let patrons = EmbeddedRepository::builder(collection("patron"))
            .children_field("addresses")
            .child_id_field("id")
            .max_children(5);
        Self {
            trades: trades.build().unwrap(),
            books: books.build().unwrap(),
            products: products(&database, 2),
            patrons: patrons.build().unwrap(),
            policies: support::history::builder(&database).build().unwrap(),
            orders: support::reference::builder(&database).build().unwrap(),
            database,
        }
    }

    /// Writes with each pattern, also in transactions.
    pub async fn fill(&self) {
        self.ensure_indexes().await;
        for n in 0..7 {
            self.trades.append(&123, &spread(n)).await.unwrap();
        }
        self.trades.append_many(&7, &[spread(1), spread(2)]).await.unwrap();
        assert!(self.trades.remove_item(&123, 0).await.unwrap().found);
        self.books.insert(&book(1, 0)).await.unwrap();
        for user in users(0..8) {
            self.books.push(1, &user).await.unwrap();
        }
        self.books.refresh(1).await.unwrap();
        let product = doc! { "_id": 1, "name": "Super Widget" };
        self.database.collection("product").insert_one(product).await.unwrap();
        for id in 0..4 {
            self.products.insert(&review(id)).await.unwrap();
        }
        let home = doc! { "id": "home" };
        let patron = doc! { "_id": "joe", "addresses": [home] };
        self.patrons.insert(&patron).await.unwrap();
        self.patrons.add_child("joe", &doc! { "id": "work" }).await.unwrap();

        self.policies.insert(&policy(1)).await.unwrap();
        self.policies.update(1, push("car")).await.unwrap();
        let customers = self.orders.sources_collection();
        let two = [customer(1, "Ann"), customer(2, "Bob")];
        customers.insert_many(two).await.unwrap();
        for id in 0..3 {
            self.orders.insert(&order(id, 1)).await.unwrap();
        }
        let renamed = self.orders.update_source(1, rename("Bea")).await.unwrap();
        assert_eq!(renamed.copies, 3);
        self.orders.set_reference(2, 2).await.unwrap();
        assert!(self.orders.delete_source(1).await.is_err());
        self.orders.refresh_copies(2).await.unwrap();
    }

    async fn ensure_indexes(&self) {
        let all: [&dyn Repository; 5] = [&self.trades, &self.books, &self.products, &self.policies, &self.orders];
        for repository in all {
            repository.ensure_indexes().await.unwrap();
        }
    }

    /// Runs every read, and checks that verify finds no damage.
    pub async fn read(&self) {
        self.ensure_indexes().await;
        let trades = &self.trades;
        trades.indexes()[0].check().await.unwrap();
        assert_eq!(trades.page(&123, 1).await.unwrap().unwrap().items.len(), 3);
        assert_eq!(trades.buckets(&123).limit(9).page().await.unwrap().items.len(), 2);
        assert_eq!(trades.items(&123).page().await.unwrap().items.len(), 6);
        let from = trades.items(&123).from(spread(3).date);
        assert_eq!(from.page().await.unwrap().items.len(), 4);
        assert_eq!(trades.newest(&123, 2).await.unwrap().len(), 2);
        assert_eq!(trades.item(&123, 4).await.unwrap(), Some(spread(4)));
        assert_eq!(trades.counts(&123).await.unwrap().items, 6);
        assert_eq!(trades.count_pages(&123).await.unwrap(), 2);
        assert_eq!(trades.verify().stream().try_collect::<Vec<_>>().await.unwrap(), []);
        let repaired: Vec<_> = trades.repair().dry_run().stream().try_collect().await.unwrap();
        assert!(repaired.is_empty());

        let books = &self.books;
        assert!(books.get(1).await.unwrap().unwrap().has_extras);
        let full = books.get_full(1).await.unwrap().unwrap();
        assert_eq!(full.customers_purchased, users(0..8));
        assert_eq!(books.elements(1).skip(2).limit(4).await.unwrap(), users(2..6));
        assert!(books.contains(1, &users(7..8)[0]).await.unwrap());
        assert_eq!(books.count(1).await.unwrap().total(), 8);
        assert_eq!(books.verify().stream().try_collect::<Vec<_>>().await.unwrap(), []);
        books.migrate_existing().plan().await.unwrap();

        let products = &self.products;
        assert_eq!(products.get(1).await.unwrap().unwrap().reviews.len(), 2);
        assert_eq!(products.children(1).page().await.unwrap().items.len(), 4);
        assert_eq!(products.child(1, 3).await.unwrap(), Some(review(3)));
        assert_eq!(products.verify().stream().try_collect::<Vec<_>>().await.unwrap(), []);
        let repaired: Vec<_> = products.repair().dry_run().stream().try_collect().await.unwrap();
        assert!(repaired.is_empty());

        let patrons = &self.patrons;
        let addresses = patrons.get("joe").await.unwrap().unwrap();
        assert_eq!(addresses.get_array("addresses").unwrap().len(), 2);
        assert!(patrons.child("joe", "work").await.unwrap().is_some());
        assert_eq!(patrons.verify().stream().try_collect::<Vec<_>>().await.unwrap(), []);

        let policies = &self.policies;
        assert!(policies.get(1).await.unwrap().is_some());
        assert_eq!(policies.revisions(1).page().await.unwrap().items.len(), 2);
        assert_eq!(policies.diff(1, 1, 2).await.unwrap().changes.len(), 1);
        assert_eq!(policies.verify().stream().try_collect::<Vec<_>>().await.unwrap(), []);

        let orders = &self.orders;
        let shown = orders.get(0).max_staleness(0).await.unwrap().unwrap();
        assert_eq!(shown.get_document("customer").unwrap().get_str("name").unwrap(), "Bea");
        assert_eq!(orders.verify().stream().try_collect::<Vec<_>>().await.unwrap(), []);
    }
}

/// Returns a repository with a subset of this size, of the newest reviews.
pub fn products(database: &Database, size: u32) -> SubsetRepository<Product, Review> {
    support::subset::builder_of(database, support::subset::newest().size(size))
        .build()
        .unwrap()
}
