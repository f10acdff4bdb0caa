//! Attributes of items, as pairs of a name and a value.

use std::collections::HashMap;

use anyhow::Result;
use mongo_patterns_core::Repository;
use mongo_patterns_embedded::EmbeddedRepository;
use mongodb::bson::{Bson, Document, doc};
use mongodb::{Collection, Database};

use super::load::{Answer, Failure, Ledger, Write, write};
use super::recipe::{Hazards, Source};
use super::stored::{all, elements, integer};

const COLLECTION: &str = "items";
/// How many operations set each attribute, one directly after the other.
const SETS: u64 = 2;
/// How many attributes each item gets.
const ATTRIBUTES: u64 = 10;
/// How many items the longest load needs.
const ITEMS: i64 = 200;

type Items = EmbeddedRepository<Document, Document>;

fn items(database: &Database) -> Result<Items> {
    let builder = Items::builder(database.collection::<Document>(COLLECTION))
        .children_field("attributes")
        .child_id_field("k");
    Ok(builder.build()?)
}

/// Returns the item and the name that an operation sets.
fn set_by(number: u64) -> (i64, String) {
    let attribute = number / SETS;
    (
        (attribute / ATTRIBUTES) as i64,
        format!("name{}", attribute % ATTRIBUTES),
    )
}

pub(super) async fn prepare(source: Source, database: &Database) -> Result<()> {
    database.create_collection(COLLECTION).await?;
    if source == Source::Ours {
        items(database)?.ensure_indexes().await?;
    }
    let new = (0..ITEMS).map(|id| doc! { "_id": id, "name": "Bottle", "attributes": [] });
    database.collection::<Document>(COLLECTION).insert_many(new).await?;
    Ok(())
}

pub(super) fn writes(source: Source, databases: &[Database]) -> Result<Vec<Write>> {
    let of_client = |database: &Database| {
        let (ours, items) = (items(database)?, database.collection(COLLECTION));
        Ok(write(move |number| {
            let (ours, items) = (ours.clone(), items.clone());
            async move {
                let (item, name) = set_by(number);
                let attribute = doc! { "k": name, "v": number as i64 };
                match source {
                    Source::Ours => drop(ours.upsert_child(item, &attribute).await?),
                    Source::WriteBack => read_and_set(&items, item, attribute).await?,
                    _ => update_or_push(&items, item, attribute).await?,
                }
                Ok(Answer::Done)
            }
        }))
    };
    databases.iter().map(of_client).collect()
}

/// Follows the manual, "Group Data with the Attribute Pattern". It has no commands that set an attribute: this is the usual
/// update, and a push if there is nothing to update.
async fn update_or_push(items: &Collection<Document>, item: i64, attribute: Document) -> Result<(), Failure> {
    let stored = doc! { "_id": item, "attributes.k": attribute.get("k") };
    let set = doc! { "$set": { "attributes.$.v": attribute.get("v") } };
    if items.update_one(stored, set).await?.matched_count == 0 {
        let push = doc! { "$push": { "attributes": attribute } };
        items.update_one(doc! { "_id": item }, push).await?;
    }
    Ok(())
}

/// Does the same, and writes the array back.
async fn read_and_set(items: &Collection<Document>, item: i64, attribute: Document) -> Result<(), Failure> {
    let found = items.find_one(doc! { "_id": item }).await?.unwrap_or_default();
    let mut attributes = found.get_array("attributes").cloned().unwrap_or_default();
    attributes.retain(|stored| stored.as_document().and_then(|stored| stored.get("k")) != attribute.get("k"));
    attributes.push(attribute.into());
    let set = doc! { "$set": { "attributes": attributes } };
    items.update_one(doc! { "_id": item }, set).await?;
    Ok(())
}

pub(super) async fn check(database: &Database, ledger: &Ledger) -> Result<Hazards> {
    hazards(&all(database, COLLECTION).await?, ledger)
}

/// An operation is lost if its attribute has no value. Which of its values is the last one is unknown.
fn hazards(items: &[Document], ledger: &Ledger) -> Result<Hazards> {
    let (mut times, mut wrong) = (HashMap::<(i64, String), u64>::new(), 0);
    for item in items {
        let id = integer(item, "_id")?;
        let mut is_wrong = false;
        for attribute in elements(item, "attributes")?.iter().filter_map(Bson::as_document) {
            let name = attribute.get_str("k")?.to_owned();
            is_wrong |= set_by(integer(attribute, "v")? as u64) != (id, name.clone());
            *times.entry((id, name)).or_default() += 1;
        }
        wrong += u64::from(is_wrong);
    }
    let lost = ledger
        .acknowledged()
        .filter(|number| !times.contains_key(&set_by(*number)));
    Ok(Hazards {
        lost: lost.count() as u64,
        doubled: times.values().filter(|times| **times > 1).count() as u64,
        stale: None,
        gaps: None,
        wrong,
    })
}

#[cfg(test)]
mod tests {
    use super::super::load::Fate;
    use super::*;

    /// Returns an item with the attributes that these operations set.
    fn item(id: i64, numbers: impl IntoIterator<Item = u64>) -> Document {
        let attribute = |number: u64| doc! { "k": set_by(number).1, "v": number as i64 };
        let attributes: Vec<Document> = numbers.into_iter().map(attribute).collect();
        doc! { "_id": id, "attributes": attributes }
    }

    fn found(items: &[Document]) -> Hazards {
        hazards(items, &Ledger::of(&[Fate::Unknown, Fate::Acknowledged])).unwrap()
    }

    #[test]
    fn one_value_of_each_attribute_is_correct() {
        assert_eq!(found(&[item(0, [0, 3]), item(1, [20])]), Hazards::default());
    }

    #[test]
    fn each_hazard_is_found() {
        let none = Hazards::default();
        assert_eq!(found(&[item(0, [2])]), Hazards { lost: 1, ..none });
        assert_eq!(found(&[item(0, [0, 1])]), Hazards { doubled: 1, ..none });
        assert_eq!(
            found(&[item(0, [0, 20])]),
            Hazards {
                doubled: 1,
                wrong: 1,
                ..none
            }
        );
        assert_eq!(found(&[item(0, [0]), item(1, [2])]), Hazards { wrong: 1, ..none });
    }
}
