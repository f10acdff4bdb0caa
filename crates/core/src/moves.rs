//! What is known of the moves into a collection: one small document, in the target's database.

use mongodb::Collection;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, RawDocumentBuf, Timestamp, doc};
use mongodb::options::{CollectionOptions, ReadConcern, ReadPreference, SelectionCriteria};

use crate::error::{Error, ErrorKind, Result};
use crate::plan;

/// The collection of the records, in the database of the collections that are moved into.
pub const COLLECTION: &str = "mongo_patterns_moves";

/// A number that an aggregation counted; 0 where it found nothing.
pub fn number(found: &Document, field: &str) -> u64 {
    let number = match found.get(field) {
        Some(Bson::Int32(number)) => i64::from(*number),
        Some(Bson::Int64(number)) => *number,
        #[allow(clippy::cast_possible_truncation)] // a server counts in doubles when it adds large numbers up
        Some(Bson::Double(number)) => *number as i64,
        _ => 0,
    };
    u64::try_from(number).unwrap_or(0)
}

/// Whether a stored document is what an insert of a given one stores, as an expression. The server puts the time of the
/// insert in the place of a `Timestamp(0, 0)` that is a field of the document itself.
pub fn is_inserted(stored: impl Into<Bson>, given: impl Into<Bson>) -> Document {
    let replaced = Timestamp { time: 0, increment: 0 };
    let fields = |of: &str| doc! { "$objectToArray": of };
    let only = |of: &str, other: &str| doc! { "$setDifference": [fields(of), fields(other)] };
    let all = |fields: &str, condition: Document| {
        doc! { "$allElementsTrue": [{ "$map": { "input": fields, "in": condition } }] }
    };
    let is_replaced = doc! { "$let": {
        "vars": { "stored": only("$$stored", "$$given"), "given": only("$$given", "$$stored") },
        "in": { "$and": [
            // Or else the fields are the same ones, in another order.
            { "$ne": ["$$given", []] },
            { "$setEquals": ["$$stored.k", "$$given.k"] },
            all("$$given", doc! { "$eq": ["$$this.v", replaced] }),
            all("$$stored", doc! { "$eq": [{ "$type": "$$this.v" }, "timestamp"] }),
        ] },
    } };
    doc! { "$let": {
        "vars": { "stored": stored, "given": given },
        "in": { "$or": [{ "$eq": ["$$stored", "$$given"] }, is_replaced] },
    } }
}

/// An error when an aggregation counted what cannot be moved. It names one of the documents, which is in a field of the
/// same name with `One` after it.
///
/// # Errors
/// Of this kind.
pub fn refuse(found: &Document, numbers: &str, kind: ErrorKind, field: &str, what: &str) -> Result<()> {
    let bad = number(found, numbers);
    if bad == 0 {
        return Ok(());
    }
    let error = Error::new(kind, format!("{bad} {what}; nothing was moved"));
    match found.get(format!("{numbers}One")) {
        None | Some(Bson::Null) => Err(error),
        Some(id) => Err(error.at(id.clone(), field)),
    }
}

/// The record of the moves into one collection. It stays when a move is finished, so that one that was killed at its
/// very end is known to be.
pub struct Record {
    collection: Collection<Document>,
    target_name: String,
    /// Which call is at work. A call that another has taken over from stops.
    run: ObjectId,
}

crate::redacted_debug!(Record);

/// How far the last move came.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Place {
    /// The last value of the walk that is done.
    pub last: Option<Bson>,
    /// How much is moved.
    pub moved: u64,
}

/// The last move into the collection.
#[derive(Clone, Debug)]
pub struct Last {
    /// What must be the same in all calls of one move.
    pub settings: Document,
    /// Whether it came to its end.
    pub finished: bool,
    /// How far it came.
    pub place: Place,
}

impl Record {
    /// For a call that moves into this collection.
    pub fn of(target: &Collection<RawDocumentBuf>) -> Self {
        let options = CollectionOptions::builder()
            .write_concern(target.write_concern().cloned())
            .read_concern(ReadConcern::local())
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .build();
        let database = target.client().database(&target.namespace().db);
        Self {
            collection: database.collection_with_options(COLLECTION, options),
            target_name: target.name().to_owned(),
            run: ObjectId::new(),
        }
    }

