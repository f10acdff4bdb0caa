//! The indexes, and sample data from the examples of MongoDB's manual.

use std::sync::atomic::Ordering;
use std::time::Duration;

use mongo_patterns::{ErrorKind, Result};
use mongodb::IndexModel;
use mongodb::bson::{DateTime, Document, doc};
use tracing::{info, warn};

use crate::model::{Address, Book, CHANGED_BY, Order, Patron, Policy, Price, Product, Review, Trade};
use crate::store::Store;

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

impl Store {
    /// Creates the indexes, and sample data in empty collections. Retries until it reaches the server.
    pub(crate) async fn prepare(&self) {
        while let Err(error) = self.try_to_prepare().await {
            warn!(%error, "not ready");
            tokio::time::sleep(PAUSE).await;
        }
        self.prepared.store(true, Ordering::Release);
        info!(database = self.database.name(), "ready");
    }

    async fn try_to_prepare(&self) -> Result<()> {
        for repository in self.repositories() {
            repository.ensure_indexes().await?;
        }
        // For the page of a buyer, which has their orders in the order of ids.
        let of_buyer = IndexModel::builder().keys(doc! { "buyer._id": 1, "_id": 1 }).build();
        self.orders.collection().create_index(of_buyer).await?;
        fill_empty(self).await
    }
}

/// 2023-10-26T15:47:03.434Z, the time of the manual's first trade.
const FIRST_TRADE: i64 = 1_698_335_223_434;
/// 2019-02-18T00:00:00Z, the date of the manual's newest review.
const NEWEST_REVIEW: i64 = 1_550_448_000_000;
const HOUR: i64 = 60 * 60 * 1000;
const TICKERS: [&str; 5] = ["MDB", "GOOG", "MSFT", "AAPL", "IBM"];

/// Fills each empty collection. If two processes do it concurrently, each document is stored once.
pub(crate) async fn fill_empty(store: &Store) -> Result<()> {
    if is_empty(store, "trades").await? {
        trades(store).await?;
    }
    if is_empty(store, "sales").await? {
        books(store).await?;
    }
    if is_empty(store, "review").await? {
        products(store).await?;
    }
    if is_empty(store, "patron").await? {
        for patron in patrons() {
            ignore_existing(store.patrons.insert(&patron).await)?;
        }
    }
    if is_empty(store, "currentPolicies").await? {
        policies(store).await?;
    }
    if is_empty(store, "orders").await? {
        orders(store).await?;
    }
    Ok(())
}

async fn is_empty(store: &Store, collection: &str) -> Result<bool> {
    let collection = store.database.collection::<Document>(collection);
    Ok(collection.find_one(Document::new()).await?.is_none())
}

fn ignore_existing<T>(inserted: Result<T>) -> Result<()> {
    match inserted {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        inserted => inserted.map(drop),
    }
}

async fn trades(store: &Store) -> Result<()> {
    for (customer, trades) in [(123, 34), (456, 7)] {
        let trades: Vec<Trade> = (0..trades)
            .zip(TICKERS.iter().cycle())
            .map(|(n, ticker)| Trade {
                id: format!("sample-{n}"),
                kind: if n % 3 == 1 { "sell" } else { "buy" }.to_owned(),
                ticker: (*ticker).to_owned(),
                qty: 419 - 11 * n,
                date: DateTime::from_millis(FIRST_TRADE + i64::from(n) * 29 * HOUR),
            })
            .collect();
        store.trades.append_many(&customer, &trades).await?;
    }
    Ok(())
}

async fn books(store: &Store) -> Result<()> {
    for (id, title, author, buyers) in [
        (1, "Invisible Cities", "Italo Calvino", 3),
        (2, "The Wooden Amulet", "Lesley Moreno", 1000),
    ] {
        let book = Book {
            id,
            title: title.to_owned(),
            author: author.to_owned(),
            customers_purchased: (0..buyers).map(|n| format!("user{n:02}")).collect(),
        };
        ignore_existing(store.books.insert(&book).await)?;
    }
    Ok(())
}

