//! The followers of all patterns.
//!
//! [`Follows`] describes one: its documents, the programs that write them, and the call. What all followers promise is tested
//! here. What a follower makes of a change is tested by its pattern.

mod interrupted;
mod model;
mod patterns;
mod refused;

use mongo_patterns_testkit::TestDatabase;

use super::each;
use model::Follows;
use patterns::{ORDERS, POLICIES, REVIEWS};

/// All followers.
const ALL: [&Follows; 3] = [&REVIEWS, &POLICIES, &ORDERS];

/// Runs a test for each follower, with a database of its own.
async fn for_each(test: impl AsyncFn(&TestDatabase, &Follows) + Sync) {
    each(ALL, |follower| follower.name, test).await;
}
