//! The migrations of all patterns.
//!
//! [`Migrates`] describes one migration: the documents before it, and the call. What all migrations promise is tested here.
//! What a migration makes of the documents is tested by its pattern.

mod archive;
mod interrupted;
mod invalid;
mod late_list;
mod lost_cursors;
mod model;
mod options;
mod patterns;
mod plans;
mod running;
mod two_forms;

use mongo_patterns_testkit::TestDatabase;

use super::each;
use archive::ARCHIVES;
use model::{Migrates, Selected};
use patterns::PATTERNS;

/// Runs a test for each migration, with a database of its own.
async fn for_each(test: impl AsyncFn(&TestDatabase, &Migrates) + Sync) {
    let all = PATTERNS.into_iter().chain(ARCHIVES);
    each(all, |migration| migration.name, test).await;
}

/// Runs a test for each migration that has the options `filter` and `skip_invalid`.
async fn for_each_selected(test: impl AsyncFn(&TestDatabase, &Migrates, Selected) + Sync) {
    let selecting = PATTERNS
        .into_iter()
        .filter(|migration| (migration.selected)().is_some());
    each(
        selecting,
        |migration| migration.name,
        async |db, migration: &'static Migrates| {
            test(db, migration, (migration.selected)().unwrap()).await;
        },
    )
    .await;
}
