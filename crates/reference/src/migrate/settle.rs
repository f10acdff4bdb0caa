//! What follows the second read of the sources of a chunk.

use mongo_patterns_core::Result;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::CommandError;
use mongodb::bson::Bson;

use crate::query::CopyUpdate;
use crate::read::find_sources;
use crate::repository::Shared;
use crate::write::settle::unmark;
use crate::write::sweep::{sweep, update_copies};

/// Makes the copies of some sources current, after the copies of a chunk were written: updates older copies, and stops
/// deletions of the sources. Marks the copies in the chunk whose source was deleted.
pub(super) async fn settle(shared: &Shared, chunk: &[Bson], ids: &[Bson]) -> Result<()> {
    let mut attempts = shared.settings.retry.start();
    loop {
        let sources = find_sources(shared, ids, &mut Conn::new()).await?;
        let mut is_done = true;
        for source in sources.iter() {
            is_done &= unmark(shared, source, &mut Conn::new()).await?;
        }
        for id in ids {
            match sources.get(id) {
                Some(source) => drop(sweep(shared, source, &mut Conn::new()).await?),
                // It can have lost its mark to a new deletion, which is awaited.
                None if is_done => mark_deleted(shared, chunk, id).await?,
                None => {}
            }
        }
        if is_done {
            return Ok(());
        }
        attempts.next(CommandError::custom("a source is being deleted")).await?;
    }
}

async fn mark_deleted(shared: &Shared, chunk: &[Bson], source: &Bson) -> Result<()> {
    for field in shared.settings.own() {
        let update = CopyUpdate::mark_deleted(field, source).of_documents(chunk);
        update_copies(shared, field, &update, &mut Conn::new()).await?;
    }
    Ok(())
}
