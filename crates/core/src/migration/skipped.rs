//! The documents that a migration skips because they are invalid, listed in a collection.

use mongodb::Collection;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};

use super::{Step, number};
use crate::conn::Conn;
use crate::error::{CommandError, Error, ErrorKind, Result};
use crate::settings::{COLLECTION, is_unacknowledged};

/// The collection with the skipped documents of a migration, one document for each: its `_id`, the reason, source and
/// target. The server writes it.
#[derive(Clone)]
pub struct SkipList<'a> {
    /// The source of the migration.
    pub source: &'a Collection<RawDocumentBuf>,
    /// Its target.
    pub target: &'a Collection<RawDocumentBuf>,
    /// The collection.
    pub list: &'a Collection<RawDocumentBuf>,
}

crate::redacted_debug!(SkipList<'_>, |list| "list" = list.list.namespace());

impl SkipList<'_> {
    /// Checks the collection. Sends nothing.
    pub fn check_settings(&self) -> Result<()> {
        let refuse = |message: &'static str| Err(Error::new(ErrorKind::InvalidArgument, message));
        let (list, source) = (self.list.namespace(), self.source.namespace());
        if list.db != source.db {
            return refuse("the collection of the skipped documents is in another database: take one of this database");
        }
        if [&source.coll, &self.target.namespace().coll].contains(&&list.coll) || list.coll == COLLECTION {
            return refuse(
                "the collection of the skipped documents is the source, the target or the catalog of the migration: use another one",
            );
        }
        if is_unacknowledged(self.list) {
            return refuse(
                "the write concern of the collection of the skipped documents is w: 0, under which no write is confirmed: use another one",
            );
        }
        Ok(())
    }

    /// Checks that the collection has only documents of earlier runs. One round trip.
    pub async fn check(&self, conn: &mut Conn<'_>) -> Result<()> {
        let others = [
            doc! { "$match": { "$nor": [self.ours()] } },
            doc! { "$limit": 1 },
            doc! { "$count": "n" },
        ];
        let purpose = "look for other documents in the list of skipped documents";
        let others = conn.read(Step::aggregate(purpose, self.list, others)).await?.first()?;
        if number(&others, "n") == 0 {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::TargetNotEmpty,
            format!(
                "`{}` has documents other than the list of an earlier run of this migration, nothing was migrated: name another collection for the skipped documents",
                self.list.namespace()
            ),
        ))
    }

    /// Lists the documents that stages select, with their reasons, and removes documents of earlier runs that are valid now.
    /// Idempotent.
    pub async fn write(
        &self,
        conn: &mut Conn<'_>,
        mut stages: Vec<Document>,
        reason: Bson,
    ) -> std::result::Result<(), CommandError> {
        let earlier = self.earlier_runs(conn).await?;
        let mut fields = doc! { "_id": "$_id", "reason": reason };
        let ours = self.ours().into_iter();
        fields.extend(ours.map(|(name, value)| (name, doc! { "$literal": value }.into())));
        fields.insert("run", ObjectId::new());
        stages.extend([
            // The server merges no document without an `_id`, as those of a view can be, or with null.
            doc! { "$match": { "_id": { "$ne": null } } },
            doc! { "$replaceWith": fields },
            doc! { "$merge": { "into": self.list.name(), "whenMatched": "replace", "whenNotMatched": "insert" } },
        ]);
        let list = Step::aggregate("list the skipped documents", self.source, stages).acknowledged_by(self.list);
        conn.write(list).await?;
        self.remove_runs(conn, earlier).await
    }

    /// Lists one document.
    pub async fn add(
        &self,
        conn: &mut Conn<'_>,
        run: ObjectId,
        id: &Bson,
        reason: &str,
    ) -> std::result::Result<(), CommandError> {
        if *id == Bson::Null {
            return Ok(());
        }
        let mut listed = doc! { "_id": id, "reason": reason };
        listed.extend(self.ours());
        listed.insert("run", run);
        let listed = RawDocumentBuf::try_from(&listed)?;
        let filter = doc! { "_id": { "$eq": id } };
        let add = Step::upsert("list a skipped document", self.list, filter, listed);
        conn.write(add).await?;
        Ok(())
    }

    /// Returns the earlier runs, before this one lists a document.
    pub async fn earlier_runs(&self, conn: &mut Conn<'_>) -> std::result::Result<Vec<Bson>, CommandError> {
        let runs = [doc! { "$match": self.ours() }, doc! { "$group": { "_id": "$run" } }];
        let purpose = "look for earlier runs in the list of skipped documents";
        let runs = conn.read(Step::aggregate(purpose, self.list, runs)).await?.decoded()?;
        Ok(runs.into_iter().filter_map(|mut run| run.remove("_id")).collect())
    }

    /// Removes the documents that only these runs have listed. It names them, because the deletion of a dropped call can
    /// come late.
    pub async fn remove_runs(&self, conn: &mut Conn<'_>, earlier: Vec<Bson>) -> std::result::Result<(), CommandError> {
        if earlier.is_empty() {
            return Ok(());
        }
        let mut old = self.ours();
        old.insert("run", doc! { "$in": earlier });
        let purpose = "remove documents from the list that an earlier run skipped";
        conn.write(Step::delete_many(purpose, self.list, old)).await?;
        Ok(())
    }

    fn ours(&self) -> Document {
        doc! { "source": self.source.name(), "target": self.target.name() }
    }
}
