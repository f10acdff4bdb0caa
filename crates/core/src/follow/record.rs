//! The stored position of followers: one small document for each name, in the catalog of the database.

use mongodb::Collection;
use mongodb::bson::{self, Bson, Document, RawDocumentBuf};
use mongodb::change_stream::event::ResumeToken;
use mongodb::options::{UpdateOptions, WriteConcern};

use super::{Target, commands};
use crate::catalog::catalog_of;
use crate::conn::Conn;
use crate::error::{self, CommandError, Error, ErrorKind, Result};

pub(super) struct Record {
    collection: Collection<RawDocumentBuf>,
    name: String,
    settings: Document,
    other_settings: &'static str,
}

impl Record {
    pub(super) fn of(target: &dyn Target, name: String) -> Self {
        Self {
            collection: catalog_of(target.watched(), Some(WriteConcern::majority())),
            name,
            settings: target.record_settings(),
            other_settings: target.texts().other_settings,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the position after the last processed change, if there is a record.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) when the record has other settings.
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
        let update = commands::store_position(token);
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
