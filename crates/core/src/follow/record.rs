//! The stored position of followers: one small document for each name, in the catalog of the database.

use mongodb::Collection;
use mongodb::bson::{self, Bson, Document, RawDocumentBuf, doc};
use mongodb::change_stream::event::ResumeToken;
use mongodb::options::{FindOptions, UpdateOptions, WriteConcern};

use super::{Target, commands};
use crate::catalog::catalog_of;
use crate::conn::Conn;
use crate::error::{self, CommandError, Error, ErrorKind, Result};

/// Returns the names of the followers that have stored a position in the changes of a collection. One round trip.
pub async fn followers_of(watched: &Collection<RawDocumentBuf>) -> Result<Vec<String>> {
    let options = FindOptions::builder().projection(doc! { "_id": 1 }).build();
    let (catalog, filter) = (catalog_of(watched, None), commands::records_of(watched.name()));
    let found = Conn::new().find_all(&catalog, filter, options).await?;
    let name = |record: &RawDocumentBuf| Some(record.get_document("_id").ok()?.get_str("name").ok()?.to_owned());
    Ok(found.iter().filter_map(name).collect())
}

pub(super) struct Record {
    collection: Collection<RawDocumentBuf>,
    name: String,
    settings: Document,
    watched: Vec<String>,
    other_settings: &'static str,
}

impl Record {
    pub(super) fn of(target: &dyn Target, name: String) -> Self {
        let watched = [target.watched().name()].into_iter().chain(target.further());
        Self {
            collection: catalog_of(target.watched(), Some(WriteConcern::majority())),
            name,
            settings: target.record_settings(),
            watched: watched.map(str::to_owned).collect(),
            other_settings: target.texts().other_settings,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the position after the last processed change, if there is a record.
    pub(super) async fn read(&self) -> Result<Option<ResumeToken>> {
        let record = commands::record(&self.name);
        let Some(found) = Conn::new().find_one(&self.collection, record, None).await? else {
            return Ok(None);
        };
        let mut found = Document::try_from(&found).map_err(CommandError::from)?;
        if found.get_document("settings").ok() != Some(&self.settings) {
            return Err(Error::new(ErrorKind::InvalidArgument, self.other_settings));
        }
        let token = found.remove("token").filter(|token| token.as_document().is_some());
        let token = token.and_then(|token| bson::deserialize_from_bson(token).ok());
        token.map(Some).ok_or_else(|| {
            let message = "the record of a follower has no resume token: delete it, and follow again from the start";
            let id = Bson::String(self.name.clone());
            Error::corrupt(id, "token", message).of_collection(&self.collection)
        })
    }

    /// Stores the position before which all changes are processed.
    pub(super) async fn write(&self, token: &ResumeToken) -> Result<()> {
        let token = bson::serialize_to_bson(token).map_err(mongodb::error::Error::from)?;
        let update = commands::store_position(token, &self.watched);
        loop {
            let options = UpdateOptions::builder().upsert(true).build();
            let conn = &mut Conn::new();
            let updated = conn.update_one(&self.collection, self.own(), update.clone(), options);
            let Err(error) = updated.await else {
                return Ok(());
            };
            if error::duplicate_key(&error).is_none() {
                return Err(error.into());
            }
            // Another follower inserted the record concurrently. If it has other settings, this read refuses it.
            self.read().await?;
        }
    }

    /// Deletes the record, so that the next follower of the name starts from the beginning.
    pub(super) async fn delete(&self) -> Result<()> {
        Conn::new().delete_one(&self.collection, self.own(), None).await?;
        Ok(())
    }

    fn own(&self) -> Document {
        commands::own_record(&self.name, &self.settings)
    }
}
