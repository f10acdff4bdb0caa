//! Computed fields: the sum of the ratings, and how many reviews gave each number of stars.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use anyhow::{Context, Result, ensure};
use futures::TryStreamExt;
use mongo_patterns_core::Repository;
use mongo_patterns_subset::{Direction, Subset, SubsetRepository};
use mongodb::bson::{Document, doc, serialize_to_document};

use super::collections::{Collections, SIZE, review};
use crate::bench::Bench;
use crate::counts::round_trips;
use crate::measure::{Operation, Variant, compare, in_tasks, operation};
use crate::report::{Comparison, Section, number};

const PRODUCT: i32 = 0;

const TEXT: &str = "\
One writer inserts reviews with ratings of one product. With computed fields, the product also has the number of its \
reviews, the sum of their ratings, the lowest and the highest one, and how many gave each number of stars. Its \
transaction adds to them. Inserts are compared with the one without computed fields. A read of the product is compared with one that computes them by an aggregation over the \
same index.";

type Rated = SubsetRepository<Document, Document>;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Insert { computed: bool },
    Get,
    Aggregate,
}

impl Form {
    const INSERTS: [Self; 2] = [Self::Insert { computed: false }, Self::Insert { computed: true }];
    const READS: [Self; 2] = [Self::Get, Self::Aggregate];

    fn name(self) -> &'static str {
        match self {
            Self::Insert { computed: false } => "insert",
            Self::Insert { computed: true } => "insert, with computed fields",
            Self::Get => "get, with stored values",
            Self::Aggregate => "get and an aggregation",
        }
    }

    fn repository(self, collections: &Collections) -> Result<Rated> {
        let builder = Rated::builder(collections.products.clone(), collections.reviews.clone())
            .parent_field("product_id")
            .child_id_field("review_id")
            .subset(
                Subset::new("reviews")
                    .order_by("published_date", Direction::Descending)
                    .size(SIZE),
            );
        let builder = match self {
            Self::Insert { computed: false } => builder,
            _ => builder
                .total_field("review_count")
                .sum("rating", "rating_sum")
                .count_by("rating", "stars")
                .min("rating", "lowest")
                .max("rating", "highest"),
        };
        Ok(builder.build()?)
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let mut section = Section::new("computed", "Computed fields", TEXT);
    for reviews in bench.pick([100, 5000], [10, 50]) {
        let inserts = bench.pick(150, 2);
        let title = format!("A product with {} reviews", number(reviews as f64));
        section.add(&rows(bench, &title, &Form::INSERTS, reviews, inserts).await?);
        let title = format!("The page of a product with {} reviews", number(reviews as f64));
        section.add(&rows(bench, &title, &Form::READS, reviews, bench.pick(300, 2)).await?);
    }
    Ok(section)
}

async fn rows(bench: &Bench<'_>, title: &str, forms: &[Form], reviews: i64, calls: u64) -> Result<Comparison> {
    let mut variants = Vec::new();
    for (at, form) in forms.iter().enumerate() {
        let collections = Collections::timed(bench, &format!("computed_{reviews}_{}_{at}", forms.len()));
        let call = prepare(*form, &collections, reviews).await?;
        let variant = Variant::new(form.name(), calls, move || {
            let call = Arc::clone(&call);
            async move { Ok(in_tasks(1, calls, call)) }
        });
        let variant = variant.against(
            forms
                .last()
                .filter(|form| **form == Form::Aggregate)
                .unwrap_or(&forms[0])
                .name(),
        );
        variants.push(if *form == Form::Aggregate {
            variant
        } else {
            variant.ours()
        });
    }
    let entries = compare(bench, title, variants).await?;
    let mut comparison = Comparison::new(title, "call", entries).with_server_ratios();
    for form in forms {
        let collections = Collections::recorded(bench, "computed_counted");
        let call = prepare(*form, &collections, 20).await?;
        let trips = round_trips(bench, 4, in_tasks(1, 4, call)).await?;
        comparison.figure(form.name(), "round trips", trips);
    }
    Ok(comparison)
}

/// Creates a product with reviews, and writes to it, after which a repository that is alone writes the review first.
async fn prepare(form: Form, collections: &Collections, reviews: i64) -> Result<Operation> {
    collections.empty().await?;
    let repository = form.repository(collections)?;
    repository.ensure_indexes().replace_settings().await?;
    collections
        .products
        .insert_one(doc! { "_id": PRODUCT, "name": "Super Widget", "reviews": [] })
        .await?;
    let new = (0..reviews).map(rated).collect::<Result<Vec<Document>>>()?;
    collections.reviews.insert_many(new).await?;
    repository.rebuild_all().await?;
    // There is no such review, so this only writes the product.
    repository.delete(PRODUCT, -1_i64).await?;
    collections.settle().await?;
    let (next, reviews) = (Arc::new(AtomicI64::new(reviews)), collections.reviews.clone());
    Ok(operation(move |_| {
        let (repository, next, reviews) = (repository.clone(), Arc::clone(&next), reviews.clone());
        async move {
            if let Form::Insert { .. } = form {
                let id = next.fetch_add(1, Ordering::Relaxed);
                let inserted = repository.insert(&rated(id)?).await?;
                ensure!(inserted.in_subset, "the newest review is not in the subset");
                return Ok(());
            }
            let product = repository.get(PRODUCT).await?.context("the product is missing")?;
            let stars = match form {
                Form::Get => product.get_array("stars")?.len(),
                _ => aggregate(&reviews).await?.len(),
            };
            ensure!(stars == 5, "the ratings are from 1 to 5");
            Ok(())
        }
    }))
}

async fn aggregate(reviews: &mongodb::Collection<Document>) -> Result<Vec<Document>> {
    let by_rating = doc! { "_id": "$rating", "count": { "$sum": 1 } };
    let stages = [
        doc! { "$match": { "product_id": PRODUCT } },
        doc! { "$group": by_rating },
    ];
    Ok(reviews.aggregate(stages).await?.try_collect().await?)
}

/// Returns review `id`, with a rating from 1 to 5.
fn rated(id: i64) -> Result<Document> {
    let mut review = serialize_to_document(&review(PRODUCT, id, id))?;
    review.insert("rating", (id % 5) as i32 + 1);
    Ok(review)
}
