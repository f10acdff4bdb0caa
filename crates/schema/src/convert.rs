//! The conversion of documents to the newest version: of one that was read, and of stored ones.
//!
//! # Design
//!
//! ## Why are typed steps in a transaction?
//!
//! The client reads a document, converts it, and replaces it. A write in between must not be overwritten. A filter that
//! compares the whole document is blind to changes of a type or under a collation. A transaction conflicts with every write
//! of its documents.

use std::collections::HashMap;
use std::ops::Range;

use mongo_patterns_core::action::one_batch;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::document_id::{by_ids, bytes};
use mongo_patterns_core::error::{CommandError, duplicate_key};
use mongo_patterns_core::migration::Step;
use mongo_patterns_core::stored::id_of;
use mongo_patterns_core::versions::{Convert, check_distinct, convert, in_commands, replace};
use mongo_patterns_core::{Error, ErrorKind, Result, transaction, update};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::{AggregateOptions, FindOptions};

use crate::form::{known_version_of, refused};
use crate::query;
use crate::repository::Shared;
use crate::steps::{Work, are_on_server, end_of_typed};

/// Converts documents that were read to the newest version, and writes nothing. Documents that were deleted in between are
/// left out. One round trip for each version from which the server converts.
pub(crate) async fn read(
    shared: &Shared,
    documents: Vec<RawDocumentBuf>,
    conn: &mut Conn<'_>,
) -> Result<Vec<RawDocumentBuf>> {
    let settings = &shared.settings;
    let with_version = |document: RawDocumentBuf| Ok((known_version_of(settings, &document)?, document));
    let mut documents = documents.into_iter().map(with_version).collect::<Result<Vec<_>>>()?;
    for version in settings.steps.older() {
        let is_at = |(at, _): &&mut (u32, RawDocumentBuf)| *at == version;
        match settings.steps.from(version) {
            Some(Work::Typed(step)) => {
                for (at, document) in documents.iter_mut().filter(is_at) {
                    *document = convert(&settings.version, step, version, document)?;
                    *at += 1;
                }
            }
            Some(Work::Stages(_)) => {
                let given = documents.iter().filter(|(at, _)| *at == version);
                let given = given.map(|(_, document)| document.clone()).collect();
                let (mut converted, next) = read_on_server(shared, version, given, conn).await?;
                documents.retain_mut(|(at, document)| {
                    if *at != version {
                        return true;
                    }
                    let found = converted.remove(&bytes(&id_of(document)));
                    let is_found = found.is_some();
                    *document = found.unwrap_or_default();
                    *at = next;
                    is_found
                });
            }
            None => {}
        }
    }
    Ok(documents.into_iter().map(|(_, document)| document).collect())
}

/// Converts documents of a version by all steps on the server that follow. Returns them by their `_id`s, and their version.
async fn read_on_server(
    shared: &Shared,
    version: u32,
    documents: Vec<RawDocumentBuf>,
    conn: &mut Conn<'_>,
) -> Result<(HashMap<Vec<u8>, RawDocumentBuf>, u32)> {
    let (stages, next) = query::stages(&shared.settings, version);
    let mut all = HashMap::new();
    for together in in_commands(documents, |document| document.as_bytes().len()) {
        let mut pipeline = vec![doc! { "$match": by_ids(&ids(&together)) }, replace(&together)?];
        pipeline.extend(stages.iter().cloned());
        let options = AggregateOptions::builder()
            .batch_size(one_batch(together.len()))
            .build();
        let converted = conn.aggregate_all(&shared.collection, pipeline, options).await;
        let converted = converted.map_err(|error| of_step(error, version))?;
        all.extend(
            converted
                .into_iter()
                .map(|document| (bytes(&id_of(&document)), document)),
        );
    }
    Ok((all, next))
}

fn ids(documents: &[RawDocumentBuf]) -> Vec<Bson> {
    documents.iter().map(|document| id_of(document)).collect()
}

