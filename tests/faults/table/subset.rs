//! Subsets: products with the two newest of their reviews.

use futures::TryStreamExt;
use mongo_patterns::subset::{Finding, Problem};
use mongo_patterns::{Error, Repository};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};

use super::operation::Promise::{Atomic, Reads, Steps};
use super::operation::{Call, EXISTS, Model, Of, calls, documents, indexes, retry_policy, serialized};
use super::subset_several::{self, are_figures_correct, has_figures, has_oldest, is_oldest_correct};
use support::subset::{Products, Review, builder_of, day, newest, review_of, truth};

const SIZE: usize = 2;

/// Two products with four reviews each.
pub(super) struct Shop {
    pub(super) products: Collection<Document>,
    reviews: Collection<Document>,
    pub(super) newest: Products,
    /// The same, with figures.
    pub(super) computed: Products,
    /// The same, with two subsets.
    pub(super) several: Products,
}

pub(super) fn of_size(
    of: Of<'_>,
    size: u32,
) -> mongo_patterns::subset::SubsetRepositoryBuilder<support::subset::Product, Review> {
    builder_of(of.database, newest().size(size)).retry(retry_policy())
}

/// Returns the parents and children, and the damage.
pub(super) fn inspect(products: &[Document], reviews: &[Document], size: usize) -> (Vec<String>, Vec<String>) {
    let (mut facts, mut wrong) = (Vec::new(), Vec::new());
    for product in products {
        let id = product.get("_id").unwrap();
        facts.push(format!("product {id}"));
        let stored = product.get_array("reviews").cloned().unwrap_or_default();
        let is_correct = (!has_figures(product) || are_figures_correct(product, reviews))
            && (!has_oldest(product) || is_oldest_correct(product, reviews));
        if stored != truth(id, reviews, size) || !is_correct {
            wrong.push(format!("{id} stale"));
        }
    }
    for review in reviews {
        let parent = review.get_i32("product_id").unwrap();
        facts.push(fact(parent, review));
        if !products
            .iter()
            .any(|product| product.get_i32("_id").ok() == Some(parent))
        {
            wrong.push(format!("{parent} orphaned"));
        }
    }
    wrong.dedup();
    (facts, wrong)
}

/// Returns the fact of a review, stored or embedded.
pub(super) fn fact(parent: i32, review: &Document) -> String {
    let (id, date) = (
        review.get_i32("review_id").unwrap(),
        review.get_datetime("published_date").unwrap(),
    );
    let days = (date.timestamp_millis() - day(0).timestamp_millis()) / 86_400_000;
    let author = review.get_str("review_author").unwrap();
    format!("review {parent} {id:03} by {author} on {days}")
}

pub(super) async fn read(products: &Products) -> Option<Vec<String>> {
    let mut read = Vec::new();
    for id in 1..=2 {
        if let Some(product) = products.get(id).await.unwrap() {
            read.push(format!("product {}", product._id));
        }
        let page = match products.children(id).limit(100).page().await {
            Err(error) if error.is_setup_error() => return None,
            page => page.unwrap(),
        };
        for review in page.items {
            read.push(fact(id, &mongodb::bson::serialize_to_document(&review).unwrap()));
        }
    }
    Some(read)
}

pub(super) async fn found(products: &Products) -> Vec<String> {
    // The settings can be those of a repository with another size.
    let collection = products.collection();
    let database = collection.client().database(&collection.namespace().db);
    let catalog = database.collection::<Document>("mongo_patterns");
    let entry = catalog
        .find_one_and_delete(doc! { "_id.kind": "subset" })
        .await
        .unwrap();
    let findings: Vec<Finding> = products.verify().stream().try_collect().await.unwrap();
    if let Some(entry) = entry {
        catalog.insert_one(entry).await.unwrap();
    }
    let names = findings.into_iter().map(|finding| match finding.problem {
        Problem::Stale | Problem::NotStored { .. } => format!("{} stale", finding.document_id),
        Problem::Orphaned { .. } => format!("{} orphaned", finding.document_id),
        other => format!("{} {other:?}", finding.document_id),
    });
    names.collect()
}

/// Stores products 1 and 2, without their subsets.
pub(super) async fn plant(products: &Collection<Document>, reviews: &Collection<Document>) {
    let ids = 1..=2;
    let parents = ids.clone().map(|id| doc! { "_id": id, "name": "Super Widget" });
    products.insert_many(parents).await.unwrap();
    let children = ids.flat_map(|id| (0..4).map(move |n| review_of(id, n, i64::from(n))));
    let children = children.map(|review| mongodb::bson::serialize_to_document(&review).unwrap());
    reviews.insert_many(children).await.unwrap();
}

impl Shop {
    /// Returns the repository with the settings of the stored products.
    async fn repository(&self) -> &Products {
        let [products] = documents([&self.products]).await;
        if products.iter().any(has_figures) {
            return &self.computed;
        }
        match products.iter().any(has_oldest) {
            true => &self.several,
            false => &self.newest,
        }
    }
}

