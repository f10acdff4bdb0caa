//! The migrations of all patterns.
//!
//! [`Migrates`] describes one migration: the documents before it, and the call. What all migrations promise is tested here.
//! What a migration makes of the documents is tested by its pattern.

mod archive;
mod bucket;
mod embedded;
mod history;
mod interrupted;
mod invalid;
mod items;
mod late_list;
mod model;
mod options;
mod outlier;
mod plans;
mod reference;
mod running;
mod schema;
mod subset;

use mongo_patterns_testkit::TestDatabase;

use super::each;
use model::Migrates;

/// All migrations.
const ALL: [&dyn Migrates; 30] = [
    &bucket::FromFlat,
    &bucket::ToFlat,
    &bucket::PageSize,
    &outlier::Existing,
    &subset::FromEmbedded,
    &subset::Existing,
    &subset::Layout,
    &embedded::FromReferences,
    &embedded::ToReferences,
    &history::Existing { by_id: false },
    &history::Existing { by_id: true },
    &history::Intervals,
    &reference::FromReferences,
    &reference::FromForms,
    &reference::ByKey,
    &reference::ToReferences,
    &schema::Versions,
    &archive::Run,
    &archive::RunElsewhere,
    &archive::RunRelated,
    &archive::Restore,
    &archive::RestoreElsewhere,
    &archive::Delete,
    &archive::Empty,
    &archive::RunFiles,
    &archive::DeleteFiles,
    &items::Trades,
    &items::Books,
    &items::Patrons,
    &items::Products,
];

/// Runs a test for each migration, with a database of its own.
async fn for_each(test: impl AsyncFn(&TestDatabase, &dyn Migrates) + Sync) {
    each(ALL, Migrates::name, test).await;
}
