//! Existing documents by the manual's recipe.

use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{DateTime, Document, doc};

use crate::history::*;

/// Returns a policy at a revision, as the manual stores it.
pub fn at_revision(id: i32, revision: i32) -> Document {
    let mut policy = policy(id);
    let items: Vec<String> = (2..=revision).map(|n| n.to_string()).collect();
    policy.insert("itemsInsured", items);
    policy.extend(doc! { "revision": revision, "dateSet": DateTime::from_millis(i64::from(revision) * 1000) });
    policy
}

/// Stores what the manual's recipe leaves: policy 1 is sound, policy 2 lacks revision 3 and has revision 2 twice, policy 3
/// lacks the copy of its current revision, and policy 4 has no history.
pub async fn by_the_recipe(db: &TestDatabase) -> Policies {
    let copies =
        [(1, 1), (1, 2), (2, 1), (2, 2), (2, 2), (2, 4), (3, 1)].map(|(id, revision)| at_revision(id, revision));
    revisions(db).insert_many(copies).await.unwrap();
    let mut now = [(1, 2), (2, 4), (3, 2)]
        .map(|(id, revision)| at_revision(id, revision))
        .to_vec();
    now.push(policy(4));
    current(db).insert_many(now).await.unwrap();
    builder(db.database()).build().unwrap()
}
