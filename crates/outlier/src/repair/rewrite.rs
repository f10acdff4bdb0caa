//! Rewrites a list in a transaction. Everything that moves elements between its documents uses this.
//!
//! # Design
//!
//! ## How does a rewrite coexist with pushes of other processes?
//!
//! A push can be between two of its commands at any moment. It opens overflow documents in one transaction with the flag, by
//! a write that conflicts with a rewrite, so overflow documents always have a flag. Whatever the push read before:
//!
//! - It looks for the newest overflow document. If the rewrite deleted all, it opens a new one.
//! - It found the newest overflow document full, and opens the position after it. The rewrite [claims](Fix::claim) that
//!   position: if both happen at the same moment, one waits or runs again. If the push comes later, and the rewrite deleted
//!   documents, positions between are empty. No element is lost, and the next refresh closes the gap.
//! - It knows an outlier, and has not read the main document. It stores its element in an overflow document that the rewrite
//!   has not deleted, or finds none.
//!
//! Another program may open overflow documents without the flag. So a call that clears the flag looks for overflow documents
//! once more.
//!
//! ## Why do overflow documents get new ids?
//!
//! A unique push reads the array and then writes an overflow document. If an equal element joins the array in between, it is
//! stored twice. So a rewrite that moves unique elements to the array gives new `_id`s to the overflow documents. The push
//! finds the new `_id`, and reads the array again.
//!
//! ## Why does a second attempt lock documents first?
//!
//! A rewrite that reads first conflicts with every push in between, and may never succeed. Pushes to an outlier write its
//! newest overflow document, and not its main document. So a second attempt locks both.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::lost_race;
use mongo_patterns_core::migration::Step;
use mongo_patterns_core::stored::id_of;
use mongo_patterns_core::transaction::{self, lock_documents};
use mongo_patterns_core::{Error, ErrorKind, PlannedCommand, Result};
use mongodb::bson::{Bson, RawBson, doc};
use mongodb::options::{FindOneAndUpdateOptions, FindOneOptions};

use crate::form::overflow::new_empty;
use crate::query;
use crate::read::find;
use crate::repair::check::check;
use crate::repair::fix::{Fix, Stored, fix};
use crate::repair::scan::summary_in;
use crate::repository::Shared;

/// The rewrite of one list.
struct Rewrite<'a> {
    shared: &'a Shared,
    id: &'a Bson,
    delete_orphans: bool,
    /// Whether an earlier attempt met other writers.
    is_retry: bool,
}

/// Rewrites a list, or nothing if all elements are in place.
pub(crate) async fn rewrite(shared: &Shared, id: &Bson, delete_orphans: bool, conn: &mut Conn<'_>) -> Result<Fix> {
    let has_own_transaction = !conn.is_in_transaction();
    let fix = transaction::run(
        &shared.main,
        &shared.settings.retry,
        conn,
        Rewrite::new(shared, id, delete_orphans),
        |conn, rewrite| Box::pin(rewrite.attempt(conn)),
    )
    .await?;
    if has_own_transaction && fix.clears_flag {
        flag_if_overflow(&mut Conn::new(), shared, id).await?;
    }
    Ok(fix)
}

/// Returns the fix that a rewrite would make, without a transaction.
pub(crate) async fn dry_run(shared: &Shared, id: &Bson, delete_orphans: bool) -> Result<Fix> {
    Rewrite::new(shared, id, delete_orphans).read(&mut Conn::new()).await
}

/// Returns what a rewrite would change, and its commands.
pub(crate) async fn plan(shared: &Shared, id: &Bson) -> Result<(Fix, Vec<PlannedCommand>)> {
    let mut conn = Conn::plan();
    let fix = Rewrite::new(shared, id, false).write(&mut conn).await?;
    let mut commands = in_transaction(conn.into_commands(), !fix.is_empty());
    if fix.clears_flag {
        let mut conn = Conn::plan();
        flag_if_overflow(&mut conn, shared, id).await?;
        commands.append(&mut conn.into_commands());
    }
    Ok((fix, commands))
}

/// Adds what makes the commands one transaction, and its end.
fn in_transaction(mut commands: Vec<PlannedCommand>, writes: bool) -> Vec<PlannedCommand> {
    for (number, planned) in commands.iter_mut().enumerate() {
        planned.command.remove("readConcern");
        if number == 0 {
            planned.command.insert("readConcern", doc! { "level": "snapshot" });
            planned.command.insert("startTransaction", true);
        }
        planned.command.insert("autocommit", false);
    }
    let commit = doc! { "commitTransaction": 1, "autocommit": false };
    let commit = match writes {
        true => PlannedCommand::write("commit the transaction", commit),
        false => PlannedCommand::read("end the transaction", commit),
    };
    commands.push(commit.on_admin());
    commands
}

