//! Many writers on one book.

use anyhow::{Result, ensure};

use super::by_hand;
use super::collections::{Collections, book, operation, user};
use crate::bench::Bench;
use crate::counts::round_trips;
use crate::measure::{Variant, Work, compare, in_tasks};
use crate::report::{Comparison, Section};

const WRITERS: u64 = 64;

const TEXT: &str = "\
64 writers push to one book, from its first purchase on. Pushes that wait for each other are sent together; unique \
pushes are not. The last row is a transaction around each push: it reads where to push, and is retried after a conflict. \
Rows are compared with our push.";

#[derive(Clone, Copy, Debug)]
enum Form {
    Ours,
    Unique,
    Transaction,
}

impl Form {
    const ALL: [Self; 3] = [Self::Ours, Self::Unique, Self::Transaction];

    fn name(self) -> &'static str {
        match self {
            Self::Ours => "push",
            Self::Unique => "push_unique",
            Self::Transaction => "a transaction on every push",
        }
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let operations = |form: Form| match form {
        Form::Transaction => bench.pick(640, 128),
        Form::Unique => bench.pick(1920, 128),
        Form::Ours => bench.pick(9600, 640),
    };
    let variants = Form::ALL.map(|form| {
        let (collections, operations) = (Collections::timed(bench, "one_book"), operations(form));
        let variant = Variant::new(form.name(), operations, move || {
            prepare(form, collections.clone(), operations)
        });
        let variant = variant.against(Form::Ours.name());
        match form {
            Form::Transaction => variant,
            _ => variant.ours(),
        }
    });
    let title = "64 writers on one book";
    let entries = compare(bench, title, variants.into()).await?;
    let mut comparison = Comparison::new(title, "purchase", entries).with_server_ratios();
    for form in Form::ALL {
        let operations = operations(form);
        let collections = Collections::recorded(bench, "one_book");
        let work = prepare(form, collections.clone(), operations).await?;
        let trips = round_trips(bench, operations, work).await?;
        comparison.figure(form.name(), "round trips", trips);
        let stored = collections.books()?.count(2).await?;
        ensure!(
            stored.total() == operations,
            "{} of {operations} are stored",
            stored.total()
        );
        ensure!(stored.inline <= 50, "{} are in the main array", stored.inline);
    }
    let mut section = Section::new("one-book", "Many writers on one book", TEXT);
    section.add(&comparison);
    Ok(section)
}

async fn prepare(form: Form, collections: Collections, operations: u64) -> Result<Work> {
    let books = match form {
        Form::Unique => collections.fresh_of(collections.builder().unique_elements()).await?,
        _ => collections.fresh().await?,
    };
    books.insert(&book(2, 0)).await?;
    collections.settle().await?;
    let push = operation(move |n| {
        let (collections, books) = (collections.clone(), books.clone());
        async move {
            let user = user(n);
            match form {
                Form::Ours => drop(books.push(2, &user).await?),
                Form::Unique => drop(books.push_unique(2, &user).await?),
                Form::Transaction => by_hand::push_in_a_transaction(&collections, 2, &user).await?,
            }
            Ok(())
        }
    });
    Ok(in_tasks(WRITERS, operations, push))
}
