//! An insert: ours in all its forms, and an insert and a push by hand.

use std::sync::atomic::{AtomicI64, Ordering};

use anyhow::{Result, ensure};
use mongo_patterns_testkit::RecordedCommand;
use mongodb::bson::{Bson, Document};

use super::by_hand;
use super::collections::{Collections, Products, review};
use crate::bench::Bench;
use crate::counts::round_trips;
use crate::measure::{Operation, Variant, compare, in_tasks, operation};
use crate::report::{Comparison, Section};

/// The number of reviews of a product before the run.
const REVIEWS: i64 = 50;

const TEXT: &str = "\
Writers insert reviews of products that have fifty each at first, one of each product in a round. The naive form is \
an insert, followed by a `$push` with `$sort` and `$slice`. It is not safe to retry, and the next deletion makes its \
subset wrong. Rows are compared with it, and `insert` also with the same commands by hand. A transaction of a \
repository that has written the product before writes it after the review, by one update; at the first insert, and with a \
total, it locks the product before.";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Naive,
    Ours,
    ByHand,
    FirstInsert,
    TooOld,
    Total,
}

impl Form {
    const ALL: [Self; 6] = [
        Self::Naive,
        Self::Ours,
        Self::ByHand,
        Self::FirstInsert,
        Self::TooOld,
        Self::Total,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Naive => "insert and $push by hand",
            Self::Ours => "insert",
            Self::ByHand => "the same commands by hand",
            Self::FirstInsert => "insert, first insert",
            Self::TooOld => "insert, too old",
            Self::Total => "insert, with a total",
        }
    }

    /// Returns the prefix of the collections of this form, which are created once.
    fn prefix(self) -> &'static str {
        match self {
            Self::Naive => "insert_naive",
            Self::Ours => "insert_ours",
            Self::ByHand => "insert_by_hand",
            Self::FirstInsert => "insert_at_first",
            Self::TooOld => "insert_too_old",
            Self::Total => "insert_total",
        }
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let mut section = Section::new("insert", "Insert", TEXT);
    let products = bench.pick(150, 4);
    let operations = products as u64;
    for (title, tasks) in [("One writer", 1), ("Eight writers", 8)] {
        let mut forms = Form::ALL.to_vec();
        forms.retain(|form| *form != Form::ByHand || tasks == 1);
        let mut variants = Vec::new();
        for form in forms.iter().copied() {
            let writer = Writer::of(form, Collections::timed(bench, form.prefix()), products).await?;
            let variant = Variant::new(form.name(), operations, move || {
                let insert = writer.insert();
                async move { Ok(in_tasks(tasks, operations, insert?)) }
            });
            let variant = variant.against(Form::Naive.name());
            variants.push(match form {
                Form::Naive | Form::ByHand => variant,
                _ => variant.ours(),
            });
        }
        let entries = compare(bench, title, variants).await?;
        let mut comparison = Comparison::new(title, "review", entries).with_server_ratios();
        if tasks == 1 {
            comparison.also_against(Form::ByHand.name(), "rate ratio to the same by hand");
            comparison.also_client_cpu(Form::ByHand.name(), "client CPU ratio to the same by hand");
        }
        for form in forms {
            let writer = Writer::of(form, Collections::recorded(bench, "insert_counted"), 4).await?;
            let trips = round_trips(bench, 4, in_tasks(1, 4, writer.insert()?)).await?;
            comparison.figure(form.name(), "round trips", trips);
        }
        section.add(&comparison);
    }
    ensure_the_same(bench).await?;
    Ok(section)
}

/// A writer that inserts for the next product each time.
struct Writer {
    form: Form,
    collections: Collections,
    products: i32,
    repository: Products,
    /// The number of passes.
    passes: AtomicI64,
}

impl Writer {
    /// Creates the products, and writes to each once.
    async fn of(form: Form, collections: Collections, products: i32) -> Result<Self> {
        collections.filled(products, REVIEWS).await?;
        let builder = collections.builder();
        let repository = match form {
            Form::Total => builder.total_field("review_count").build()?,
            _ => builder.build()?,
        };
        for product in 0..products {
            // There is no such review, so this only writes the product.
            repository.delete(product, -1).await?;
        }
        Ok(Self {
            form,
            collections,
            products,
            repository,
            passes: AtomicI64::new(0),
        })
    }

    /// Returns an insert of a review for each product.
    fn insert(&self) -> Result<Operation> {
        let (form, products) = (self.form, self.products);
        let collections = self.collections.clone();
        let repository = match form {
            Form::FirstInsert => self.collections.repository()?,
            _ => self.repository.clone(),
        };
        let pass = self.passes.fetch_add(1, Ordering::Relaxed);
        Ok(operation(move |n| {
            let (collections, repository) = (collections.clone(), repository.clone());
            async move {
                let product = (n % products as u64) as i32;
                let id = match form {
                    Form::TooOld => -1 - pass,
                    _ => REVIEWS + pass,
                };
                let new = review(product, id, id);
                match form {
                    Form::Naive => by_hand::insert_and_push(&collections, &new).await?,
                    Form::ByHand => by_hand::insert(&collections, &new).await?,
                    _ => {
                        let inserted = repository.insert(&new).await?;
                        ensure!(inserted.in_subset == (form != Form::TooOld), "the subset is incorrect");
                    }
                }
                Ok(())
            }
        }))
    }
}

/// Checks that the commands by hand are those of the repository.
async fn ensure_the_same(bench: &Bench<'_>) -> Result<()> {
    let mut sent: Vec<Vec<Document>> = Vec::new();
    for form in [Form::Ours, Form::ByHand] {
        let writer = Writer::of(form, Collections::recorded(bench, "insert_counted"), 2).await?;
        // The first insert checks the indexes.
        let insert = writer.insert()?;
        insert(0).await?;
        bench.db.recorder().clear();
        insert(1).await?;
        let commands = bench.db.recorder().commands();
        sent.push(
            commands
                .iter()
                .map(RecordedCommand::essence)
                .map(without_driver_ids)
                .collect(),
        );
    }
    ensure!(
        sent[0] == sent[1],
        "an insert sends other commands than by_hand.rs: change them there"
    );
    Ok(())
}

/// Removes the ids that the driver generates from an insert.
fn without_driver_ids(mut command: Document) -> Document {
    if let Ok(documents) = command.get_array_mut("documents") {
        for document in documents.iter_mut().filter_map(Bson::as_document_mut) {
            document.remove("_id");
        }
    }
    command
}
