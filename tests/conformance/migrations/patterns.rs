//! The migrations of all patterns but the archive.

use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns::subset::Subset;
use mongo_patterns::{ErrorKind, Repository};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, doc};

use super::model::{Migrates, Selected, migration, with_id};
use support::bucket::migration as flat;
use support::common::{Trade, builder as trades, spread};
use support::embedded::migration::{addresses, index_reference};
use support::embedded::{Patrons, stored as patrons_stored};
use support::history::{builder as policies, by_id, by_id_migrate, migrate};
use support::intervals;
use support::outlier::damage::{extra, flagged, naive};
use support::outlier::{again, extra_sales, sales, users};
use support::plans::by_document;
use support::reference::migrate::several;
use support::reference::migrate_refused::{fill as fill_orders, invalid as invalid_orders};
use support::reference::source_key::{fill_by_key, invalid_by_key, orders_by_key};
use support::reference::{Orders, builder as orders_builder};
use support::schema::contacts::{mixed, stored as contacts, typed, v1};
use support::subset::migration::{fill as fill_products, invalid as invalid_products, unmigrated};
use support::subset::{Products, Review, builder_of, product, review_of};

#[rustfmt::skip] // some in a line
pub(super) const PATTERNS: [&Migrates; 14] = [
    &FROM_FLAT, &TO_FLAT, &PAGE_SIZE, &OUTLIERS, &FROM_EMBEDDED, &SUBSETS, &LAYOUT, &EMBED, &HISTORY,
    &HISTORY_BY_ID, &INTERVALS, &FROM_REFERENCES, &BY_KEY, &VERSIONS,
];

const FROM_FLAT: Migrates = migration!(
    "bucket::migrate_from_flat",
    |db| {
        let keys: Vec<Bson> = (0..4).map(Bson::Int32).collect();
        flat::fill(db, &flat::documents(&keys, 12)).await;
    },
    |db, call| {
        let trades = flat::histories::<u32>(db).page_size(5).build().unwrap();
        let flat = db.collection::<Document>("flat");
        call.of(trades.migrate_from_flat(&flat)).await
    },
    selected: || Some(Selected {
        source: "flat",
        target: "trades",
        some: doc! { "customerId": { "$in": [0, 1] } },
        // The other keys are another migration, to a target that is not empty.
        others: Err(ErrorKind::TargetNotEmpty),
        invalid: flat::invalid(),
        refusal: ErrorKind::InvalidKey,
        refuses_first: true,
        correction: doc! { "$set": { "customerId": 2 } },
    }),
);

/// Stores pages of three items: of seven items of key 1, of three of key 2, and so on.
async fn pages_of_three(db: &TestDatabase) {
    let trades = trades(db).page_size(3).build().unwrap();
    trades.ensure_indexes().await.unwrap();
    for (key, items) in [(1, 7), (2, 3), (3, 8), (4, 1)] {
        let items: Vec<Trade> = (0..items).map(spread).collect();
        trades.append_many(&key, &items).await.unwrap();
    }
}

const TO_FLAT: Migrates = migration!("bucket::migrate_to_flat", |db| pages_of_three(db).await, |db, call| {
    let (trades, back) = (
        trades(db).page_size(3).build().unwrap(),
        db.collection::<Document>("back"),
    );
    call.of(trades.migrate_to_flat(&back)).await
});

pub(super) const PAGE_SIZE: Migrates = migration!(
    "bucket::migrate_page_size_from",
    |db| pages_of_three(db).await,
    |db, call| call.of(trades(db).page_size(4).build().unwrap().migrate_page_size_from(3)).await,
    lists_all: false,
    // The keys of several pages. The progress is that of the buckets.
    rated: |_| 2,
);

