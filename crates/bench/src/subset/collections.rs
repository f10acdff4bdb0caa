//! The collections of the products and reviews, and their documents.

use anyhow::Result;
use mongo_patterns_core::Repository;
use mongo_patterns_subset::{Subset, SubsetRepository, SubsetRepositoryBuilder};
use mongodb::bson::{DateTime, Document, doc};
use mongodb::{Collection, Database, IndexModel};
use serde::{Deserialize, Serialize};

use crate::bench::Bench;
use crate::bucket::scatter;
use crate::measure::settle;

/// The size of the subset.
pub(super) const SIZE: u32 = 10;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Product {
    pub(super) _id: i32,
    pub(super) name: String,
    pub(super) reviews: Vec<Embedded>,
}

/// A review in the subset of its product.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Embedded {
    pub(super) review_id: i64,
    pub(super) review_author: String,
    pub(super) review_text: String,
    pub(super) published_date: DateTime,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Review {
    pub(super) review_id: i64,
    pub(super) product_id: i32,
    pub(super) review_author: String,
    pub(super) review_text: String,
    pub(super) published_date: DateTime,
}

pub(super) type Products = SubsetRepository<Product, Review>;

/// Returns review `id` of a product, published that number of minutes after the first.
pub(super) fn review(product_id: i32, review_id: i64, minute: i64) -> Review {
    let seed = review_id.unsigned_abs();
    // Regular data would be compressed away.
    let words = (0..24).map(|n| format!("{:08x}", scatter(seed * 24 + n) as u32));
    Review {
        review_id,
        product_id,
        review_author: format!("author{:04}", scatter(seed) % 5000),
        review_text: words.collect::<Vec<_>>().join(" "),
        published_date: DateTime::from_millis(1_548_979_200_000 + minute * 60_000),
    }
}

pub(super) fn newest_first() -> Document {
    doc! { "published_date": -1, "review_id": -1 }
}

/// A collection of products, and one of their reviews.
#[derive(Clone, Debug)]
pub(super) struct Collections {
    pub(super) products: Collection<Document>,
    pub(super) reviews: Collection<Document>,
}

impl Collections {
    /// Returns the collections by a client without a recorder.
    pub(super) fn timed(bench: &Bench<'_>, name: &str) -> Self {
        Self {
            products: bench.collection(name),
            reviews: bench.collection(&format!("review_{name}")),
        }
    }

    /// Returns the collections by a client whose commands are recorded.
    pub(super) fn recorded(bench: &Bench<'_>, name: &str) -> Self {
        Self {
            products: bench.recorded(name),
            reviews: bench.recorded(&format!("review_{name}")),
        }
    }

    /// Returns a builder with a subset of this size, of the newest reviews.
    pub(super) fn of_size(&self, size: u32) -> SubsetRepositoryBuilder<Product, Review> {
        Products::builder(self.products.clone(), self.reviews.clone())
            .parent_field("product_id")
            .child_id_field("review_id")
            .subset(Subset::new("reviews").sort(doc! { "published_date": -1 }).size(size))
    }

    pub(super) fn builder(&self) -> SubsetRepositoryBuilder<Product, Review> {
        self.of_size(SIZE)
    }

    /// Returns a repository over the existing documents.
    pub(super) fn repository(&self) -> Result<Products> {
        Ok(self.builder().build()?)
    }

    /// Creates new collections, without indexes.
    pub(super) async fn empty(&self) -> Result<()> {
        for collection in [&self.products, &self.reviews] {
            collection.drop().await?;
            self.database().create_collection(collection.name()).await?;
        }
        Ok(())
    }

    /// Creates new collections with the repository's indexes and this number of products, each with this number of
    /// reviews and its subset.
    pub(super) async fn filled(&self, products: i32, reviews: i64) -> Result<()> {
        self.empty().await?;
        let repository = self.repository()?;
        repository.ensure_indexes().replace_settings().await?;
        self.fill(products, reviews).await?;
        repository.refresh_all().await?;
        self.settle().await
    }

    /// Inserts this number of products, and their reviews.
    pub(super) async fn fill(&self, products: i32, reviews: i64) -> Result<()> {
        let new = (0..products).map(|id| doc! { "_id": id, "name": "Super Widget", "reviews": [] });
        self.products.insert_many(new).await?;
        let all = self.reviews.clone_with_type::<Review>();
        for product in 0..products {
            let new: Vec<Review> = (0..reviews).map(|id| review(product, id, id)).collect();
            if !new.is_empty() {
                all.insert_many(new).await?;
            }
        }
        Ok(())
    }

    /// Creates an index of the reviews.
    pub(super) async fn index(&self, keys: Document) -> Result<()> {
        let index = IndexModel::builder().keys(keys).build();
        self.reviews.create_index(index).await?;
        Ok(())
    }

    pub(super) async fn settle(&self) -> Result<()> {
        settle(self.products.client()).await
    }

    fn database(&self) -> Database {
        self.products.client().database(&self.products.namespace().db)
    }
}
