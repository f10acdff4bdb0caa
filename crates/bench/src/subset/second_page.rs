//! More reviews than the subset has.

use anyhow::{Context, Result, ensure};
use mongo_patterns_subset::ChildToken;
use mongodb::bson::doc;

use super::by_hand;
use super::collections::{Collections, SIZE};
use crate::bench::Bench;
use crate::counts::{examined, round_trips};
use crate::measure::{Operation, Variant, compare, in_tasks, operation};
use crate::report::{Comparison, Section};

const TEXT: &str = "\
One reader reads further reviews of a product that has a thousand, ten at a time: the second page, and a late one. \
`children` continues from a token, by bounds of its index. By hand, the previous pages are skipped, with the same \
index, or with one that does not end with the review's id. With the latter, the server reads and sorts all reviews, \
because they are ordered by date and id. Rows are compared with `children` on the same page.";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Children,
    Skip,
    WithoutId,
}

impl Form {
    const ALL: [Self; 3] = [Self::Children, Self::Skip, Self::WithoutId];

    fn name(self, page: u64) -> String {
        let form = match self {
            Self::Children => "children",
            Self::Skip => "skip, the same index",
            Self::WithoutId => "skip, index by date only",
        };
        format!("{form}, page {page}")
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::WithoutId => "pages_by_date",
            _ => "pages",
        }
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let (reviews, late) = bench.pick((1000, 90), (60, 4));
    Collections::timed(bench, Form::Skip.prefix())
        .filled(3, reviews)
        .await?;
    let by_date = Collections::timed(bench, Form::WithoutId.prefix());
    by_date.empty().await?;
    by_date.index(doc! { "product_id": 1, "published_date": -1 }).await?;
    by_date.fill(3, reviews).await?;
    by_date.settle().await?;

    let operations = bench.pick(600, 3);
    let mut variants = Vec::new();
    for page in [2, late] {
        for form in Form::ALL {
            let reading = reading(form, &Collections::timed(bench, form.prefix()), page).await?;
            let variant = Variant::new(form.name(page), operations, move || {
                let reading = reading.clone();
                async move { Ok(in_tasks(1, operations, reading)) }
            });
            let variant = variant.against(Form::Children.name(page));
            variants.push(if form == Form::Children {
                variant.ours()
            } else {
                variant
            });
        }
    }
    let title = "Ten more reviews of a thousand";
    let entries = compare(bench, title, variants).await?;
    let mut comparison = Comparison::new(title, "page", entries).with_server_ratios();
    for page in [2, late] {
        for form in Form::ALL {
            let reading = reading(form, &Collections::recorded(bench, form.prefix()), page).await?;
            let trips = round_trips(bench, 1, reading(0)).await?;
            comparison.figure(&form.name(page), "round trips", trips);
            let examined = examined(bench, reading(0)).await?;
            comparison.figure(&form.name(page), "documents examined", examined.documents);
            comparison.figure(&form.name(page), "keys examined", examined.keys);
        }
    }
    let mut section = Section::new("second-page", "More reviews", TEXT);
    section.add(&comparison);
    Ok(section)
}

/// Returns a read of a page of product 1. Pages are numbered from 1.
async fn reading(form: Form, collections: &Collections, page: u64) -> Result<Operation> {
    let (collections, repository) = (collections.clone(), collections.repository()?);
    let before = (page - 1) * u64::from(SIZE);
    let token: Option<ChildToken> = match form {
        Form::Children => repository.children(1).limit(u32::try_from(before)?).await?.next,
        _ => None,
    };
    Ok(operation(move |_| {
        let (collections, repository, token) = (collections.clone(), repository.clone(), token.clone());
        async move {
            let read = match form {
                Form::Children => {
                    let after = token.context("the page does not exist")?;
                    repository.children(1).limit(SIZE).after(after).await?.children.len()
                }
                _ => by_hand::newest(&collections, 1, before).await?.len(),
            };
            ensure!(read == SIZE as usize, "reviews are missing");
            Ok(())
        }
    }))
}
