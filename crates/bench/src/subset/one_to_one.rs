//! One child per parent, of which the parent has a few fields.

use anyhow::{Context, Result, ensure};
use futures::TryStreamExt;
use mongo_patterns_core::Repository;
use mongo_patterns_subset::{Direction, Subset, SubsetRepository};
use mongodb::bson::{Document, doc};

use super::collections::Collections;
use crate::bench::Bench;
use crate::bucket::scatter;
use crate::counts::{bytes_sent, round_trips};
use crate::measure::{Operation, Variant, compare, in_tasks, operation};
use crate::report::{Comparison, Section};

const TEXT: &str = "\
A film has one document of details, about 9 KB, of which a list of films shows two fields. One reader reads films at \
random: with a subset of size 1 and these fields; with all details embedded in the film; with a second find for the \
two fields; and with a `$lookup`. Rows are compared with the subset.";

/// The fields of the details that a film has.
const SHOWN: [&str; 2] = ["director", "year"];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Subset,
    Whole,
    TwoFinds,
    Lookup,
}

impl Form {
    const ALL: [Self; 4] = [Self::Subset, Self::Whole, Self::TwoFinds, Self::Lookup];

    fn name(self) -> &'static str {
        match self {
            Self::Subset => "get",
            Self::Whole => "all embedded",
            Self::TwoFinds => "two finds",
            Self::Lookup => "$lookup",
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Whole => "films_whole",
            _ => "films",
        }
    }
}

type Films = SubsetRepository<Document, Document>;

fn films(collections: &Collections, form: Form) -> Result<Films> {
    let details = Subset::new("details").order_by("year", Direction::Descending).size(1);
    let details = match form {
        Form::Whole => details,
        _ => details.embedded_fields(SHOWN),
    };
    Ok(
        Films::builder(collections.products.clone(), collections.reviews.clone())
            .parent_field("film_id")
            .child_id_field("_id")
            .subset(details)
            .build()?,
    )
}

fn details(film: i32) -> Document {
    let words = (0..1000).map(|n| format!("{:08x}", scatter(film as u64 * 1000 + n) as u32));
    let plot = words.collect::<Vec<_>>().join(" ");
    doc! { "_id": film, "film_id": film, "director": "Georges Melies", "year": 1896 + film % 120, "plot": plot }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let count = bench.pick(1000, 20);
    for form in [Form::Subset, Form::Whole] {
        let collections = Collections::timed(bench, form.prefix());
        collections.empty().await?;
        let films = films(&collections, form)?;
        films.ensure_indexes().replace_settings().await?;
        let new = (0..count).map(|id| doc! { "_id": id, "title": "The Haunted Castle" });
        collections.products.insert_many(new).await?;
        collections.reviews.insert_many((0..count).map(details)).await?;
        films.rebuild_all().await?;
        collections.settle().await?;
    }
    let operations = bench.pick(2000, 20);
    let variants = Form::ALL.map(|form| {
        let collections = Collections::timed(bench, form.prefix());
        let variant = Variant::new(form.name(), operations, move || {
            let reading = reading(form, &collections, count);
            async move { Ok(in_tasks(1, operations, reading?)) }
        });
        let variant = variant.against(Form::Subset.name());
        if form == Form::Subset { variant.ours() } else { variant }
    });
    let title = "A film with two fields of its details";
    let entries = compare(bench, title, variants.into()).await?;
    let mut comparison = Comparison::new(title, "read", entries).with_server_ratios();
    for form in Form::ALL {
        let reading = reading(form, &Collections::recorded(bench, form.prefix()), count)?;
        let trips = round_trips(bench, 1, reading(0)).await?;
        comparison.figure(form.name(), "round trips", trips);
        let bytes = bytes_sent(bench, reading(0)).await?;
        comparison.figure(form.name(), "KB sent", bytes / 1000.0);
    }
    let mut section = Section::new("one-to-one", "One-to-one", TEXT);
    section.add(&comparison);
    Ok(section)
}

fn reading(form: Form, collections: &Collections, count: i32) -> Result<Operation> {
    let (collections, films) = (collections.clone(), films(collections, form)?);
    Ok(operation(move |n| {
        let (collections, films) = (collections.clone(), films.clone());
        async move {
            let id = (scatter(n) % count as u64) as i32;
            let film = match form {
                Form::Subset | Form::Whole => films.get(id).await?.context("the film does not exist")?,
                Form::TwoFinds => {
                    let find = collections.products.find_one(doc! { "_id": id });
                    let find = find.projection(doc! { "title": 1 });
                    let mut film = find.await?.context("the film does not exist")?;
                    let find = collections.reviews.find(doc! { "film_id": id });
                    let find = find.limit(1).projection(doc! { "director": 1, "year": 1 });
                    let details: Vec<Document> = find.await?.try_collect().await?;
                    film.insert("details", details);
                    film
                }
                Form::Lookup => {
                    let stages = lookup(&collections, id);
                    let mut films = collections.products.aggregate(stages).await?;
                    films.try_next().await?.context("the film does not exist")?
                }
            };
            ensure!(film.get_array("details")?.len() == 1, "details are missing");
            Ok(())
        }
    }))
}

fn lookup(collections: &Collections, id: i32) -> [Document; 3] {
    let of_film = [
        doc! { "$match": { "$expr": { "$eq": ["$film_id", "$$id"] } } },
        doc! { "$project": { "director": 1, "year": 1 } },
    ];
    let from = collections.reviews.name();
    [
        doc! { "$match": { "_id": id } },
        doc! { "$project": { "title": 1 } },
        doc! { "$lookup": { "from": from, "let": { "id": "$_id" }, "pipeline": of_film.to_vec(), "as": "details" } },
    ]
}
