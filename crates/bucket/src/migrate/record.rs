//! What is known of the moves into a collection: one small document, in the target's database.

use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::Collection;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::{CollectionOptions, ReadConcern};

use super::run::primary;

const COLLECTION: &str = "mongo_patterns_moves";

/// The record of the moves into one collection. It stays when a move is finished, so that one that was killed at its
/// very end is known to be.
pub(crate) struct Record {
    collection: Collection<Document>,
    target_name: String,
    /// Which call is at work. A call that another has taken over from stops.
    run: ObjectId,
}

/// How far the last move came.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Place {
    /// The last value of the walk that is done.
    pub(crate) last: Option<Bson>,
    pub(crate) moved: u64,
}

/// The last move into the collection.
pub(crate) struct Last {
    pub(crate) settings: Document,
    pub(crate) finished: bool,
    pub(crate) place: Place,
}

impl Record {
    pub(crate) fn of(target: &Collection<RawDocumentBuf>) -> Self {
        let options = CollectionOptions::builder()
            .write_concern(target.write_concern().cloned())
            .read_concern(ReadConcern::local())
            .selection_criteria(primary())
            .build();
        let database = target.client().database(&target.namespace().db);
        Self {
            collection: database.collection_with_options(COLLECTION, options),
            target_name: target.name().to_owned(),
            run: ObjectId::new(),
        }
    }

    pub(crate) async fn read(&self) -> Result<Option<Last>> {
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
    pub(crate) async fn begin(&self, settings: Document) -> Result<()> {
        self.collection
            .replace_one(self.target(), self.begun(settings))
            .upsert(true)
            .await?;
        Ok(())
    }

    /// Notes that this call goes on with an unfinished move.
    pub(crate) async fn resume(&self) -> Result<()> {
        self.collection.update_one(self.target(), self.taken()).await?;
        Ok(())
    }

    pub(crate) async fn advance(&self, last: &Bson, moved: u64) -> Result<()> {
        self.update(advanced(last, moved)).await
    }

    pub(crate) async fn finish(&self) -> Result<()> {
        self.update(finished()).await
    }

    /// Back to the start: the next call goes over everything again.
    pub(crate) async fn rewind(&self) -> Result<()> {
        self.update(doc! { "$set": { "moved": 0_i64 }, "$unset": { "last": 1 } })
            .await
    }

    pub(crate) fn find_command(&self) -> Document {
        doc! { "find": COLLECTION, "filter": self.target(), "limit": 1, "singleBatch": true }
    }

    pub(crate) fn begin_command(&self, settings: Document) -> Document {
        update_command(doc! { "q": self.target(), "u": self.begun(settings), "upsert": true })
    }

    pub(crate) fn resume_command(&self) -> Document {
        update_command(doc! { "q": self.target(), "u": self.taken() })
    }

    pub(crate) fn advance_command(&self, last: &Bson, moved: u64) -> Document {
        update_command(doc! { "q": self.ours(), "u": advanced(last, moved) })
    }

    pub(crate) fn finish_command(&self) -> Document {
        update_command(doc! { "q": self.ours(), "u": finished() })
    }

    fn target(&self) -> Document {
        doc! { "_id": &self.target_name }
    }

    fn ours(&self) -> Document {
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

fn update_command(update: Document) -> Document {
    doc! { "update": COLLECTION, "ordered": true, "updates": [update] }
}