impl Model for Shop {
    const PATTERN: &'static str = "subset";
    const COLLECTIONS: &'static [&'static str] = &["product", "review"];

    fn new(of: Of<'_>) -> Self {
        let builder = || of_size(of, SIZE as u32);
        Self {
            products: of.collection("product"),
            reviews: of.collection("review"),
            newest: builder().build().unwrap(),
            computed: subset_several::computed(builder()),
            several: subset_several::several(builder()),
        }
    }

    async fn fill(&self) {
        self.newest.ensure_indexes().replace_settings().await.unwrap();
        plant(&self.products, &self.reviews).await;
        self.newest.refresh_all().await.unwrap();
    }

    async fn facts(&self) -> Vec<String> {
        let [products, reviews] = documents([&self.products, &self.reviews]).await;
        let mut facts = inspect(&products, &reviews, SIZE).0;
        facts.extend(indexes(&self.reviews).await);
        facts
    }

    async fn read(&self) -> Option<Vec<String>> {
        read(&self.newest).await
    }

    async fn damage(&self) -> Vec<String> {
        let [products, reviews] = documents([&self.products, &self.reviews]).await;
        inspect(&products, &reviews, SIZE).1
    }

    async fn found(&self) -> Vec<String> {
        found(self.repository().await).await
    }

    async fn repair(&self) {
        let repository = self.repository().await;
        let repaired: Result<Vec<_>, _> = repository.repair().stream().try_collect().await;
        let repaired = match repaired {
            Err(error) if error.is_setup_error() => return,
            repaired => repaired.unwrap(),
        };
        let stale = repaired
            .iter()
            .filter(|repaired| repaired.findings[0].problem == Problem::Stale);
        assert!(
            stale.into_iter().all(|repaired| repaired.unrepaired.is_none()),
            "{repaired:?}"
        );
    }
}

pub(super) fn operations() -> Vec<Call<Shop>> {
    calls! { Shop;
        Atomic, INSERT, "in a transaction", |m| m.newest.insert(&review_of(1, 20, 20)).await => retry_errors(EXISTS);
        Atomic, INSERT_MANY, "in a transaction", |m| m.newest.insert_many(&two()).await => retry_errors(EXISTS);
        Atomic, UPDATE, "in a transaction", |m|
            m.newest.update(1, 0, doc! { "$set": { "published_date": day(30) } }).await;
        Atomic, REPLACE, "in a transaction", |m| m.newest.replace(&review_of(1, 0, 30)).await;
        Atomic, DELETE, "in a transaction", |m| m.newest.delete(1, 3).await;
        Atomic, DELETE_PARENT, "in a transaction", |m| m.newest.delete_parent(1).await;
        Atomic, INSERT, AGAIN, |m| {
            write_first(m).await?;
            m.newest.insert(&review_of(1, 20, 20)).await
        } => retry_errors(EXISTS), after_a_call();
        Atomic, INSERT_MANY, AGAIN, |m| {
            write_first(m).await?;
            m.newest.delete(2, 999).await?;
            m.newest.insert_many(&two()).await
        } => retry_errors(EXISTS), after_a_call();
        Atomic, UPDATE, AGAIN, |m| {
            write_first(m).await?;
            let later = doc! { "$set": { "published_date": day(30) } };
            m.newest.update(1, 0, later).await
        } => after_a_call();
        Atomic, REPLACE, AGAIN, |m| { write_first(m).await?; m.newest.replace(&review_of(1, 0, 30)).await } => after_a_call();
        Atomic, DELETE, AGAIN, |m| { write_first(m).await?; m.newest.delete(1, 3).await } => after_a_call();
        Atomic, DELETE_PARENT, "in a second transaction", |m| {
            // Of another product: a repeated call finds this one deleted, and would abort.
            m.newest.delete(2, 999).await?;
            m.newest.delete_parent(1).await
        } => after_a_call();
        Steps, "SubsetRepository::ensure_indexes", "", |m|
            m.newest.ensure_indexes().await
            => prepare(|m| m.reviews.drop_indexes().await.unwrap());
        Atomic, "SubsetRepository::refresh", "", |m| m.newest.refresh(1).await => prepare(stale);
        Steps, "SubsetRepository::refresh_all", "", |m| m.newest.refresh_all().await => prepare(stale);
        Steps, "SubsetRepository::repair", "", |m| serialized(m.newest.repair().stream()).await => prepare(stale);
        Reads, "SubsetRepository::repair", "dry run", |m|
            serialized(m.newest.repair().dry_run().stream()).await => prepare(stale);
        Reads, "SubsetRepository::verify", "", |m| serialized(m.newest.verify().stream()).await => prepare(stale);
        Reads, "SubsetRepository::get", "", |m| m.newest.get(1).await;
        Reads, "SubsetRepository::find", "", |m| m.newest.find(doc! {}).sort(doc! { "_id": 1 }).await;
        Reads, "SubsetRepository::child", "", |m| m.newest.child(1, Bson::Int32(2)).await;
        Reads, "SubsetRepository::children", "", |m| m.newest.children(1).limit(3).page().await;
        Reads, "SubsetRepository::children_of_subset", "", |m|
            m.newest.children_of_subset(1, "reviews").limit(3).page().await;
    }
}

const INSERT: &str = "SubsetRepository::insert";
const INSERT_MANY: &str = "SubsetRepository::insert_many";
const UPDATE: &str = "SubsetRepository::update";
const REPLACE: &str = "SubsetRepository::replace";
const DELETE: &str = "SubsetRepository::delete";
const DELETE_PARENT: &str = "SubsetRepository::delete_parent";

/// Returns a new review for each product, which belongs to its subset.
pub(super) fn two() -> [Review; 2] {
    [review_of(1, 20, 20), review_of(2, 20, 20)]
}

const AGAIN: &str = "in a second transaction, which writes the child first";

/// Writes a product in a transaction, without a change of its reviews.
async fn write_first(m: &Shop) -> Result<(), Error> {
    m.newest.delete(1, 999).await.map(drop)
}

/// Stores a stale subset.
pub(super) fn stale(m: &Shop) -> futures::future::LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        let newest = doc! { "product_id": 1, "review_id": 3 };
        let changed = m
            .reviews
            .update_one(newest, doc! { "$set": { "review_author": "Pablo" } });
        changed.await.unwrap();
    })
}
