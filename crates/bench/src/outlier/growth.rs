//! A push to a long list.

use anyhow::Result;

use super::by_hand;
use super::collections::{Collections, book, operation, user};
use crate::bench::Bench;
use crate::counts::round_trips;
use crate::measure::{Variant, Work, compare, in_tasks};
use crate::report::{Comparison, Section, number};

const TEXT: &str = "\
One writer pushes to a book that has a thousand purchases, then ten thousand, then a hundred thousand. Ours fills one \
overflow document and so opens another; the book is new in each round. The manual's form has all further purchases of \
a book in one overflow document. Each form is compared with itself at the first length.";

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
            Self::Manual => "the manual's overflow document",
        };
        format!("{form}, {}", number(length as f64))
    }

    /// Long arrays are slow.
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
    let mut variants = Vec::new();
    for form in Form::ALL {
        for length in lengths {
            let collections = Collections::timed(bench, "growth");
            let operations = bench.pick(form.operations(length), 10);
            let variant = Variant::new(form.name(length), operations, move || {
                prepare(form, collections.clone(), length, operations)
            });
            let variant = variant.against(form.name(lengths[0]));
            variants.push(match form {
                Form::Ours => variant.ours(),
                _ => variant,
            });
        }
    }
    let title = "By the length of the list";
    let entries = compare(bench, title, variants).await?;
    let mut comparison = Comparison::new(title, "purchase", entries).with_server_ratios();
    for form in Form::ALL {
        for length in lengths {
            let operations = bench.pick(form.operations(length), 10);
            let work = prepare(form, Collections::recorded(bench, "growth"), length, operations).await?;
            let trips = round_trips(bench, operations, work).await?;
            comparison.figure(&form.name(length), "round trips", trips);
        }
    }
    let mut section = Section::new("growth", "Push to a long list", TEXT);
    section.add(&comparison);
    Ok(section)
}

async fn prepare(form: Form, collections: Collections, length: u64, operations: u64) -> Result<Work> {
    match form {
        Form::Ours => {
            collections.fresh().await?.insert(&book(2, length)).await?;
        }
        Form::Unbounded => {
            collections.empty().await?;
            collections.insert_unbounded([book(2, length)]).await?;
        }
        Form::Manual => {
            collections.as_in_the_manual().await?;
            collections.insert_as_in_the_manual(2, length).await?;
        }
    }
    collections.settle().await?;
    let books = collections.books()?;
    let push = operation(move |n| {
        let (collections, books) = (collections.clone(), books.clone());
        async move {
            let user = user(length + n);
            match form {
                Form::Ours => {
                    books.push(2, &user).await?;
                }
                Form::Unbounded => by_hand::push_unbounded(&collections, 2, &user).await?,
                Form::Manual => by_hand::push_as_in_the_manual(&collections, 2, &user).await?,
            }
            Ok(())
        }
    });
    Ok(in_tasks(1, operations, push))
}