/// Inserts the manual's product with enough reviews for three pages, and one with a single review.
async fn products(store: &Store) -> Result<()> {
    let parents = store.database.collection::<Product>("product");
    for (id, name, description, price) in [
        (
            1,
            "Super Widget",
            "This is the most useful item in your toolbox.",
            "119.99",
        ),
        (2, "Small Widget", "It fits into your pocket.", "19.99"),
    ] {
        // Another process can have inserted it already.
        if store.products.get(id).await?.is_some() {
            continue;
        }
        let product = Product {
            id,
            name: name.to_owned(),
            description: description.to_owned(),
            price: Price {
                value: price.parse().map_err(mongodb::error::Error::from)?,
                currency: "USD".to_owned(),
            },
            reviews: vec![],
        };
        parents.insert_one(&product).await?;
    }
    let texts = [
        ("Kristina", "This is indeed an amazing widget."),
        ("Trina", "Nice product. Slow shipping."),
        ("Pablo", "Amazing!"),
        ("Hans", "Meh, it's okay."),
    ];
    let of_product = |n| if n < 45 { 1 } else { 2 };
    let reviews: Vec<Review> = (0..46)
        .zip(texts.iter().cycle())
        .map(|(n, (author, text))| Review {
            review_id: (786 - n).to_string(),
            product_id: of_product(n),
            review_author: (*author).to_owned(),
            review_text: (*text).to_owned(),
            published_date: DateTime::from_millis(NEWEST_REVIEW - n * 31 * HOUR),
        })
        .collect();
    store.products.insert_many(&reviews).await.map(drop)
}

/// Inserts the manual's policy with the revision that it shows, and another one.
async fn policies(store: &Store) -> Result<()> {
    let sample = || doc! { CHANGED_BY: "sample" };
    for (policy_id, name, items) in [(1, "Michelle", ["golf clubs", "car"]), (2, "Rodney", ["car", "boat"])] {
        let policy = Policy {
            policy_id,
            customer_name: name.to_owned(),
            items_insured: items.map(str::to_owned).into(),
        };
        ignore_existing(store.policies.insert(&policy).with(sample()).await)?;
    }
    let watch = doc! { "$push": { "itemsInsured": "watch" } };
    match store.policies.update(1, watch).expecting(1).with(sample()).await {
        // Another process has made the change.
        Err(error) if error.kind() == ErrorKind::RevisionMismatch => Ok(()),
        updated => updated.map(drop),
    }
}

/// Inserts two buyers, and orders of them.
async fn orders(store: &Store) -> Result<()> {
    let buyers = store.orders.sources_collection();
    for (id, name, city) in [(1, "Ann", "Dublin"), (2, "Bob", "Cork")] {
        let insert = doc! { "$setOnInsert": { "name": name, "city": city } };
        buyers.update_one(doc! { "_id": id }, insert).upsert(true).await?;
    }
    for (id, buyer, total) in [("sample-1", 1, 25), ("sample-2", 1, 40), ("sample-3", 2, 15)] {
        ignore_existing(store.orders.insert(&Order::new(id, buyer, total)).await)?;
    }
    Ok(())
}

fn patrons() -> [Patron; 2] {
    let address = |id: &str, street: &str, city: &str| Address {
        id: id.to_owned(),
        street: street.to_owned(),
        city: city.to_owned(),
        state: "MA".to_owned(),
        zip: "12345".to_owned(),
    };
    let patron = |id: &str, name: &str, addresses| Patron {
        id: id.to_owned(),
        name: name.to_owned(),
        addresses,
    };
    let fake = || address("1", "123 Fake Street", "Faketon");
    let other = address("2", "1 Some Other Street", "Boston");
    [
        patron("joe", "Joe Bookreader", vec![fake(), other]),
        patron("jane", "Jane Bookreader", vec![fake()]),
    ]
}
