//! All subsets anew.

use anyhow::{Result, ensure};
use mongo_patterns_subset::Consistency;
use mongodb::bson::doc;

use super::by_hand;
use super::place::Place;
use crate::Bench;
use crate::measure::{Contestant, Work, compare};
use crate::report::{Comparison, Section};

const TEXT: &str = "\
Products of a hundred reviews each have lost their subsets, which are made anew on the server. `rebuild_all` looks from the \
products' side, compares versions when it writes, and looks again afterwards for what is still wrong. By hand it is the \
same look with a plain `$merge`, or the reviews are grouped, with `$topN`, which needs MongoDB 5.2. Rows are compared with \
the first by hand.";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Ours,
    Lookup,
    TopN,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Self::Ours => "rebuild_all",
            Self::Lookup => "$lookup and $merge",
            Self::TopN => "$topN and $merge",
        }
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let (products, reviews) = bench.pick((2000, 100), (20, 15));
    let place = Place::timed(bench, "rebuild");
    place.filled(products, reviews).await?;
    let mut forms = vec![Form::Ours, Form::Lookup];
    if has_top_n(bench.db.server().version()) {
        forms.push(Form::TopN);
    }
    let contestants = forms.into_iter().map(|form| {
        let place = place.clone();
        let contestant = Contestant::new(form.name(), products as u64, move || prepare(form, place.clone()));
        let contestant = contestant.against(Form::Lookup.name());
        if form == Form::Ours {
            contestant.ours()
        } else {
            contestant
        }
    });
    let title = format!("{products} products of {reviews} reviews");
    let entries = compare(bench, &title, contestants.collect()).await?;
    let mut section = Section::new("rebuild", "Rebuild", TEXT);
    section.add(&Comparison::new(title, "product", entries).with_server_ratios());
    Ok(section)
}

/// `$topN` came with 5.2, of which the next release for use is 6.0.
fn has_top_n(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next(), parts.next()) >= (Some(5), Some(2))
}

async fn prepare(form: Form, place: Place) -> Result<Work> {
    let lost = doc! { "$set": { "reviews": [] } };
    place.products.update_many(doc! {}, lost).await?;
    place.settle().await?;
    let repository = place.repository(Consistency::Eventual)?;
    Ok(Box::pin(async move {
        match form {
            Form::Ours => drop(repository.rebuild_all().await?),
            _ => by_hand::rebuild_all(&place, form == Form::TopN).await?,
        }
        let wrong = place
            .products
            .count_documents(doc! { "reviews.9": { "$exists": false } })
            .await?;
        ensure!(wrong == 0, "{}: {wrong} are not rebuilt", form.name());
        Ok(())
    }))
}
