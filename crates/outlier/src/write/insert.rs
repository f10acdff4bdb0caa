//! Inserts a new document: as it is, or divided, in a transaction.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::duplicate_key;
use mongo_patterns_core::stored::id_of;
use mongo_patterns_core::{Error, ErrorKind, Result, measure, transaction};
use mongodb::bson::Bson;

use crate::form::overflow::new_documents;
use crate::form::split::Split;
use crate::repository::Shared;

pub(crate) async fn insert(shared: &Shared, split: &Split, conn: &mut Conn<'_>) -> Result<()> {
    if split.rest.is_empty() {
        return insert_main(shared, split, conn).await;
    }
    shared.check_indexes().await?;
    let has_own_transaction = !conn.is_in_transaction();
    let in_transaction = transaction::run(
        &shared.main,
        &shared.settings.retry,
        conn,
        (shared, split),
        |conn, (shared, split)| {
            Box::pin(async move {
                insert_main(shared, split, conn).await?;
                insert_overflow(shared, split, conn).await
            })
        },
    );
    let (newest, opened) = in_transaction.await?;
    measure::spilled(split.rest.len());
    measure::overflow_documents(opened);
    if has_own_transaction {
        shared.remember_outlier(&split.id, newest);
    }
    Ok(())
}

async fn insert_main(shared: &Shared, split: &Split, conn: &mut Conn<'_>) -> Result<()> {
    let inserted = conn.insert_one(&shared.main, split.main.clone(), None).await;
    let Err(error) = inserted else { return Ok(()) };
    Err(match duplicate_key(&error) {
        Some(duplicate) if duplicate.index.as_deref() == Some("_id_") => Error::from_driver(
            ErrorKind::AlreadyExists,
            "a document with this `_id` exists, nothing was stored: push to it, or insert with another `_id`",
            error,
        ),
        Some(_) => Error::from_driver(
            ErrorKind::DuplicateKey,
            "a unique index of your own refused the document, nothing was stored: change the document",
            error,
        ),
        None => error.into(),
    })
}

/// Inserts the overflow documents. Returns the `_id` of the last one, and their number.
async fn insert_overflow(shared: &Shared, split: &Split, conn: &mut Conn<'_>) -> Result<(Bson, usize)> {
    let (mut rest, mut seq, mut last) = (split.rest.as_slice(), 0, Bson::Null);
    let mut opened = 0;
    while !rest.is_empty() {
        let (documents, counts) = new_documents(&shared.settings, &split.id, seq, rest)?;
        let number = documents.len();
        last = documents.last().map_or(Bson::Null, |document| id_of(document));
        let inserted = conn.insert_many(&shared.overflow, documents, None).await;
        if let Err(error) = inserted {
            return Err(match duplicate_key(&error) {
                Some(_) => orphans(),
                None => error.into(),
            });
        }
        rest = &rest[counts.iter().sum::<usize>()..];
        seq += i32::try_from(number).unwrap_or(i32::MAX);
        opened += number;
    }
    Ok((last, opened))
}

fn orphans() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "this `_id` has overflow documents without a main document, nothing was stored: call repair()",
    )
}