/// Long lists of existing documents.
pub(super) const OUTLIERS: Migrates = migration!(
    "outlier::migrate_existing",
    |db| {
        let of = |id: i32, number: usize| doc! { "_id": id, "customers_purchased": users(0..number) };
        let lists = (1..).zip([3, 6, 9, 30, 31]).map(|(id, number)| of(id, number));
        sales(db).insert_many(lists).await.unwrap();
        // As the manual's recipe leaves them, and one that fits in its array again.
        let flagged = [flagged(6, 0..5), flagged(7, 0..8), flagged(8, 0..2)];
        sales(db).insert_many(flagged).await.unwrap();
        let overflow = [naive(6, "a", 5..30), naive(7, "b", 8..20), naive(7, "c", 20..22), extra(8, 0, 2..4)];
        extra_sales(db).insert_many(overflow).await.unwrap()
    },
    |db, call| call.of(again(db, 5, 10).migrate_existing()).await,
    // The server creates the ids of overflow documents.
    normalize: |collection, document| without_id(&["extra_sales"], collection, document),
    // The server groups documents in no order.
    in_order: |commands| {
        let is_of_list = |command: &Document| command.values().next().and_then(Bson::as_str) == Some("skipped");
        let (mut of_list, others): (Vec<_>, Vec<_>) = commands.into_iter().partition(is_of_list);
        of_list.extend(by_document(others));
        of_list
    },
    selected: || Some(Selected {
        source: "sales",
        target: "extra_sales",
        some: doc! { "_id": { "$lte": 3 } },
        others: Ok(()),
        invalid: [101, 102].map(|id| (doc! { "_id": id, "customers_purchased": "none" }, "no_array")).to_vec(),
        refusal: ErrorKind::Corrupt,
        // It rewrites one document after another.
        refuses_first: false,
        correction: doc! { "$set": { "customers_purchased": [] } },
    }),
);

/// The ids in these collections are new in each run.
fn without_id(collections: &[&str], collection: &str, document: &mut Document) {
    if collections.contains(&collection) {
        document.remove("_id");
    }
}

/// Of embedded children.
pub(super) const FROM_EMBEDDED: Migrates = migration!(
    "subset::migrate_from_embedded",
    |db| drop(fill_products(db, 6).await),
    |db, call| call.of(unmigrated(db).migrate_from_embedded()).await,
    normalize: |collection, document| without_id(&["review"], collection, document),
    selected: || Some(Selected {
        source: "product",
        target: "review",
        some: doc! { "_id": { "$lte": 2 } },
        others: Err(ErrorKind::TargetNotEmpty),
        invalid: invalid_products(),
        refusal: ErrorKind::Corrupt,
        refuses_first: true,
        correction: doc! { "$set": { "reviews": [] } },
    }),
);

async fn products_and_reviews(db: &TestDatabase) {
    let parents = (1..=6).map(|id| doc! { "_id": id, "name": "Super Widget" });
    product(db).insert_many(parents).await.unwrap();
    let children: Vec<Review> = (0..60).map(|n| review_of(1 + n % 6, n, n.into())).collect();
    db.plain_collection("review").insert_many(children).await.unwrap();
}

pub(super) const SUBSETS: Migrates = migration!(
    "subset::migrate_existing",
    |db| products_and_reviews(db).await,
    |db, call| call.of(unmigrated(db).migrate_existing()).await,
    normalize: |collection, document| without_id(&["review"], collection, document),
);

pub(super) const LAYOUT: Migrates = migration!(
    "subset::migrate_layout_from",
    |db| {
        products_and_reviews(db).await;
        unmigrated(db).migrate_existing().await.unwrap()
    },
    |db, call| {
        let by_author = Subset::new("reviews").sort(doc! { "review_author": 1 });
        let new: Products = builder_of(db.database(), by_author.size(3)).build().unwrap();
        call.of(new.migrate_layout_from(&unmigrated(db))).await
    },
    // For another order, each run writes all parents.
    normalize: |collection, document| {
        without_id(&["review"], collection, document);
        document.remove("reviews_version");
    },
);

/// Children with an id of their own.
fn patrons(db: &TestDatabase) -> Patrons {
    let patrons = EmbeddedRepository::builder(db.collection::<Document>("patron"));
    patrons.children_field("addresses").child_id_field("n").build().unwrap()
}

pub(super) const EMBED: Migrates = migration!(
    "embedded::migrate_from_references",
    |db| {
        patrons_stored(db).insert_many((1..=5).map(|id| doc! { "_id": id })).await.unwrap();
        let children = (0..20).map(|n| doc! { "_id": n, "patron_id": 1 + n % 4, "n": n });
        addresses(db).insert_many(children).await.unwrap();
        index_reference(db).await;
    },
    |db, call| {
        let (patrons, source) = (patrons(db), db.collection::<Document>("address"));
        call.of(patrons.migrate_from_references(&source, "patron_id")).await
    },
    selected: || {
        let invalid = [doc! { "_id": 90, "patron_id": 1 }, doc! { "_id": 91, "patron_id": 2, "n": [1] }];
        Some(Selected {
            source: "address",
            target: "patron",
            some: doc! { "_id": { "$lt": 12 } },
            // The parents have other children.
            others: Err(ErrorKind::TargetNotEmpty),
            invalid: invalid.map(|child| (child, "child_id")).to_vec(),
            refusal: ErrorKind::InvalidItemId,
            refuses_first: true,
            correction: doc! { "$set": { "n": 90 } },
        })
    },
);

