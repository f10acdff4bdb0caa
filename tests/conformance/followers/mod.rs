//! The followers of all patterns.
//!
//! [`Follows`] describes one: its documents, the programs that write them, and the call. What all followers promise is tested
//! here. What a follower makes of a change is tested by its pattern.

mod history;
mod interrupted;
mod model;
mod reference;
mod refused;
mod subset;

use mongo_patterns_testkit::TestDatabase;

use super::each;
use model::Follows;

/// All followers.
const ALL: [&dyn Follows; 3] = [&subset::Reviews, &history::Policies, &reference::Orders];

/// Runs a test for each follower, with a database of its own.
async fn for_each(test: impl AsyncFn(&TestDatabase, &dyn Follows) + Sync) {
    each(ALL, Follows::name, test).await;
}
