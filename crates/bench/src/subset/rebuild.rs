//! Rebuilding all subsets.

use anyhow::{Result, ensure};
use mongodb::bson::doc;

use super::by_hand;
use super::collections::Collections;
use crate::bench::Bench;
use crate::measure::{Variant, Work, compare};
use crate::report::{Comparison, Section};

const TEXT: &str = "\
Products of a hundred reviews each have lost their subsets, which the server rebuilds. `refresh_all` starts from the \
products, and compares subsets and versions. It checks again only if another client writes a product at the same time. \
By hand, the same \
`$lookup` runs with a plain `$merge`, or the reviews are grouped with `$topN`. Rows are \
compared with the first form by hand.";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Ours,
    Lookup,
    TopN,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Self::Ours => "refresh_all",
            Self::Lookup => "$lookup and $merge",
            Self::TopN => "$topN and $merge",
        }
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let (products, reviews) = bench.pick((2000, 100), (20, 15));
    let collections = Collections::timed(bench, "rebuild");
    collections.filled(products, reviews).await?;
    let variants = [Form::Ours, Form::Lookup, Form::TopN].map(|form| {
        let collections = collections.clone();
        let variant = Variant::new(form.name(), products as u64, move || prepare(form, collections.clone()));
        let variant = variant.against(Form::Lookup.name());
        if form == Form::Ours { variant.ours() } else { variant }
    });
    let title = format!("{products} products of {reviews} reviews");
    let entries = compare(bench, &title, variants.into()).await?;
    let mut section = Section::new("rebuild", "Rebuild", TEXT);
    section.add(&Comparison::new(title, "product", entries).with_server_ratios());
    Ok(section)
}

async fn prepare(form: Form, collections: Collections) -> Result<Work> {
    let lost = doc! { "$set": { "reviews": [] } };
    collections.products.update_many(doc! {}, lost).await?;
    collections.settle().await?;
    let repository = collections.repository()?;
    Ok(Box::pin(async move {
        match form {
            Form::Ours => drop(repository.refresh_all().await?),
            _ => by_hand::rebuild_all(&collections, form == Form::TopN).await?,
        }
        let wrong = collections
            .products
            .count_documents(doc! { "reviews.9": { "$exists": false } })
            .await?;
        ensure!(wrong == 0, "{}: {wrong} subsets are not rebuilt", form.name());
        Ok(())
    }))
}