    /// The last move into the collection, if there was one.
    ///
    /// # Errors
    /// Those of the driver.
    pub async fn read(&self) -> Result<Option<Last>> {
        let found = self.collection.find_one(self.target()).await?;
        Ok(found.map(|mut found| Last {
            settings: found.get_document("settings").cloned().unwrap_or_default(),
            finished: found.contains_key("finished"),
            place: Place {
                moved: found
                    .get_i64("moved")
                    .ok()
                    .and_then(|moved| u64::try_from(moved).ok())
                    .unwrap_or(0),
                last: found.remove("last"),
            },
        }))
    }

    /// Notes that a move begins.
    ///
    /// # Errors
    /// Those of the driver.
    pub async fn begin(&self, settings: Document) -> Result<()> {
        self.collection
            .replace_one(self.target(), self.begun(settings))
            .upsert(true)
            .await?;
        Ok(())
    }

    /// Notes that this call goes on with an unfinished move.
    ///
    /// # Errors
    /// Those of the driver.
    pub async fn resume(&self) -> Result<()> {
        self.collection.update_one(self.target(), self.taken()).await?;
        Ok(())
    }

    /// Notes how far it is.
    ///
    /// # Errors
    /// [`Contention`](ErrorKind::Contention) when another call has taken over, and those of the driver.
    pub async fn advance(&self, last: &Bson, moved: u64) -> Result<()> {
        self.update(advanced(last, moved)).await
    }

    /// Notes that it has come to its end.
    ///
    /// # Errors
    /// [`Contention`](ErrorKind::Contention) when another call has taken over, and those of the driver.
    pub async fn finish(&self) -> Result<()> {
        self.update(finished()).await
    }

    /// Removes the record of a move that this call has begun, and of which nothing was done.
    ///
    /// # Errors
    /// Those of the driver.
    pub async fn forget(&self) -> Result<()> {
        self.collection.delete_one(self.ours()).await?;
        Ok(())
    }

    /// Back to the start: the next call goes over everything again.
    ///
    /// # Errors
    /// [`Contention`](ErrorKind::Contention) when another call has taken over, and those of the driver.
    pub async fn rewind(&self) -> Result<()> {
        self.update(doc! { "$set": { "moved": 0_i64 }, "$unset": { "last": 1 } })
            .await
    }

    /// The command that [`read`](Self::read) sends.
    pub fn find_command(&self) -> Document {
        doc! { "find": COLLECTION, "filter": self.target(), "limit": 1, "singleBatch": true }
    }

    /// The command that [`begin`](Self::begin) sends.
    pub fn begin_command(&self, settings: Document) -> Document {
        update_command(doc! { "q": self.target(), "u": self.begun(settings), "upsert": true })
    }

    /// The command that [`resume`](Self::resume) sends.
    pub fn resume_command(&self) -> Document {
        update_command(doc! { "q": self.target(), "u": self.taken() })
    }

    /// The command that [`advance`](Self::advance) sends.
    pub fn advance_command(&self, last: &Bson, moved: u64) -> Document {
        update_command(doc! { "q": self.ours(), "u": advanced(last, moved) })
    }

    /// The command that [`finish`](Self::finish) sends.
    pub fn finish_command(&self) -> Document {
        update_command(doc! { "q": self.ours(), "u": finished() })
    }

    fn target(&self) -> Document {
        doc! { "_id": &self.target_name }
    }

    /// The record as long as no other call has taken over, as a filter.
    pub fn ours(&self) -> Document {
        doc! { "_id": &self.target_name, "run": self.run }
    }

    fn begun(&self, settings: Document) -> Document {
        doc! { "_id": &self.target_name, "settings": settings, "run": self.run, "moved": 0_i64 }
    }

    fn taken(&self) -> Document {
        doc! { "$set": { "run": self.run } }
    }

    async fn update(&self, update: Document) -> Result<()> {
        if self.collection.update_one(self.ours(), update).await?.matched_count == 0 {
            return Err(Error::new(
                ErrorKind::Contention,
                "another call has begun the same move, and goes on with it: let it finish, and run one at a time",
            ));
        }
        Ok(())
    }
}

fn advanced(last: &Bson, moved: u64) -> Document {
    let moved = i64::try_from(moved).unwrap_or(i64::MAX);
    doc! { "$set": { "last": last, "moved": moved } }
}

fn finished() -> Document {
    doc! { "$currentDate": { "finished": true }, "$unset": { "last": 1 } }
}

fn update_command(statement: Document) -> Document {
    plan::update(COLLECTION, statement)
}
