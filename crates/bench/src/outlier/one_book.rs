//! Many writers on one book.

use anyhow::{Result, ensure};

use super::by_hand;
use super::place::{Place, book, operation, user};
use crate::Bench;
use crate::counts::round_trips;
use crate::measure::{Contestant, Work, compare, in_tasks};
use crate::report::{Comparison, Section};

const WRITERS: u64 = 64;

const TEXT: &str = "\
64 writers push to one book, from its first purchase on. The same with a transaction around each push, which looks where \
to push to, and which is run again when it conflicts with another. Rows are compared with our push.";

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
        _ => bench.pick(1920, 128),
    };
    let contestants = Form::ALL.map(|form| {
        let (place, operations) = (Place::timed(bench, "one_book"), operations(form));
        let contestant = Contestant::new(form.name(), operations, move || {
            prepare(form, place.clone(), operations)
        });
        let contestant = contestant.against(Form::Ours.name());
        match form {
            Form::Transaction => contestant,
            _ => contestant.ours(),
        }
    });
    let title = "64 writers on one book";
    let entries = compare(bench, title, contestants.into()).await?;
    let mut comparison = Comparison::new(title, "purchase", entries).with_server_ratios();
    for form in Form::ALL {
        let operations = operations(form);
        let place = Place::recorded(bench, "one_book");
        let work = prepare(form, place.clone(), operations).await?;
        let trips = round_trips(bench, operations, work).await?;
        comparison.figure(form.name(), "round trips", trips);
        let stored = place.books()?.count(2).await?;
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

async fn prepare(form: Form, place: Place, operations: u64) -> Result<Work> {
    let books = match form {
        Form::Unique => place.fresh_of(place.builder().unique_elements()).await?,
        _ => place.fresh().await?,
    };
    books.insert(&book(2, 0)).await?;
    place.settle().await?;
    let push = operation(move |n| {
        let (place, books) = (place.clone(), books.clone());
        async move {
            let user = user(n);
            match form {
                Form::Ours => drop(books.push(2, &user).await?),
                Form::Unique => drop(books.push_unique(2, &user).await?),
                Form::Transaction => by_hand::push_in_a_transaction(&place, 2, &user).await?,
            }
            Ok(())
        }
    });
    Ok(in_tasks(WRITERS, operations, push))
}