/// Converts stored documents of older versions, all or none. Documents of other versions stay as they are.
pub(crate) async fn store(shared: &Shared, ids: &[Bson], conn: &mut Conn<'_>) -> Result<()> {
    if conn.is_plan() || are_on_server(&shared.settings.steps) {
        return Stored { shared, ids }.run(conn).await;
    }
    let stored = Stored { shared, ids };
    let (collection, retry) = (&shared.collection, &shared.settings.retry);
    transaction::run(collection, retry, conn, stored, |conn, stored| {
        Box::pin(stored.run(conn))
    })
    .await
}

#[derive(Clone, Copy)]
struct Stored<'a> {
    shared: &'a Shared,
    ids: &'a [Bson],
}

impl Stored<'_> {
    async fn run(self, conn: &mut Conn<'_>) -> Result<()> {
        let settings = &self.shared.settings;
        let steps = &settings.steps;
        let mut version = steps.oldest();
        while let Some(work) = steps.from(version) {
            version = match work {
                Work::Typed(_) => {
                    let end = end_of_typed(steps, version);
                    self.replace(version, end, conn).await?;
                    end
                }
                Work::Stages(stages) => {
                    let mut stages = stages.clone();
                    stages.push(query::set_version(settings, version + 1));
                    let filter = self.of_versions(version..version + 1);
                    let update = Step::update_many(
                        "convert documents on the server",
                        &self.shared.collection,
                        filter,
                        stages,
                    );
                    conn.write(update).await.map_err(|error| of_step(error, version))?;
                    version + 1
                }
            };
        }
        Ok(())
    }

    fn of_versions(self, versions: Range<u32>) -> Document {
        query::guarded(by_ids(self.ids), query::of_versions(&self.shared.settings, versions))
    }

    /// Converts documents by typed steps that follow each other.
    async fn replace(self, from: u32, end: u32, conn: &mut Conn<'_>) -> Result<()> {
        let (settings, collection) = (&self.shared.settings, &self.shared.collection);
        let find = Step::find(
            "read documents to convert",
            collection,
            self.of_versions(from..end),
            FindOptions::default(),
        );
        let found = conn.read(find.up_to(self.ids.len())).await?.documents;
        let mut converted = Vec::with_capacity(found.len());
        for mut document in found {
            let mut version = known_version_of(settings, &document)?;
            while let Some(step) = typed(self.shared, version).filter(|_| version < end) {
                document = convert(&settings.version, step, version, &document)?;
                version += 1;
            }
            converted.push(document);
        }
        check_distinct(ids(&converted).iter())?;
        for together in in_commands(converted, |document| document.as_bytes().len()) {
            let filter = query::guarded(by_ids(&ids(&together)), query::of_versions(settings, from..end));
            let replacement = vec![replace(&together)?];
            let update = Step::update_many("replace converted documents", collection, filter, replacement);
            conn.write(update).await.map_err(refused)?;
        }
        Ok(())
    }
}

fn typed(shared: &Shared, version: u32) -> Option<&Convert> {
    match shared.settings.steps.from(version)? {
        Work::Typed(step) => Some(step),
        Work::Stages(_) => None,
    }
}

/// Converts the error of the command of a step on the server, with the step.
fn of_step(error: CommandError, version: u32) -> Error {
    let text = match duplicate_key(&error) {
        Some(_) => Some((
            ErrorKind::DuplicateKey,
            "a unique index refused a document that a step converted, which stays as it is: let the step return other values",
        )),
        None if update::is_of_stages(&error) => Some((
            ErrorKind::InvalidArgument,
            "the stages of a step do not suit a stored document, which stays as it is: let them handle its values, or correct it; as_driver_error() has the reason",
        )),
        None => None,
    };
    let error = match text {
        Some((kind, text)) => Error::from_driver(kind, text, error),
        None => error.into(),
    };
    error.with_step(version.to_string())
}
