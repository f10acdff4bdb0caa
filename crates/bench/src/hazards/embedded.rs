//! Addresses of patrons, each of whom may have ten.

use anyhow::Result;
use mongo_patterns_core::{ErrorKind, Repository};
use mongo_patterns_embedded::EmbeddedRepository;
use mongodb::Database;
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::{Error as DriverError, ErrorKind as DriverErrorKind, WriteFailure};

use super::load::{Answer, Failure, Ledger, Write, write};
use super::recipe::{Hazards, Source};
use super::stored::{Times, all, elements, integer};

const COLLECTION: &str = "patron";
const BOUND: u32 = 10;
/// How many addresses the load adds to each patron.
const OFFERED: u64 = 12;
/// How many patrons the longest load needs.
const PATRONS: i64 = 400;
/// The server's error code for a document that does not pass the validation of its collection.
const INVALID: i32 = 121;

type Patrons = EmbeddedRepository<Document, Document>;

fn patrons(database: &Database) -> Result<Patrons> {
    let builder = Patrons::builder(database.collection::<Document>(COLLECTION))
        .children_field("addresses")
        .child_id_field("id")
        .max_children(BOUND);
    Ok(builder.build()?)
}

pub(super) async fn prepare(source: Source, database: &Database) -> Result<()> {
    let create = database.create_collection(COLLECTION);
    match source {
        Source::AgentSkills => {
            let addresses = doc! { "bsonType": "array", "maxItems": BOUND };
            let schema = doc! { "properties": { "addresses": addresses } };
            create.validator(doc! { "$jsonSchema": schema }).await?;
        }
        _ => create.await?,
    }
    if source == Source::Ours {
        patrons(database)?.ensure_indexes().await?;
    }
    let new = (0..PATRONS).map(|id| doc! { "_id": id, "name": "Joe Bookreader", "addresses": [] });
    database.collection::<Document>(COLLECTION).insert_many(new).await?;
    Ok(())
}

pub(super) fn writes(source: Source, databases: &[Database]) -> Result<Vec<Write>> {
    let of_client = |database: &Database| {
        let (database, patrons) = (database.clone(), patrons(database)?);
        Ok(write(move |number| {
            let (database, patrons) = (database.clone(), patrons.clone());
            async move {
                let patron = (number / OFFERED) as i64;
                let address = doc! { "id": number as i64, "street": "123 Fake Street", "zip": "12345" };
                match source {
                    Source::WriteBack => read_and_set(&database, patron, address).await,
                    Source::AgentSkills => push(&database, patron, address).await,
                    Source::Ours => match patrons.add_child(patron, &address).await {
                        Err(error) if error.kind() == ErrorKind::LimitReached => Ok(Answer::Full),
                        // The first attempt has stored it.
                        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Answer::Done),
                        added => Ok(added.map(|()| Answer::Done)?),
                    },
                    _ => read_and_push(&database, patron, address).await,
                }
            }
        }))
    };
    databases.iter().map(of_client).collect()
}

/// Follows the manual, "Model One-to-Many Relationships with Embedded Documents". It has no commands: this is the usual
/// check of a bound, by a read.
async fn read_and_push(database: &Database, patron: i64, address: Document) -> Result<Answer, Failure> {
    let patrons = database.collection::<Document>(COLLECTION);
    let found = patrons.find_one(doc! { "_id": patron }).await?.unwrap_or_default();
    if found
        .get_array("addresses")
        .is_ok_and(|addresses| addresses.len() >= BOUND as usize)
    {
        return Ok(Answer::Full);
    }
    push(database, patron, address).await
}

/// Does the same, and writes the array back.
async fn read_and_set(database: &Database, patron: i64, address: Document) -> Result<Answer, Failure> {
    let patrons = database.collection::<Document>(COLLECTION);
    let found = patrons.find_one(doc! { "_id": patron }).await?.unwrap_or_default();
    let mut addresses = found.get_array("addresses").cloned().unwrap_or_default();
    if addresses.len() >= BOUND as usize {
        return Ok(Answer::Full);
    }
    addresses.push(address.into());
    let set = doc! { "$set": { "addresses": addresses } };
    patrons.update_one(doc! { "_id": patron }, set).await?;
    Ok(Answer::Done)
}

/// Follows `mongodb/agent-skills`, `mongodb-schema-design/references/fundamental-embed-vs-reference.md`, "One-to-Few": a
/// push, and a validator that enforces the bound.
async fn push(database: &Database, patron: i64, address: Document) -> Result<Answer, Failure> {
    let patrons = database.collection::<Document>(COLLECTION);
    let push = doc! { "$push": { "addresses": address } };
    match patrons.update_one(doc! { "_id": patron }, push).await {
        Err(error) if is_invalid(&error) => Ok(Answer::Full),
        pushed => Ok(pushed.map(|_| Answer::Done)?),
    }
}

fn is_invalid(error: &DriverError) -> bool {
    matches!(&*error.kind, DriverErrorKind::Write(WriteFailure::WriteError(error)) if error.code == INVALID)
}

pub(super) async fn check(database: &Database, ledger: &Ledger) -> Result<Hazards> {
    hazards(&all(database, COLLECTION).await?, ledger)
}

/// A patron is wrong if there are more addresses than the bound, or one of another patron.
fn hazards(patrons: &[Document], ledger: &Ledger) -> Result<Hazards> {
    let (mut times, mut wrong) = (Times::default(), 0);
    for patron in patrons {
        let id = integer(patron, "_id")?;
        let addresses = elements(patron, "addresses")?;
        let mut is_wrong = addresses.len() > BOUND as usize;
        for address in addresses.iter().filter_map(Bson::as_document) {
            let number = integer(address, "id")?;
            times.add(number);
            is_wrong |= number / OFFERED as i64 != id;
        }
        wrong += u64::from(is_wrong);
    }
    Ok(Hazards {
        lost: times.lost(ledger, |_| true),
        doubled: times.doubled(),
        stale: None,
        gaps: None,
        wrong,
    })
}

#[cfg(test)]
mod tests {
    use super::super::load::Fate;
    use super::*;

    fn patron(id: i64, numbers: impl IntoIterator<Item = i64>) -> Document {
        let addresses: Vec<Document> = numbers.into_iter().map(|number| doc! { "id": number }).collect();
        doc! { "_id": id, "addresses": addresses }
    }

    fn found(patrons: &[Document]) -> Hazards {
        hazards(patrons, &Ledger::of(&[Fate::Full, Fate::Acknowledged])).unwrap()
    }

    #[test]
    fn patrons_within_the_bound_are_correct() {
        assert_eq!(found(&[patron(0, 1..11), patron(1, 12..14)]), Hazards::default());
    }

    #[test]
    fn each_hazard_is_found() {
        let found = |patron| found(&[patron]);
        let none = Hazards::default();
        assert_eq!(found(patron(0, 2..4)), Hazards { lost: 1, ..none });
        assert_eq!(found(patron(0, [1, 2, 2])), Hazards { doubled: 1, ..none });
        assert_eq!(found(patron(0, 0..11)), Hazards { wrong: 1, ..none });
        assert_eq!(found(patron(0, [1, 12])), Hazards { wrong: 1, ..none });
    }
}
