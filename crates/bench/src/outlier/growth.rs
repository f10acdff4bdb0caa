//! A push to a long list.

use anyhow::Result;

use super::by_hand;
use super::place::{Place, book, operation, user};
use crate::Bench;
use crate::counts::round_trips;
use crate::measure::{Contestant, Work, compare, in_tasks};
use crate::report::{Comparison, Section, number};

const TEXT: &str = "\
One writer pushes to a book that has a thousand purchases, then ten thousand, then a hundred thousand. Ours fills one \
extras document and so opens one; the book is made anew for each round. The manual's form has all extras of a book in \
one document. Each form is compared with itself at the first length.";

#[derive(Clone, Copy, Debug)]
enum Form {
    Ours,
    Unbounded,
    Manual,
}

impl Form {
    const ALL: [Self; 3] = [Self::Ours, Self::Unbounded, Self::Manual];

    fn name(self, length: u64) -> String {
        let form = match self {
            Self::Ours => "push",
            Self::Unbounded => "$push, one array",
            Self::Manual => "the manual's one extras document",
        };
        format!("{form}, {}", number(length as f64))
    }

    /// Long arrays take long.
    fn operations(self, length: u64) -> u64 {
        match self {
            Self::Ours => 500,
            _ if length > 50_000 => 50,
            _ => 250,
        }
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let lengths = bench.pick([1000, 10_000, 100_000], [100, 200, 400]);
    let mut contestants = Vec::new();
    for form in Form::ALL {
        for length in lengths {
            let place = Place::timed(bench, "growth");
            let operations = bench.pick(form.operations(length), 10);
            let contestant = Contestant::new(form.name(length), operations, move || {
                prepare(form, place.clone(), length, operations)
            });
            let contestant = contestant.against(form.name(lengths[0]));
            contestants.push(match form {
                Form::Ours => contestant.ours(),
                _ => contestant,
            });
        }
    }
    let title = "By the length of the list";
    let entries = compare(bench, title, contestants).await?;
    let mut comparison = Comparison::new(title, "purchase", entries).with_server_ratios();
    for form in Form::ALL {
        for length in lengths {
            let operations = bench.pick(form.operations(length), 10);
            let work = prepare(form, Place::recorded(bench, "growth"), length, operations).await?;
            let trips = round_trips(bench, operations, work).await?;
            comparison.figure(&form.name(length), "round trips", trips);
        }
    }
    let mut section = Section::new("growth", "Push to a long list", TEXT);
    section.add(&comparison);
    Ok(section)
}

async fn prepare(form: Form, place: Place, length: u64, operations: u64) -> Result<Work> {
    match form {
        Form::Ours => {
            place.fresh().await?.insert(&book(2, length)).await?;
        }
        Form::Unbounded => {
            place.empty().await?;
            place.insert_unbounded([book(2, length)]).await?;
        }
        Form::Manual => {
            place.as_in_the_manual().await?;
            place.insert_as_in_the_manual(2, length).await?;
        }
    }
    place.settle().await?;
    let books = place.books()?;
    let push = operation(move |n| {
        let (place, books) = (place.clone(), books.clone());
        async move {
            let user = user(length + n);
            match form {
                Form::Ours => {
                    books.push(2, &user).await?;
                }
                Form::Unbounded => by_hand::push_unbounded(&place, 2, &user).await?,
                Form::Manual => by_hand::push_as_in_the_manual(&place, 2, &user).await?,
            }
            Ok(())
        }
    });
    Ok(in_tasks(1, operations, push))
}
