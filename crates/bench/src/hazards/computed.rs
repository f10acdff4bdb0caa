//! Movies with the sums of their screenings: the example of the computed pattern.

use std::collections::BTreeMap;

use anyhow::Result;
use mongo_patterns_core::{ErrorKind, Repository};
use mongo_patterns_subset::{Subset, SubsetRepository};
use mongodb::bson::{DateTime, Document, doc};
use mongodb::{Collection, Database};

use super::load::{Answer, Failure, Ledger, Write, write};
use super::recipe::{Hazards, Source};
use super::stored::{Times, all, integer};

const MOVIES: i64 = 8;
const PARENTS: &str = "movies";
const CHILDREN: &str = "screenings";
const COUNT: &str = "screening_count";
/// The fields that are summed, each with its sum.
const SUMS: [(&str, &str); 2] = [("viewers", "total_viewers"), ("revenue", "total_revenue")];

type Movies = SubsetRepository<Document, Document>;

fn movies(database: &Database) -> Result<Movies> {
    let (movies, screenings) = (
        database.collection::<Document>(PARENTS),
        database.collection::<Document>(CHILDREN),
    );
    let builder = Movies::builder(movies, screenings)
        .parent_field("movie_id")
        .child_id_field("screening_id")
        .subset(Subset::new("newest_screenings").sort(doc! { "date": -1 }).size(3))
        .total_field(COUNT);
    let builder = SUMS
        .iter()
        .fold(builder, |builder, (field, sum)| builder.sum(*field, *sum));
    Ok(builder.build()?)
}

fn screening(number: u64) -> Document {
    let (number, viewers) = (number as i64, (number % 500) as i32);
    doc! {
        "screening_id": number, "movie_id": number % MOVIES, "date": DateTime::now(),
        "viewers": viewers, "revenue": viewers * 10,
    }
}

pub(super) async fn prepare(source: Source, database: &Database) -> Result<()> {
    database.create_collection(PARENTS).await?;
    database.create_collection(CHILDREN).await?;
    if source == Source::Ours {
        movies(database)?.ensure_indexes().await?;
    }
    let collection = database.collection::<Document>(PARENTS);
    for id in 0..MOVIES {
        let mut movie = doc! { "_id": id, "title": "Jack the Tiger", COUNT: 0 };
        movie.extend(SUMS.map(|(_, sum)| (sum.to_owned(), 0.into())));
        collection.insert_one(movie).await?;
    }
    Ok(())
}

pub(super) fn writes(source: Source, databases: &[Database]) -> Result<Vec<Write>> {
    let of_client = |database: &Database| {
        let (ours, movies) = (movies(database)?, database.collection(PARENTS));
        let screenings = database.collection(CHILDREN);
        Ok(write(move |number| {
            let (ours, movies, screenings) = (ours.clone(), movies.clone(), screenings.clone());
            async move {
                let new = screening(number);
                match source {
                    Source::Ours => match ours.insert(&new).await {
                        // The first attempt has stored it.
                        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                        inserted => drop(inserted?),
                    },
                    _ => insert_and_increment(&movies, &screenings, &new).await?,
                }
                Ok(Answer::Done)
            }
        }))
    };
    databases.iter().map(of_client).collect()
}

/// Follows `mongodb/agent-skills`, `mongodb-schema-design/references/pattern-computed.md`, "Update on write".
async fn insert_and_increment(
    movies: &Collection<Document>,
    screenings: &Collection<Document>,
    screening: &Document,
) -> Result<(), Failure> {
    screenings.insert_one(screening).await?;
    let mut increments = doc! { COUNT: 1 };
    for (field, sum) in SUMS {
        increments.extend(screening.get(field).map(|value| (sum.to_owned(), value.clone())));
    }
    let movie = doc! { "_id": screening.get("movie_id") };
    movies.update_one(movie, doc! { "$inc": increments }).await?;
    Ok(())
}

pub(super) async fn check(database: &Database, ledger: &Ledger) -> Result<Hazards> {
    hazards(&all(database, PARENTS).await?, &all(database, CHILDREN).await?, ledger)
}

/// A movie is stale if its sums or its count contradict the stored screenings.
fn hazards(movies: &[Document], screenings: &[Document], ledger: &Ledger) -> Result<Hazards> {
    let mut times = Times::default();
    let mut of_movies: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for screening in screenings {
        times.add(integer(screening, "screening_id")?);
        let figures = of_movies.entry(integer(screening, "movie_id")?).or_default();
        figures.resize(SUMS.len() + 1, 0);
        figures[0] += 1;
        for (figure, (field, _)) in figures[1..].iter_mut().zip(SUMS) {
            *figure += integer(screening, field)?;
        }
    }
    let mut stale = 0;
    for movie in movies {
        let stored = of_movies.remove(&integer(movie, "_id")?);
        let expected = stored.unwrap_or_else(|| vec![0; SUMS.len() + 1]);
        let fields = [COUNT].into_iter().chain(SUMS.map(|(_, sum)| sum));
        let shown = fields
            .map(|field| integer(movie, field))
            .collect::<Result<Vec<i64>>>()?;
        stale += u64::from(shown != expected);
    }
    Ok(Hazards {
        lost: times.lost(ledger, |_| true),
        doubled: times.doubled(),
        stale: Some(stale),
        gaps: None,
        // The movies of screenings that do not exist.
        wrong: of_movies.len() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::super::load::Fate;
    use super::*;

    fn movie(id: i64, count: i64, viewers: i64) -> Document {
        doc! { "_id": id, COUNT: count, "total_viewers": viewers, "total_revenue": viewers * 10 }
    }

    fn found(movies: &[Document], screenings: &[Document]) -> Hazards {
        hazards(movies, screenings, &Ledger::of(&[Fate::Acknowledged, Fate::Unknown])).unwrap()
    }

    fn none() -> Hazards {
        Hazards {
            stale: Some(0),
            ..Hazards::default()
        }
    }

    #[test]
    fn sums_of_the_stored_screenings_are_correct() {
        let screenings = [screening(0), screening(1), screening(8), screening(9)];
        let movies = [movie(0, 2, 8), movie(1, 2, 10), movie(2, 0, 0)];
        assert_eq!(found(&movies, &screenings), none());
    }

    #[test]
    fn each_hazard_is_found() {
        let movies = [movie(0, 1, 0), movie(1, 1, 1)];
        let stale = |stale, rest| Hazards {
            stale: Some(stale),
            ..rest
        };
        let lost = Hazards { lost: 1, ..none() };
        assert_eq!(found(&movies, &[screening(1)]), stale(1, lost));
        let doubled = Hazards { doubled: 1, ..none() };
        assert_eq!(
            found(&movies, &[screening(0), screening(1), screening(1)]),
            stale(1, doubled)
        );
        let miscounted = [movie(0, 2, 0), movie(1, 1, 2)];
        assert_eq!(found(&miscounted, &[screening(0), screening(1)]), stale(2, none()));
        let orphan = [screening(0), screening(1), screening(2)];
        assert_eq!(found(&movies, &orphan), Hazards { wrong: 1, ..none() });
    }
}
