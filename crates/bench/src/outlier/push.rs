//! A push: ours, by hand, and as in the manual.

use anyhow::{Result, ensure};
use mongo_patterns_testkit::RecordedCommand;
use mongodb::bson::Document;

use super::by_hand;
use super::collections::{CAP, Collections, THRESHOLD, book, operation, user};
use crate::bench::Bench;
use crate::counts::round_trips;
use crate::measure::{Operation, Variant, compare, in_tasks};
use crate::report::{Comparison, Section};

const BOOKS: u64 = 64;

const TEXT: &str = "\
One writer pushes to 64 books in turn, which are new in every round: first to typical ones without any purchases, \
then to known outliers, which the process has inserted, and whose newest overflow document is half full. All rows \
are compared with the same commands written by hand with the driver. The manual's logic reads the flag first. \
`push_unique` also guarantees that a customer is stored once: its overflow documents have an index of the customers.";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Ours,
    Unique,
    ByHand,
    Manual,
    Unbounded,
}

impl Form {
    const ALL: [Self; 5] = [Self::Ours, Self::Unique, Self::ByHand, Self::Manual, Self::Unbounded];

    fn name(self) -> &'static str {
        match self {
            Self::Ours => "push",
            Self::Unique => "push_unique",
            Self::ByHand => "the same commands by hand",
            Self::Manual => "the manual's logic",
            Self::Unbounded => "$push, one array",
        }
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let mut section = Section::new("push", "Push", TEXT);
    let operations = bench.pick(1600, 64);
    for (title, purchases) in [("A typical book", 0), ("A known outlier", 300)] {
        let variants = Form::ALL.map(|form| {
            let collections = Collections::timed(bench, "push");
            let variant = Variant::new(form.name(), operations, move || {
                let collections = collections.clone();
                async move { Ok(in_tasks(1, operations, prepare(form, collections, purchases).await?)) }
            });
            let variant = variant.against(Form::ByHand.name());
            match form {
                Form::Ours | Form::Unique => variant.ours(),
                _ => variant,
            }
        });
        let entries = compare(bench, title, variants.into()).await?;
        let mut comparison = Comparison::new(title, "purchase", entries).with_server_ratios();
        for form in Form::ALL {
            let push = prepare(form, Collections::recorded(bench, "push"), purchases).await?;
            let trips = round_trips(bench, BOOKS, in_tasks(1, BOOKS, push)).await?;
            comparison.figure(form.name(), "round trips", trips);
        }
        ensure_the_same(bench, purchases).await?;
        section.add(&comparison);
    }
    Ok(section)
}

/// Creates the books, and returns the push.
async fn prepare(form: Form, collections: Collections, purchases: u64) -> Result<Operation> {
    let all = (0..BOOKS).map(|id| id as i32);
    let books = match form {
        Form::Unique => collections.fresh_of(collections.builder().unique_elements()).await?,
        Form::Manual => {
            collections.as_in_the_manual().await?;
            collections.books()?
        }
        _ => collections.fresh().await?,
    };
    match form {
        Form::Manual => {
            for id in all {
                collections.insert_as_in_the_manual(id, purchases).await?;
            }
        }
        Form::Unbounded => collections.insert_unbounded(all.map(|id| book(id, purchases))).await?,
        _ => {
            for id in all {
                books.insert(&book(id, purchases)).await?;
            }
        }
    }
    collections.settle().await?;
    Ok(operation(move |n| {
        let (collections, books) = (collections.clone(), books.clone());
        async move {
            let (id, user) = ((n % BOOKS) as i32, user(purchases + n / BOOKS));
            match form {
                Form::Ours => drop(books.push(id, &user).await?),
                Form::Unique => drop(books.push_unique(id, &user).await?),
                Form::ByHand if purchases > THRESHOLD => by_hand::fill(&collections, id, &user, CAP as i32).await?,
                Form::ByHand => by_hand::push(&collections, id, &user).await?,
                Form::Manual => by_hand::push_as_in_the_manual(&collections, id, &user).await?,
                Form::Unbounded => by_hand::push_unbounded(&collections, id, &user).await?,
            }
            Ok(())
        }
    }))
}

/// Checks that the commands by hand are those of the repository.
async fn ensure_the_same(bench: &Bench<'_>, purchases: u64) -> Result<()> {
    let mut sent: Vec<Vec<Document>> = Vec::new();
    for form in [Form::Ours, Form::ByHand] {
        let push = prepare(form, Collections::recorded(bench, "push"), purchases).await?;
        bench.db.recorder().clear();
        push(0).await?;
        let commands = bench.db.recorder().commands();
        sent.push(commands.iter().map(RecordedCommand::essence).collect());
    }
    ensure!(
        sent[0] == sent[1],
        "a push sends other commands than by_hand.rs: change them there"
    );
    Ok(())
}
