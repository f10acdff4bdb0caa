//! The repositories, shared by all requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mongo_patterns::Result;
use mongo_patterns::prelude::*;
use mongo_patterns::subset::Subset;
use mongodb::bson::{Document, doc};
use mongodb::options::{DatabaseOptions, WriteConcern};
use mongodb::{Client, Database};

use crate::model::{Address, Book, Buyer, CHANGED_BY, Order, Patron, Policy, Product, Review, Trade};

const DATABASE: &str = "mongo_patterns_service";
/// The longest time for the database to answer a ping.
const PING: Duration = Duration::from_secs(1);
/// How long a deleted patron can be restored.
const RESTORABLE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The state of the service. Cloning it is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) database: Database,
    pub(crate) trades: BucketRepository<u32, Trade>,
    pub(crate) books: OutlierRepository<Book, String>,
    pub(crate) products: SubsetRepository<Product, Review>,
    pub(crate) patrons: EmbeddedRepository<Patron, Address>,
    pub(crate) deleted_patrons: Trash<Patron>,
    pub(crate) policies: HistoryRepository<Policy>,
    pub(crate) orders: ReferenceRepository<Order, Buyer>,
    pub(crate) prepared: Arc<AtomicBool>,
}

impl Store {
    /// Creates the repositories. Sends no command.
    pub(crate) fn new(client: &Client) -> Result<Self> {
        let name = client.default_database().map(|database| database.name().to_owned());
        // Acknowledged writes survive the loss of a minority of the servers.
        let options = DatabaseOptions::builder()
            .write_concern(WriteConcern::majority())
            .build();
        let database = client.database_with_options(name.as_deref().unwrap_or(DATABASE), options);
        let of = |name: &str| database.collection::<Document>(name);
        Ok(Self {
            trades: BucketRepository::builder(of("trades"))
                .key_field("customerId")
                .items_field("history")
                .time_field("date")
                .item_id_field("tradeId")
                .page_size(10)
                .build()?,
            books: OutlierRepository::builder(of("sales"), of("extra_sales"))
                .array_field("customers_purchased")
                .parent_field("book_id")
                .threshold(50)
                .unique_elements()
                .build()?,
            products: SubsetRepository::builder(of("product"), of("review"))
                .parent_field("product_id")
                .child_id_field("review_id")
                .subset(Subset::new("reviews").sort(doc! { "published_date": -1 }).size(10))
                .build()?,
            patrons: EmbeddedRepository::builder(of("patron"))
                .children_field("addresses")
                .child_id_field("id")
                .max_children(20)
                .build()?,
            deleted_patrons: Trash::builder(of("patron"), of("deletedPatron"))
                .expires_after(RESTORABLE)
                .build()?,
            policies: HistoryRepository::builder(of("currentPolicies"), of("policyRevisions"))
                .id_field("policyId")
                .time_field("dateSet")
                .change_fields([CHANGED_BY])
                .build()?,
            orders: ReferenceRepository::builder(of("orders"), of("buyers"))
                .reference_field("buyer")
                .copied_fields(["name", "city"])
                .build()?,
            database,
            prepared: Arc::default(),
        })
    }

    /// Returns all repositories, for what they have in common.
    pub(crate) fn repositories(&self) -> [&dyn Repository; 7] {
        [
            &self.trades,
            &self.books,
            &self.products,
            &self.patrons,
            &self.deleted_patrons,
            &self.policies,
            &self.orders,
        ]
    }

    pub(crate) fn is_prepared(&self) -> bool {
        self.prepared.load(Ordering::Acquire)
    }

    /// Returns whether requests can be served: the preparation is done, and the server answers.
    pub(crate) async fn is_ready(&self) -> bool {
        let ping = async { self.database.run_command(doc! { "ping": 1 }).await };
        self.is_prepared() && tokio::time::timeout(PING, ping).await.is_ok_and(|pong| pong.is_ok())
    }
}
