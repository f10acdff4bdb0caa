//! The page of a product.

use anyhow::{Context, Result};
use mongo_patterns_core::Repository;
use mongodb::bson::{Document, doc, serialize_to_vec};

use super::by_hand;
use super::collections::{Collections, SIZE};
use crate::bench::Bench;
use crate::bucket::scatter;
use crate::counts::{bytes_sent, examined, round_trips};
use crate::measure::{Operation, Variant, compare, in_tasks, operation};
use crate::report::{Comparison, Section};

const TEXT: &str = "\
One reader opens pages of products at random, each with a thousand reviews, and decodes them. A page shows the ten \
newest reviews. With the subset this is one find. With all reviews in the product it is one find too: of the whole \
document, or of the first ten reviews with `$slice`. Without the pattern it is two finds, the second with an index by \
product, date and id, or by product only. Rows are compared with the subset. `KB of documents` is the size of the \
documents that the server examines, and so must cache, for a page.";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Subset,
    AllEmbedded,
    Sliced,
    FullIndex,
    ProductIndex,
}

impl Form {
    const ALL: [Self; 5] = [
        Self::Subset,
        Self::AllEmbedded,
        Self::Sliced,
        Self::FullIndex,
        Self::ProductIndex,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Subset => "get",
            Self::AllEmbedded => "all embedded",
            Self::Sliced => "all embedded, $slice",
            Self::FullIndex => "two finds, full index",
            Self::ProductIndex => "two finds, index by product",
        }
    }

    /// Returns the prefix of the collections that it reads.
    fn prefix(self) -> &'static str {
        match self {
            Self::Subset | Self::FullIndex => "page",
            Self::AllEmbedded | Self::Sliced => "page_embedded",
            Self::ProductIndex => "page_by_product",
        }
    }

    /// Whole documents of a thousand reviews are slow.
    fn operations(self) -> u64 {
        match self {
            Self::AllEmbedded => 100,
            Self::ProductIndex => 500,
            _ => 2000,
        }
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let (products, reviews) = bench.pick((100, 1000), (5, 40));
    for form in [Form::Subset, Form::AllEmbedded, Form::ProductIndex] {
        fill(&Collections::timed(bench, form.prefix()), form, products, reviews).await?;
    }
    let variants = Form::ALL.map(|form| {
        let collections = Collections::timed(bench, form.prefix());
        let operations = bench.pick(form.operations(), 5);
        let variant = Variant::new(form.name(), operations, move || {
            let reading = reading(form, &collections, products);
            async move { Ok(in_tasks(1, operations, reading?)) }
        });
        let variant = variant.against(Form::Subset.name());
        if form == Form::Subset { variant.ours() } else { variant }
    });
    let title = "A product with 1000 reviews";
    let entries = compare(bench, title, variants.into()).await?;
    let mut comparison = Comparison::new(title, "page", entries).with_server_ratios();
    for form in Form::ALL {
        let collections = Collections::recorded(bench, form.prefix());
        let reading = reading(form, &collections, products)?;
        let trips = round_trips(bench, 1, reading(0)).await?;
        comparison.figure(form.name(), "round trips", trips);
        let bytes = bytes_sent(bench, reading(0)).await?;
        comparison.figure(form.name(), "KB sent", bytes / 1000.0);
        let last = examined(bench, reading(0)).await?.documents;
        let (documents, size) = match form {
            Form::FullIndex | Form::ProductIndex => (last + 1.0, last * size_of_one(&collections.reviews).await?),
            _ => (last, size_of_one(&collections.products).await?),
        };
        comparison.figure(form.name(), "documents examined", documents);
        comparison.figure(form.name(), "KB of documents", size / 1000.0);
    }
    let mut section = Section::new("product-page", "The page of a product", TEXT);
    section.add(&comparison);
    Ok(section)
}

async fn fill(collections: &Collections, form: Form, products: i32, reviews: i64) -> Result<()> {
    match form {
        Form::ProductIndex => {
            collections.empty().await?;
            collections.index(doc! { "product_id": 1 }).await?;
            collections.fill(products, reviews).await?;
        }
        Form::AllEmbedded => {
            collections.filled(products, reviews).await?;
            let all = u32::try_from(reviews)?;
            let all = collections.of_size(all).build()?;
            all.ensure_indexes().replace_settings().await?;
            all.refresh_all().await?;
        }
        _ => collections.filled(products, reviews).await?,
    }
    collections.settle().await
}

fn reading(form: Form, collections: &Collections, products: i32) -> Result<Operation> {
    let (collections, repository) = (collections.clone(), collections.repository()?);
    Ok(operation(move |n| {
        let (collections, repository) = (collections.clone(), repository.clone());
        async move {
            let id = (scatter(n) % products as u64) as i32;
            match form {
                Form::Subset => {
                    let product = repository.get(id).await?.context("the product does not exist")?;
                    anyhow::ensure!(product.reviews.len() == SIZE as usize, "reviews are missing");
                    Ok(())
                }
                Form::AllEmbedded | Form::Sliced => {
                    by_hand::page_of_all_embedded(&collections, id, form == Form::Sliced).await
                }
                Form::FullIndex | Form::ProductIndex => by_hand::page_by_two_finds(&collections, id).await,
            }
        }
    }))
}

/// Returns the size of a document in bytes. All have about the same size.
async fn size_of_one(collection: &mongodb::Collection<Document>) -> Result<f64> {
    let one = collection.find_one(doc! {}).await?.context("the collection is empty")?;
    Ok(serialize_to_vec(&one)?.len() as f64)
}
