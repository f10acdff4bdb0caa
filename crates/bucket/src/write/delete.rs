//! Deletes the buckets of a key.
//!
//! # Design
//!
//! ## Why does a deletion end with a read?
//!
//! `deleteMany` waits for a transaction that writes a bucket, and then skips the bucket if the transaction inserted it again
//! with the same `_id`. So a `deleteMany` that matched nothing does not prove that no bucket is left.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::{Deleted, EncodedKey, Error, ErrorKind, Result};
use mongodb::options::FindOneOptions;

use crate::query::buckets::{buckets_to_delete, only_id};
use crate::repository::Shared;

/// Deletes the buckets of a key, until it has none.
pub(crate) async fn delete(shared: &Shared, key: &EncodedKey, conn: &mut Conn<'_>) -> Result<Deleted> {
    let in_transaction = conn.is_in_transaction();
    let mut attempts = shared.settings.retry.start();
    let mut documents = 0;
    let mut passes = 0_u32;
    loop {
        let filter = buckets_to_delete(&shared.settings, key);
        let deletion = conn.delete_many(&shared.collection, filter, None).await?;
        passes += 1;
        documents += deletion.deleted_count;
        if in_transaction || !has_buckets(shared, key, conn).await? {
            return Ok(Deleted::new(documents));
        }
        // The second pass is no retry, so that a policy of one attempt allows it.
        if passes > 1 && !attempts.wait().await {
            return Err(attempts.tried(Error::new(
                ErrorKind::Contention,
                "other writers append to the key, so it has buckets again: stop them, and delete the key again",
            )));
        }
    }
}

async fn has_buckets(shared: &Shared, key: &EncodedKey, conn: &mut Conn<'_>) -> Result<bool> {
    let options = FindOneOptions::builder().projection(only_id()).build();
    let filter = buckets_to_delete(&shared.settings, key);
    let bucket = conn.find_one(&shared.collection, filter, options).await?;
    Ok(bucket.is_some())
}
