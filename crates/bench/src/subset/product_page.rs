//! The page of a product.

use anyhow::{Context, Result};
use mongo_patterns_subset::Consistency;
use mongodb::bson::{Document, doc, serialize_to_vec};

use super::by_hand;
use super::place::{Place, SIZE};
use crate::Bench;
use crate::bucket::scatter;
use crate::counts::{bytes_sent, examined, round_trips};
use crate::measure::{Contestant, Operation, compare, in_tasks, operation};
use crate::report::{Comparison, Section};

const TEXT: &str = "\
One reader opens pages of products at random, each with a thousand reviews, of which the ten newest are shown, and decodes \
them. With the subset this is one find. With all reviews in the product it is one find, too: of the whole document, or of \
the first ten with `$slice`. Without the pattern it is two finds, the second with an index by product, date and id, or by \
product alone. Rows are compared with the subset. `KB of documents` is what the server has to have in its cache for a page: \
the size of the documents that it examines.";

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

    /// The collections that it reads.
    fn place(self) -> &'static str {
        match self {
            Self::Subset | Self::FullIndex => "page",
            Self::AllEmbedded | Self::Sliced => "page_embedded",
            Self::ProductIndex => "page_by_product",
        }
    }

    /// Whole documents of a thousand reviews take long.
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
        fill(&Place::timed(bench, form.place()), form, products, reviews).await?;
    }
    let contestants = Form::ALL.map(|form| {
        let place = Place::timed(bench, form.place());
        let operations = bench.pick(form.operations(), 5);
        let contestant = Contestant::new(form.name(), operations, move || {
            let reading = reading(form, &place, products);
            async move { Ok(in_tasks(1, operations, reading?)) }
        });
        let contestant = contestant.against(Form::Subset.name());
        if form == Form::Subset {
            contestant.ours()
        } else {
            contestant
        }
    });
    let title = "A product with 1000 reviews";
    let entries = compare(bench, title, contestants.into()).await?;
    let mut comparison = Comparison::new(title, "page", entries).with_server_ratios();
    for form in Form::ALL {
        let place = Place::recorded(bench, form.place());
        let reading = reading(form, &place, products)?;
        let trips = round_trips(bench, 1, reading(0)).await?;
        comparison.figure(form.name(), "round trips", trips);
        let bytes = bytes_sent(bench, reading(0)).await?;
        comparison.figure(form.name(), "KB sent", bytes / 1000.0);
        let last = examined(bench, reading(0)).await?.documents;
        let (documents, size) = match form {
            Form::FullIndex | Form::ProductIndex => (last + 1.0, last * size_of_one(&place.reviews).await?),
            _ => (last, size_of_one(&place.products).await?),
        };
        comparison.figure(form.name(), "documents examined", documents);
        comparison.figure(form.name(), "KB of documents", size / 1000.0);
    }
    let mut section = Section::new("product-page", "The page of a product", TEXT);
    section.add(&comparison);
    Ok(section)
}

async fn fill(place: &Place, form: Form, products: i32, reviews: i64) -> Result<()> {
    match form {
        Form::ProductIndex => {
            place.empty().await?;
            place.index(doc! { "product_id": 1 }).await?;
            place.fill(products, reviews).await?;
        }
        Form::AllEmbedded => {
            place.filled(products, reviews).await?;
            let all = u32::try_from(reviews)?;
            let all = place
                .builder()
                .subset_size(all)
                .consistency(Consistency::Eventual)
                .build()?;
            all.rebuild_all().await?;
        }
        _ => place.filled(products, reviews).await?,
    }
    place.settle().await
}

fn reading(form: Form, place: &Place, products: i32) -> Result<Operation> {
    let (place, repository) = (place.clone(), place.repository(Consistency::Eventual)?);
    Ok(operation(move |n| {
        let (place, repository) = (place.clone(), repository.clone());
        async move {
            let id = (scatter(n) % products as u64) as i32;
            match form {
                Form::Subset => {
                    let product = repository.get(id).await?.context("there is no such product")?;
                    anyhow::ensure!(product.reviews.len() == SIZE as usize, "reviews are missing");
                    Ok(())
                }
                Form::AllEmbedded | Form::Sliced => {
                    by_hand::page_of_all_embedded(&place, id, form == Form::Sliced).await
                }
                Form::FullIndex | Form::ProductIndex => by_hand::page_by_two_finds(&place, id).await,
            }
        }
    }))
}

/// The size of a document in bytes. They are all alike.
async fn size_of_one(collection: &mongodb::Collection<Document>) -> Result<f64> {
    let one = collection.find_one(doc! {}).await?.context("there are no documents")?;
    Ok(serialize_to_vec(&one)?.len() as f64)
}
