//! The write to an extras document alone.

use anyhow::{Result, ensure};

use super::by_hand;
use super::place::{Place, THRESHOLD, book, operation, user};
use crate::Bench;
use crate::counts::round_trips;
use crate::measure::{Contestant, Operation, compare, in_tasks};
use crate::report::{Comparison, Section, number};

const BOOKS: u64 = 64;
const LENGTHS: [u64; 3] = [10, 250, 500];
/// So that all of them have room.
const ROOM: i32 = 2000;

const TEXT: &str = "\
The second command of a push to an outlier, by hand, to the extras of 64 books in turn: first as the repository sends it, \
`findOneAndUpdate` of the newest extras with a pipeline that takes as many as there is room for and says how many there \
were; then `updateOne` with `$push` and `$inc` to extras whose place is known, which does not look for the newest ones. \
The extras have so many elements. Each row of the second kind is compared with that of the first kind at its length.";

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let operations = bench.pick(1600, 64);
    let mut contestants = Vec::new();
    for length in LENGTHS {
        for pipeline in [true, false] {
            let place = Place::timed(bench, "extras");
            let contestant = Contestant::new(name(pipeline, length), operations, move || {
                let place = place.clone();
                async move { Ok(in_tasks(1, operations, prepare(pipeline, place, length).await?)) }
            });
            contestants.push(contestant.against(name(false, length)));
        }
    }
    let title = "By the number of elements in the extras";
    let entries = compare(bench, title, contestants).await?;
    let mut comparison = Comparison::new(title, "purchase", entries).with_server_ratios();
    for length in LENGTHS {
        for pipeline in [true, false] {
            let push = prepare(pipeline, Place::recorded(bench, "extras"), length).await?;
            let trips = round_trips(bench, BOOKS, in_tasks(1, BOOKS, push)).await?;
            comparison.figure(&name(pipeline, length), "round trips", trips);
        }
    }
    let mut section = Section::new("extras", "The write to the extras", TEXT);
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

async fn prepare(pipeline: bool, place: Place, length: u64) -> Result<Operation> {
    let books = place
        .fresh_of(place.builder().max_extras_elements(ROOM.try_into()?))
        .await?;
    for id in 0..BOOKS {
        books.insert(&book(id as i32, THRESHOLD + length)).await?;
    }
    place.settle().await?;
    Ok(operation(move |n| {
        let place = place.clone();
        async move {
            let (id, user) = ((n % BOOKS) as i32, user(THRESHOLD + length + n / BOOKS));
            if pipeline {
                return by_hand::fill(&place, id, &user, ROOM).await;
            }
            let is_stored = by_hand::push_extra(&place, id, 0, &user, ROOM).await?;
            ensure!(is_stored, "the extras are full");
            Ok(())
        }
    }))
}
