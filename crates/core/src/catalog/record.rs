//! The progress of migrations: one small document for each target collection, in the catalog of its database.

use mongodb::Collection;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::FindOneOptions;

use super::catalog_of;
use crate::conn::Conn;
use crate::error::{Error, ErrorKind, Result};
use crate::migration::{Step, number};
use crate::value::same::same_fields;

/// The record of the last migration into a collection. It stays after the migration has finished, so that a call that
/// was killed at the very end is recognized.
#[doc(hidden)]
pub struct Record {
    collection: Collection<RawDocumentBuf>,
    id: Document,
    /// Identifies this call. A call stops when another one has taken over.
    run: ObjectId,
}

crate::redacted_debug!(Record);

/// A position in the source.
#[doc(hidden)]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Position {
    /// The last value of the walk that is migrated.
    pub last: Option<Bson>,
    /// How many items or children are migrated.
    pub migrated: u64,
}

/// The last migration into the collection.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Last {
    /// The settings, which all calls of one migration share.
    pub settings: Document,
    /// Whether it finished.
    pub finished: bool,
    /// Its position.
    pub position: Position,
}

impl Last {
    /// Returns whether the migration has these settings.
    pub fn has(&self, settings: &Document) -> bool {
        // Also by meaning, because a NaN of a filter does not equal itself.
        self.settings == *settings || same_fields(&self.settings, settings)
    }
}

impl Record {
    /// Creates the record for a call that migrates into this collection. Sends nothing.
    pub fn of(target: &Collection<RawDocumentBuf>) -> Self {
        Self {
            collection: catalog_of(target, target.write_concern().cloned()),
            id: doc! { "kind": "migration", "collection": target.name() },
            run: ObjectId::new(),
        }
    }

    /// Reads the last migration into the collection.
    pub async fn read(&self, conn: &mut Conn<'_>) -> Result<Option<Last>> {
        let purpose = "look for an earlier migration";
        let find = Step::find_one(purpose, &self.collection, self.target(), FindOneOptions::default());
        let found = conn.read(find).await?.decoded()?.pop();
        Ok(found.map(|mut found| Last {
            settings: found.get_document("settings").cloned().unwrap_or_default(),
            finished: found.contains_key("finished"),
            position: Position {
                migrated: number(&found, "moved"),
                last: found.remove("last"),
            },
        }))
    }

    /// Records that a migration begins.
    pub async fn begin(&self, conn: &mut Conn<'_>, settings: Document) -> Result<()> {
        let record = doc! { "_id": &self.id, "settings": settings, "run": self.run, "moved": 0_i64 };
        let record = RawDocumentBuf::try_from(&record).map_err(mongodb::error::Error::from)?;
        let purpose = "record that the migration begins";
        let begin = Step::upsert(purpose, &self.collection, self.target(), record);
        conn.write(begin).await?;
        Ok(())
    }

    /// Records that this call resumes an unfinished migration.
    pub async fn resume(&self, conn: &mut Conn<'_>) -> Result<()> {
        let run = doc! { "$set": { "run": self.run }, "$currentDate": { "active": true } };
        let resume = Step::update_one("resume the migration", &self.collection, self.target(), run);
        conn.write(resume).await?;
        Ok(())
    }

    /// Records the position.
    ///
    /// # Errors
    /// [`Contention`](ErrorKind::Contention) when another call has taken over, and those of the driver.
    pub async fn advance(&self, conn: &mut Conn<'_>, last: &Bson, migrated: u64) -> Result<()> {
        let migrated = i64::try_from(migrated).unwrap_or(i64::MAX);
        let position = doc! { "$set": { "last": last, "moved": migrated }, "$currentDate": { "active": true } };
        self.update(conn, "record the position", position).await
    }

    /// Records that the migration has finished, with the number of items or children.
    ///
    /// # Errors
    /// [`Contention`](ErrorKind::Contention) when another call has taken over, and those of the driver.
    pub async fn finish(&self, conn: &mut Conn<'_>, migrated: u64) -> Result<()> {
        let migrated = i64::try_from(migrated).unwrap_or(i64::MAX);
        let finished = doc! { "$set": { "moved": migrated }, "$currentDate": { "finished": true }, "$unset": { "last": 1, "active": 1 } };
        self.update(conn, "record that the migration has finished", finished)
            .await
    }

    /// Deletes the record of a migration that this call has begun, and that migrated nothing.
    pub async fn forget(&self) -> Result<()> {
        let mut unused = self.ours();
        unused.insert("moved", 0_i64);
        Conn::new().delete_one(&self.collection, unused, None).await?;
        Ok(())
    }

    /// Sets the position back to the start, so that the next call migrates everything again.
    ///
    /// # Errors
    /// [`Contention`](ErrorKind::Contention) when another call has taken over, and those of the driver.
    pub async fn rewind(&self) -> Result<()> {
        let start = doc! { "$set": { "moved": 0_i64 }, "$unset": { "last": 1, "active": 1 } };
        self.update(&mut Conn::new(), "start again", start).await
    }

    /// Returns the filter of the record as long as no other call has taken over.
    pub fn ours(&self) -> Document {
        doc! { "_id": &self.id, "run": self.run }
    }

    fn target(&self) -> Document {
        doc! { "_id": &self.id }
    }

    async fn update(&self, conn: &mut Conn<'_>, purpose: &'static str, update: Document) -> Result<()> {
        let update = Step::update_one(purpose, &self.collection, self.ours(), update);
        if conn.write(update).await?.is_some_and(|reply| reply.matched == 0) {
            return Err(Error::new(
                ErrorKind::Contention,
                "another call has taken over this migration: let it finish, and run one call at a time",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_migration_with_a_nan_in_its_filter_has_the_same_settings_again() {
        let of = |settings: Document| Last {
            settings,
            finished: false,
            position: Position::default(),
        };
        let settings = |value: Bson| doc! { "filter": { "score": { "$ne": value } }, "source": "a" };
        let nan = || settings(f64::NAN.into());
        assert!(of(nan()).has(&nan()));
        assert!(!of(nan()).has(&settings(0.0.into())));
        assert!(of(doc! { "a": 1, "b": 2 }).has(&doc! { "b": 2, "a": 1 }));
    }
}
