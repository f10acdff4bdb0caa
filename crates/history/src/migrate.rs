//! The migration of existing collections.
//!
//! # Design
//!
//! ## Why are unequal revisions with one number refused?
//!
//! The manual's recipe stores a revision twice when two updates meet, and then the two are equal. Unequal ones were written
//! by something else, and only you know which of them is the revision.

use mongo_patterns_core::catalog::Others;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::migration::{Step, refuse};
use mongo_patterns_core::{Error, ErrorKind, FieldName, Result};
use mongodb::bson::Bson;

use crate::form::document::is_copy;
use crate::query::migrate as commands;
use crate::repository::Shared;
use crate::results::Migrated;

/// How many documents one command compares or deletes.
const BATCH: usize = 1000;

const OF_REVISIONS: &str =
    "documents have the field in which their revisions have their `_id`: use another name with document_id_field(..)";

/// Migrates existing collections.
pub(crate) async fn existing(shared: &Shared, embedded: Option<&FieldName>, conn: &mut Conn<'_>) -> Result<Migrated> {
    let (current, revisions, settings) = (&shared.current, &shared.revisions, &shared.settings);
    let ensure = shared.ensure();
    ensure.check_deployment(conn).await?;
    ensure.entry.check(conn).await?;
    inspect(shared, embedded.is_some(), conn).await?;
    if let Some(array) = embedded {
        inspect_embedded(shared, array, conn).await?;
    }
    let removed_duplicates = remove_duplicates(shared, conn).await?;
    let ensured = ensure.run(conn).await?;
    let mut migrated = Migrated {
        created_indexes: ensured.created,
        removed_duplicates,
        ..Migrated::default()
    };
    if let Some(array) = embedded {
        let versions = commands::unwind(settings, array, revisions.name());
        let unwind = Step::aggregate("store the embedded versions as revisions", current, versions);
        conn.write(unwind.acknowledged_by(revisions)).await?;
        let (filter, update) = (commands::embedding(array), commands::remove_embedded(settings, array));
        let remove = Step::update_many("remove the embedded versions", current, filter, update);
        migrated.documents += conn.write(remove).await?.map_or(0, |reply| reply.modified);
    }
    let pipeline = commands::unnumbered_with_revisions(settings, revisions.name());
    let strays = Step::aggregate("look for documents that lost their number", current, pipeline);
    if let Some(strays) = conn.read_written(strays).await? {
        let what = "documents have revisions, but no number: set it to that of their newest revision";
        refuse(
            &strays.first()?,
            "n",
            ErrorKind::Corrupt,
            settings.revision.as_str(),
            what,
        )?;
    }
    let (filter, update) = (commands::unnumbered(settings), commands::number(settings));
    if conn.is_plan() {
        // A run does not send it, so the plan does not list it.
        migrated.documents = Conn::new().count_documents(current, filter.clone(), None).await?;
    }
    let update = Step::update_many("number the documents without a revision", current, filter, update);
    migrated.documents += conn.write(update).await?.map_or(0, |reply| reply.modified);
    let copies = commands::record(settings, revisions.name());
    let record = Step::aggregate("store the missing copies of the current documents", current, copies);
    conn.write(record.acknowledged_by(revisions)).await?;
    conn.count_migrated(migrated.documents);
    Ok(migrated)
}

/// Refuses documents that cannot be migrated.
async fn inspect(shared: &Shared, have_versions: bool, conn: &mut Conn<'_>) -> Result<()> {
    let settings = &shared.settings;
    for (collection, are_revisions) in [(&shared.current, false), (&shared.revisions, true)] {
        let pipeline = commands::inspection(settings, are_revisions, have_versions);
        let inspect = Step::aggregate("check the documents", collection, pipeline);
        let counts = conn.read(inspect).await?.first()?;
        let check = |name, field: &FieldName, what| {
            let refused = refuse(&counts, name, ErrorKind::Corrupt, field.as_str(), what);
            refused.map_err(|error| error.of_collection(collection))
        };
        let id = if are_revisions {
            &settings.document_id
        } else {
            &settings.id
        };
        check("no_id", id, "documents have no valid id")?;
        let what = "documents have a number of the revision that is not an integer from 1";
        check("no_number", &settings.revision, what)?;
        check(
            "no_time",
            &settings.time,
            "documents have a time of the revision that is not a date",
        )?;
        let what = "documents have the field, but no number of a revision, so that no repository has written the field, and the next write would overwrite it: use another name with time_field(..), or set the number if it is the time of their revision";
        check("only_time", &settings.time, what)?;
        let what = "documents have the field, but no time of a revision, so that no repository has written the field, and the next write would overwrite it: use another name with revision_field(..), or set the time if it is the number of their revision";
        check("only_number", &settings.revision, what)?;
        let what = "documents have the field that marks a deletion: use another name with deleted_field(..)";
        check("reserved", &settings.deleted, what)?;
        check("of_revisions", &settings.document_id, OF_REVISIONS)?;
    }
    Ok(())
}

async fn inspect_embedded(shared: &Shared, array: &FieldName, conn: &mut Conn<'_>) -> Result<()> {
    let settings = &shared.settings;
    let pipeline = commands::embedded_inspection(settings, array);
    let inspect = Step::aggregate("check the embedded versions", &shared.current, pipeline);
    let counts = conn.read(inspect).await?.first()?;
    let check = |name, what| refuse(&counts, name, ErrorKind::Corrupt, array.as_str(), what);
    let what =
        "documents have a value in the field of the embedded versions that is not an array of documents with a time";
    check("no_array", what)?;
    let what = "documents with embedded versions have a number of the revision";
    check("numbered", what)?;
    check("of_revisions", OF_REVISIONS)
}

/// Deletes all but one of equal revisions with the same number. Returns how many.
async fn remove_duplicates(shared: &Shared, conn: &mut Conn<'_>) -> Result<u64> {
    let (revisions, settings) = (&shared.revisions, &shared.settings);
    let find = Step::aggregate(
        "look for numbers that are stored twice",
        revisions,
        commands::duplicates(settings),
    );
    let mut surplus: Vec<Bson> = Vec::new();
    for row in conn.read(find).await?.decoded()? {
        let Ok(ids) = row.get_array("ids") else { continue };
        let filter = commands::by_ids(ids);
        let read = Step::find(
            "compare the revisions with one number",
            revisions,
            filter,
            mongodb::options::FindOptions::default(),
        );
        let equal = conn.read(read).await?.documents;
        for pair in equal.windows(2) {
            if !is_copy(settings, &Others::default(), &pair[0], &pair[1])? {
                let message = "revisions of a document have the same number and other content, nothing was migrated: see document_id(), and delete or renumber those that are wrong";
                let id = mongo_patterns_core::stored::id_of(&pair[1]);
                return Err(Error::corrupt(id, settings.revision.as_str(), message).of_collection(revisions));
            }
        }
        surplus.extend(ids.iter().skip(1).cloned());
    }
    let mut removed = 0;
    for ids in surplus.chunks(BATCH) {
        let delete = Step::delete_many("delete equal revisions", revisions, commands::by_ids(ids));
        removed += conn
            .write(delete)
            .await?
            .map_or(ids.len() as u64, |reply| reply.deleted);
    }
    Ok(removed)
}
