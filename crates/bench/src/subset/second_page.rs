//! More reviews than a product shows.

use anyhow::{Context, Result, ensure};
use mongo_patterns_subset::{ChildToken, Consistency};
use mongodb::bson::doc;

use super::by_hand;
use super::place::{Place, SIZE};
use crate::Bench;
use crate::counts::{examined, round_trips};
use crate::measure::{Contestant, Operation, compare, in_tasks, operation};
use crate::report::{Comparison, Section};

const TEXT: &str = "\
One reader reads further reviews of a product that has a thousand, ten at a time: the second page, and a late one. \
`children` goes on after a place, by bounds of its index. By hand the pages before are skipped, with the same index, and \
with one that does not end with the review's id: then all reviews are read and sorted, as their order is by date and id. \
Rows are compared with `children` on the same page.";

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
            Self::WithoutId => "skip, index by date alone",
        };
        format!("{form}, page {page}")
    }

    fn place(self) -> &'static str {
        match self {
            Self::WithoutId => "pages_by_date",
            _ => "pages",
        }
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let (reviews, late) = bench.pick((1000, 90), (60, 4));
    Place::timed(bench, Form::Skip.place()).filled(3, reviews).await?;
    let by_date = Place::timed(bench, Form::WithoutId.place());
    by_date.empty().await?;
    by_date.index(doc! { "product_id": 1, "published_date": -1 }).await?;
    by_date.fill(3, reviews).await?;
    by_date.settle().await?;

    let operations = bench.pick(600, 3);
    let mut contestants = Vec::new();
    for page in [2, late] {
        for form in Form::ALL {
            let reading = reading(form, &Place::timed(bench, form.place()), page).await?;
            let contestant = Contestant::new(form.name(page), operations, move || {
                let reading = reading.clone();
                async move { Ok(in_tasks(1, operations, reading)) }
            });
            let contestant = contestant.against(Form::Children.name(page));
            contestants.push(if form == Form::Children {
                contestant.ours()
            } else {
                contestant
            });
        }
    }
    let title = "Ten more reviews of a thousand";
    let entries = compare(bench, title, contestants).await?;
    let mut comparison = Comparison::new(title, "page", entries).with_server_ratios();
    for page in [2, late] {
        for form in Form::ALL {
            let reading = reading(form, &Place::recorded(bench, form.place()), page).await?;
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

/// Reads a page of product 1; pages are numbered from 1.
async fn reading(form: Form, place: &Place, page: u64) -> Result<Operation> {
    let (place, repository) = (place.clone(), place.repository(Consistency::Eventual)?);
    let before = (page - 1) * u64::from(SIZE);
    let token: Option<ChildToken> = match form {
        Form::Children => repository.children(1).limit(u32::try_from(before)?).await?.next,
        _ => None,
    };
    Ok(operation(move |_| {
        let (place, repository, token) = (place.clone(), repository.clone(), token.clone());
        async move {
            let read = match form {
                Form::Children => {
                    let after = token.context("there is no such page")?;
                    repository.children(1).limit(SIZE).after(after).await?.children.len()
                }
                _ => by_hand::newest(&place, 1, before).await?.len(),
            };
            ensure!(read == SIZE as usize, "reviews are missing");
            Ok(())
        }
    }))
}
