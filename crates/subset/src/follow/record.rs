//! How far a follower is: one small document, in the children's database.

use mongo_patterns_core::{Error, ErrorKind, Result, error};
use mongodb::Collection;
use mongodb::bson::{self, Bson, Document, doc};
use mongodb::change_stream::event::ResumeToken;
use mongodb::options::{CollectionOptions, ReadConcern, ReadPreference, SelectionCriteria, WriteConcern};

use crate::repository::Shared;

const COLLECTION: &str = "mongo_patterns_followers";

/// The record of the followers of one name.
#[derive(Debug)]
pub(crate) struct Record {
    collection: Collection<Document>,
    name: String,
    /// What must be the same for all followers of the name.
    settings: Document,
}

impl Record {
    pub(crate) fn of(shared: &Shared, name: String) -> Self {
        let options = CollectionOptions::builder()
            .write_concern(WriteConcern::majority())
            .read_concern(ReadConcern::local())
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .build();
        let Shared {
            parents,
            children,
            settings,
            ..
        } = shared;
        let database = children.client().database(&children.namespace().db);
        Self {
            collection: database.collection_with_options(COLLECTION, options),
            name,
            settings: doc! {
                "pattern": "subset",
                "parents": parents.name(),
                "children": children.name(),
                "parentField": settings.parent.as_str(),
                "subsetField": settings.subset.as_str(),
            },
        }
    }

    /// The place after the last change that is done, if the name was used before.
    pub(crate) async fn read(&self) -> Result<Option<ResumeToken>> {
        let Some(mut found) = self.collection.find_one(doc! { "_id": &self.name }).await? else {
            return Ok(None);
        };
        if found.get_document("settings").ok() != Some(&self.settings) {
            return Err(other_settings());
        }
        let token = found.remove("token").filter(|token| token.as_document().is_some());
        let token = token.and_then(|token| bson::deserialize_from_bson(token).ok());
        token.map(Some).ok_or_else(|| {
            let message = "the record of a follower has no resume token: delete it, and follow as for the first time";
            Error::corrupt(Bson::String(self.name.clone()), "token", message)
        })
    }

    /// Notes that all is done before this place.
    pub(crate) async fn write(&self, token: &ResumeToken) -> Result<()> {
        let token = bson::serialize_to_bson(token).map_err(mongodb::error::Error::from)?;
        let update = doc! { "$set": { "token": token }, "$currentDate": { "updated": true } };
        loop {
            let ours = doc! { "_id": &self.name, "settings": &self.settings };
            let Err(error) = self.collection.update_one(ours, update.clone()).upsert(true).await else {
                return Ok(());
            };
            if error::duplicate_key(&error).is_none() {
                return Err(error.into());
            }
            // Another follower was faster to insert the record. If it has other settings, this refuses them.
            self.read().await?;
        }
    }

    /// The next follower of the name begins as for the first time.
    pub(crate) async fn forget(&self) -> Result<()> {
        let ours = doc! { "_id": &self.name, "settings": &self.settings };
        self.collection.delete_one(ours).await?;
        Ok(())
    }
}

fn other_settings() -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        "a follower of this name has other collections, another parent field or another subset field: use another name for this one",
    )
}
