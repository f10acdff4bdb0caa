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

/// The record of the last migration into a collection. It stays after the migration has finished, so that a call that was
/// killed at the very end is recognized.
#[doc(hidden)]
pub struct Record {
    collection: Collection<RawDocumentBuf>,
    id: Document,
    /// Identifies this call. A call stops when another call has taken over.
    run: ObjectId,
    settings: Document,
    has_begun: bool,
    unfinished: Option<Unfinished>,
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

/// An earlier migration into the collection, which did not finish.
#[derive(Clone, Debug)]
struct Unfinished {
    settings: Document,
    position: Position,
}

/// Returns whether two migrations have the same settings.
fn same_settings(one: &Document, other: &Document) -> bool {
    // Also by meaning, because a NaN of a filter does not equal itself.
    one == other || same_fields(one, other)
}

impl Record {
    /// Reads the last migration into this collection, for a call with these settings, which all calls of one migration share.
    pub async fn read(target: &Collection<RawDocumentBuf>, settings: Document, conn: &mut Conn<'_>) -> Result<Self> {
        let mut record = Self {
            collection: catalog_of(target, target.write_concern().cloned()),
            id: doc! { "kind": "migration", "collection": target.name() },
            run: ObjectId::new(),
            settings,
            has_begun: false,
            unfinished: None,
        };
        let purpose = "look for an earlier migration";
        let find = Step::find_one(purpose, &record.collection, record.target(), FindOneOptions::default());
        if let Some(mut stored) = conn.read(find).await?.decoded()?.pop() {
            let settings = stored.get_document("settings").cloned().unwrap_or_default();
            let position = Position {
                migrated: number(&stored, "moved"),
                last: stored.remove("last"),
            };
            record.has_begun = same_settings(&settings, &record.settings);
            record.unfinished = (!stored.contains_key("finished")).then_some(Unfinished { settings, position });
        }
        Ok(record)
    }

    /// Returns whether the last migration has the settings of this call, finished or not.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Returns whether this call resumes an unfinished migration.
    pub fn is_resumed(&self) -> bool {
        self.unfinished.is_some()
    }

    /// Returns the settings of this call, and the different settings of an unfinished migration.
    pub fn other_settings(&self) -> Option<(&Document, &Document)> {
        let other = self.unfinished.as_ref().filter(|_| !self.has_begun)?;
        Some((&self.settings, &other.settings))
    }

    /// Refuses an unfinished migration that has other settings.
    pub fn check_settings(&self, message: &'static str) -> Result<()> {
        let refused = |_| Err(Error::new(ErrorKind::InvalidArgument, message));
        self.other_settings().map_or(Ok(()), refused)
    }

    /// Lets this call begin from the start.
    pub fn start_again(&mut self) {
        self.unfinished = None;
    }

    /// Returns the position from which this call continues.
    pub fn position(&self) -> Position {
        let unfinished = self.unfinished.as_ref();
        unfinished
            .map(|unfinished| unfinished.position.clone())
            .unwrap_or_default()
    }

    /// Records that this call begins a migration, or resumes the unfinished one.
    pub async fn begin(&self, conn: &mut Conn<'_>) -> Result<()> {
        let step = if self.is_resumed() {
            let run = doc! { "$set": { "run": self.run }, "$currentDate": { "active": true } };
            Step::update_one("resume the migration", &self.collection, self.target(), run)
        } else {
            let record = doc! { "_id": &self.id, "settings": &self.settings, "run": self.run, "moved": 0_i64 };
            let record = RawDocumentBuf::try_from(&record).map_err(mongodb::error::Error::from)?;
            let purpose = "record that the migration begins";
            Step::upsert(purpose, &self.collection, self.target(), record)
        };
        conn.write(step).await?;
        Ok(())
    }

    /// Records the position.
    ///
    /// # Errors
    /// - [`Contention`](ErrorKind::Contention): another call has taken over.
    pub async fn advance(&self, conn: &mut Conn<'_>, last: &Bson, migrated: u64) -> Result<()> {
        let migrated = i64::try_from(migrated).unwrap_or(i64::MAX);
        let position = doc! { "$set": { "last": last, "moved": migrated }, "$currentDate": { "active": true } };
        self.update(conn, "record the position", position).await
    }

    /// Records that the migration has finished, with the number of items or children.
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
        let settings = |value: Bson| doc! { "filter": { "score": { "$ne": value } }, "source": "a" };
        let nan = || settings(f64::NAN.into());
        assert!(same_settings(&nan(), &nan()));
        assert!(!same_settings(&nan(), &settings(0.0.into())));
        assert!(same_settings(&doc! { "a": 1, "b": 2 }, &doc! { "b": 2, "a": 1 }));
    }
}