/// Sets the flag if there are overflow documents.
pub(crate) async fn flag_if_overflow(conn: &mut Conn<'_>, shared: &Shared, id: &Bson) -> Result<()> {
    let (main, overflow, settings) = shared.parts();
    let options = FindOneOptions::builder().projection(query::id_only()).build();
    let filter = query::overflow_of(settings, id);
    let read = Step::find_one("look for overflow documents again", overflow, filter, options);
    if conn
        .read_written(read)
        .await?
        .is_some_and(|reply| !reply.documents.is_empty())
    {
        let flag = query::set_flag(settings);
        conn.write(Step::update_one("set the flag", main, query::by_id(id), flag))
            .await?;
    }
    Ok(())
}

impl<'a> Rewrite<'a> {
    fn new(shared: &'a Shared, id: &'a Bson, delete_orphans: bool) -> Self {
        Self {
            shared,
            id,
            delete_orphans,
            is_retry: false,
        }
    }

    /// Runs in a transaction.
    async fn attempt(&mut self, conn: &mut Conn<'_>) -> Result<Fix> {
        if self.is_retry {
            self.lock_newest(conn).await?;
            lock_documents(conn, &self.shared.main, &query::by_id(self.id)).await?;
        }
        self.is_retry = true;
        self.write(conn).await
    }

    /// Reads the list, and returns what must be changed.
    async fn read(&self, conn: &mut Conn<'_>) -> Result<Fix> {
        let (main, overflow, settings) = self.shared.parts();
        let parts = Some(query::main_parts(settings));
        let read = find("read the main document", main, query::by_id(self.id), parts);
        let main = conn.read(read).await?.documents.pop();
        let filter = query::overflow_of(settings, self.id);
        let read = find("read its overflow documents", overflow, filter, None);
        let overflow = conn.read(read).await?.documents;
        fix(settings, self.id, Stored { main, overflow }, self.delete_orphans)
    }

    /// Reads the list and changes it, as steps of a transaction or of its plan.
    async fn write(&self, conn: &mut Conn<'_>) -> Result<Fix> {
        let Shared { main, overflow, .. } = self.shared;
        let fix = self.read(conn).await?;
        if fix.is_empty() {
            return Ok(fix);
        }
        let by_id = query::by_id(self.id);
        if !fix.main.is_empty() {
            let update = query::set_main(fix.main.clone()).to_vec();
            conn.write(Step::update_one("write the main document", main, by_id, update))
                .await?;
        } else if fix.has_main {
            // Otherwise the main document could be deleted at the same moment.
            lock_documents(conn, main, &by_id).await?;
        }
        if let Some(position) = fix.claim {
            self.claim(conn, position).await?;
        }
        fix.changes.apply(conn, overflow).await?;
        self.check(conn, &fix).await?;
        Ok(fix)
    }

    /// Locks the newest overflow document, so that pushes wait for the transaction.
    async fn lock_newest(&self, conn: &mut Conn<'_>) -> Result<()> {
        let Shared { overflow, settings, .. } = self.shared;
        let [lock, unlock] = query::lock_and_unlock();
        let options = FindOneAndUpdateOptions::builder()
            .sort(query::newest_first(settings))
            .projection(query::id_only())
            .build();
        let filter = query::overflow_of(settings, self.id);
        let newest = conn.find_one_and_update(overflow, filter, lock, options).await?;
        if let Some(newest) = newest {
            let filter = query::overflow_one(settings, self.id, &id_of(&newest));
            conn.update_one(overflow, filter, unlock, None).await?;
        }
        Ok(())
    }

    /// Inserts an overflow document and deletes it. A push that opens this position at the same moment conflicts.
    async fn claim(&self, conn: &mut Conn<'_>, position: i64) -> Result<()> {
        let Shared { overflow, settings, .. } = self.shared;
        let claim = new_empty(settings, self.id, RawBson::Int64(position))?;
        let filter = query::claimed(settings, self.id, id_of(&claim));
        let insert = Step::insert_many("claim the position after its overflow documents", overflow, vec![claim]);
        conn.write(insert).await.map_err(lost_race)?;
        conn.write(Step::delete_one("give the position back", overflow, filter))
            .await?;
        Ok(())
    }

    /// Checks the result before the transaction commits. `None` in a plan.
    async fn check(&self, conn: &mut Conn<'_>, fix: &Fix) -> Result<()> {
        let Some(summary) = summary_in(conn, self.shared, self.id).await? else {
            return Ok(());
        };
        let is_right = match fix.has_main {
            true => {
                summary.elements() == fix.inline + fix.overflow && check(&self.shared.settings, &summary).is_empty()
            }
            false => summary.overflow.is_empty(),
        };
        if is_right {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Corrupt,
            "the check of a rewritten document failed, nothing of it was changed: this is a bug of mongo-patterns, report it",
        ))
    }
}
