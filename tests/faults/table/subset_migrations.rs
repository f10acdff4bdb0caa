//! Subsets: migrations, another layout, and the follower.

use futures::future::LocalBoxFuture;
use mongo_patterns::Repository;
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};

use super::operation::Promise::{Reads, Steps};
use super::operation::{Call, Model, Of, Operations, UNREAD, calls, documents, text};
use super::subset::{fact, found, inspect, of_size, plant};
use support::subset::{Products, day};

const SIZE: usize = 2;
const FOLLOWER: &str = "reviews";

/// Two products with four reviews each, in one of the forms in which other programs store them.
pub(super) struct Shop {
    products: Collection<Document>,
    reviews: Collection<Document>,
    skipped: Collection<Document>,
    two: Products,
    three: Products,
}

impl Shop {
    async fn stored(&self) -> [Vec<Document>; 2] {
        documents([&self.products, &self.reviews]).await
    }

    /// Returns the facts of the embedded reviews.
    fn embedded(id: i32, reviews: &[Bson]) -> Vec<String> {
        reviews
            .iter()
            .map(|review| fact(id, review.as_document().unwrap()))
            .collect()
    }
}

/// Removes duplicates.
fn once(mut facts: Vec<String>) -> Vec<String> {
    facts.sort_unstable();
    facts.dedup();
    facts
}

impl Model for Shop {
    const PATTERN: &'static str = "subset";
    const COLLECTIONS: &'static [&'static str] = &["product", "review", "mongo_patterns", "skipped"];

    fn new(of: Of<'_>) -> Self {
        let with = |size| of_size(of, size).build().unwrap();
        Self {
            products: of.collection("product"),
            reviews: of.collection("review"),
            skipped: of.collection("skipped"),
            two: with(2),
            three: with(3),
        }
    }

    async fn fill(&self) {
        self.two.ensure_indexes().await.unwrap();
    }

    /// A review is stored while it is in its product or in the collection.
    async fn facts(&self) -> Vec<String> {
        let [products, reviews] = self.stored().await;
        let (mut facts, _) = inspect(&products, &reviews, SIZE);
        let migrated: Vec<String> = facts
            .iter()
            .map(|fact| format!("{UNREAD}in its collection {fact}"))
            .collect();
        for product in &products {
            let id = product.get_i32("_id").unwrap();
            let embedded = product.get_array("reviews").cloned().unwrap_or_default();
            facts.extend(Self::embedded(id, &embedded));
        }
        let mut facts = once(facts);
        facts.extend(migrated);
        facts
    }

    async fn read(&self) -> Option<Vec<String>> {
        let mut read = super::subset::read(&self.two).await?;
        for id in 1..=2 {
            if let Some(product) = self.two.get(id).await.unwrap() {
                let product = mongodb::bson::serialize_to_document(&product).unwrap();
                read.extend(Self::embedded(id, product.get_array("reviews").unwrap()));
            }
        }
        Some(once(read))
    }

    async fn damage(&self) -> Vec<String> {
        let [products, reviews] = self.stored().await;
        inspect(&products, &reviews, SIZE).1
    }

    async fn found(&self) -> Vec<String> {
        found(&self.two).await
    }
}

fn no_subsets(m: &Shop) -> LocalBoxFuture<'_, ()> {
    Box::pin(plant(&m.products, &m.reviews))
}
fn subsets_of_three(m: &Shop) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        plant(&m.products, &m.reviews).await;
        m.three.ensure_indexes().replace_settings().await.unwrap();
        m.three.refresh_all().await.unwrap();
    })
}
fn all_embedded(m: &Shop) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        let products = (1..=2).map(|id| {
            let review = |n: i32| doc! { "review_id": n, "review_author": "Kristina", "published_date": day(n.into()) };
            doc! { "_id": id, "name": "Super Widget", "reviews": (0..4).map(review).collect::<Vec<_>>() }
        });
        m.products.insert_many(products).await.unwrap();
    })
}

fn follow(m: &Shop) -> LocalBoxFuture<'_, Result<String, mongo_patterns::Error>> {
    Box::pin(async move {
        let follow = m.two.follow(FOLLOWER).enable_pre_images().run_until_current();
        // The number of commands depends on timing.
        text(follow.max_retry_time(std::time::Duration::from_secs(2)).await.map(drop))
    })
}
fn behind(m: &Shop) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        plant(&m.products, &m.reviews).await;
        m.two.refresh_all().await.unwrap();
        let follow = m.two.follow(FOLLOWER).enable_pre_images().run_until_current();
        // An older server cannot, and the call itself must report it.
        if follow.await.is_ok() {
            let deleted = m.reviews.delete_one(doc! { "product_id": 1, "review_id": 3 });
            deleted.await.unwrap();
            let later = doc! { "$set": { "published_date": day(30) } };
            let updated = m.reviews.update_one(doc! { "product_id": 2, "review_id": 0 }, later);
            updated.await.unwrap();
        }
    })
}

impl Operations for Shop {
    fn operations() -> Vec<Call<Self>> {
        calls! { Shop;
            Steps, "SubsetRepository::migrate_existing", "", |m| m.two.migrate_existing().await => prepare(no_subsets);
            Steps, "SubsetRepository::migrate_layout_from", "", |m|
                m.two.migrate_layout_from(&m.three).await => prepare(subsets_of_three);
            Steps, "SubsetRepository::migrate_from_embedded", "in two chunks", |m|
                m.two.migrate_from_embedded().chunk(4).await => prepare(all_embedded);
            Steps, "SubsetRepository::migrate_from_embedded", "with a list of invalid parents and a filter", |m| {
                let migration = m.two.migrate_from_embedded().chunk(4).skip_invalid(&m.skipped);
                migration.filter(doc! { "_id": { "$gt": 0 } }).await
            } => prepare(all_embedded);
            Reads, "SubsetRepository::migrate_from_embedded + MigrateFromEmbedded::find_invalid", "", |m|
                m.two.migrate_from_embedded().find_invalid(None).await.map(drop) => prepare(all_embedded);
            Reads, "SubsetRepository::migrate_existing + MigrateExisting::plan", "", |m|
                m.two.migrate_existing().plan().await.map(drop) => prepare(no_subsets);
            Reads, "SubsetRepository::migrate_layout_from + MigrateLayoutFrom::plan", "", |m|
                m.two.migrate_layout_from(&m.three).plan().await.map(drop) => prepare(subsets_of_three);
            Reads, "SubsetRepository::migrate_from_embedded + MigrateFromEmbedded::plan", "", |m|
                m.two.migrate_from_embedded().plan().await.map(drop) => prepare(all_embedded);
            Steps, "SubsetRepository::follow", "for the first time", |m| follow(m).await => prepare(no_subsets);
            Steps, "SubsetRepository::follow", "two changes behind", |m| follow(m).await => prepare(behind);
        }
    }
}
