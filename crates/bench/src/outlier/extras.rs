//! The write to an overflow document only.

use anyhow::{Result, ensure};

use super::by_hand;
use super::collections::{Collections, THRESHOLD, book, operation, user};
use crate::bench::Bench;
use crate::counts::round_trips;
use crate::measure::{Operation, Variant, compare, in_tasks};
use crate::report::{Comparison, Section, number};

const BOOKS: u64 = 64;
const LENGTHS: [u64; 3] = [10, 250, 500];
/// A cap that no overflow document reaches.
const ROOM: i32 = 2000;

const TEXT: &str = "\
The command of a push to a known outlier, written by hand, to the overflow documents of 64 books in turn. The first \
form is that of the repository: `findOneAndUpdate` of the newest overflow document, with a pipeline that adds as many \
elements as fit and returns the previous count. The second form is `updateOne` with `$push` and `$inc` to an overflow \
document whose position is known, without a search for the newest. The number in a row is the number of elements in \
the overflow document. Each row of the first form is compared with that of the second form at the same number.";

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let operations = bench.pick(1600, 64);
    let mut variants = Vec::new();
    for length in LENGTHS {
        for pipeline in [true, false] {
            let collections = Collections::timed(bench, "extras");
            let variant = Variant::new(name(pipeline, length), operations, move || {
                let collections = collections.clone();
                async move { Ok(in_tasks(1, operations, prepare(pipeline, collections, length).await?)) }
            });
            variants.push(variant.against(name(false, length)));
        }
    }
    let title = "By the number of elements in the overflow document";
    let entries = compare(bench, title, variants).await?;
    let mut comparison = Comparison::new(title, "purchase", entries).with_server_ratios();
    for length in LENGTHS {
        for pipeline in [true, false] {
            let push = prepare(pipeline, Collections::recorded(bench, "extras"), length).await?;
            let trips = round_trips(bench, BOOKS, in_tasks(1, BOOKS, push)).await?;
            comparison.figure(&name(pipeline, length), "round trips", trips);
        }
    }
    let mut section = Section::new("extras", "The write to an overflow document", TEXT);
    section.add(&comparison);
    Ok(section)
}

fn name(pipeline: bool, length: u64) -> String {
    let command = if pipeline {
        "findOneAndUpdate, pipeline"
    } else {
        "updateOne, $push"
    };
    format!("{command}, {}", number(length as f64))
}

async fn prepare(pipeline: bool, collections: Collections, length: u64) -> Result<Operation> {
    let books = collections
        .fresh_of(collections.builder().max_overflow_elements(ROOM.try_into()?))
        .await?;
    for id in 0..BOOKS {
        books.insert(&book(id as i32, THRESHOLD + length)).await?;
    }
    collections.settle().await?;
    Ok(operation(move |n| {
        let collections = collections.clone();
        async move {
            let (id, user) = ((n % BOOKS) as i32, user(THRESHOLD + length + n / BOOKS));
            if pipeline {
                return by_hand::fill(&collections, id, &user, ROOM).await;
            }
            let is_stored = by_hand::push_extra(&collections, id, 0, &user, ROOM).await?;
            ensure!(is_stored, "the overflow document is full");
            Ok(())
        }
    }))
}