/// The manual's recipe, of documents with an id field. Ids and times are new, also that of a document without a revision.
pub(super) const HISTORY: Migrates = migration!(
    "history::migrate_existing",
    |db| drop(migrate::by_the_recipe(db).await),
    |db, call| call.of(policies(db.database()).build().unwrap().migrate_existing()).await,
    normalize: |_, document| {
        document.remove("_id");
        document.remove("dateSet");
    },
);

const HISTORY_BY_ID: Migrates = migration!(
    "history::migrate_existing, by _id",
    |db| by_id_migrate::by_the_recipe(db, "documentId").await,
    |db, call| call.of(by_id(db.database()).build().unwrap().migrate_existing()).await,
    normalize: |collection, document| {
        without_id(&["policyRevisions"], collection, document);
        document.remove("dateSet");
    },
);

/// What the manual's recipe of intervals leaves: of the pants all but the last price are wrong.
pub(super) const INTERVALS: Migrates = migration!(
    "intervals::migrate_existing",
    |db| {
        let stored = intervals::stored(db);
        intervals::by_the_recipe(&stored, "pants", 9).await;
        let unchanged = (0..11).map(|item| intervals::price(item, 1));
        stored.insert_many(unchanged).await.unwrap()
    },
    |db, call| call.of(intervals::builder(db.database()).build().unwrap().migrate_existing()).await,
    normalize: |_, document| drop(document.remove("_id")),
    rated: |total| total - 1,
);

fn orders(db: &TestDatabase) -> Orders {
    several(orders_builder(db.database())).build().unwrap()
}

/// What orders select, with these invalid ones, which valid fields correct.
fn of_orders<T>(invalid: Vec<(Document, &'static str, T)>, valid: Document) -> Option<Selected> {
    let invalid = (100..).zip(invalid);
    Some(Selected {
        source: "orders",
        target: "orders",
        some: doc! { "_id": { "$lt": 8 } },
        others: Ok(()),
        invalid: invalid
            .map(|(id, (fields, reason, _))| (with_id(id, fields), reason))
            .collect(),
        refusal: ErrorKind::Corrupt,
        refuses_first: true,
        correction: doc! { "$set": valid },
    })
}

/// A run that resumes sweeps the copies that it finds, also those of a skipped document.
fn is_swept(document: &Document) -> bool {
    let swept = [doc! { "_id": 1 }, doc! { "_id": 1.0 }].map(Bson::from);
    let products = document.get_array("products").into_iter().flatten();
    let customer = document.get("customer").into_iter();
    customer.chain(products).any(|value| swept.contains(value))
}

async fn fill_references(db: &TestDatabase) {
    let orders = (0..20).map(|id| doc! { "_id": id, "customerId": 1 + id % 2, "products": [2, 1] });
    fill_orders(db, orders).await;
}

pub(super) const FROM_REFERENCES: Migrates = migration!(
    "reference::migrate_from_references",
    |db| fill_references(db).await,
    |db, call| call.of(orders(db).migrate_from_references().from_field("customer", "customerId")).await,
    selected: || {
        let mut invalid = invalid_orders();
        invalid.retain(|(fields, ..)| !is_swept(fields));
        of_orders(invalid, doc! { "products": [1] })
    },
);

/// Values of the source key.
const BY_KEY: Migrates = migration!(
    "reference::migrate_from_references by the source key",
    |db| {
        let members = ["bob".into(), Bson::from(doc! { "username": "ann", "role": "x" })];
        let author = |id| if id % 2 == 0 { "ann" } else { "bob" };
        let order = |id: i32| doc! { "_id": id, "author": author(id), "members": members.to_vec() };
        fill_by_key(db, (0..20).map(order)).await;
        // The index of the key is created before the documents are checked.
        orders_by_key(db).ensure_indexes().await.unwrap()
    },
    |db, call| call.of(orders_by_key(db).migrate_from_references().from_field("customer", "author")).await,
    selected: || of_orders(invalid_by_key(), doc! { "author": "ann" }),
);

/// Typed steps and steps on the server, in turns.
pub(super) const VERSIONS: Migrates = migration!(
    "schema::migrate",
    |db| {
        typed(db).ensure_indexes().await.unwrap();
        let newest = |id: i32| doc! { "_id": id, "schemaVersion": 5 };
        contacts(db).insert_many((0..12).map(v1).chain((12..15).map(newest))).await.unwrap()
    },
    |db, call| call.of(mixed(db).migrate()).await,
    lists_all: false,
);
