//! Existing documents by the manual's recipe, whose id is their `_id`.

use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{DateTime, doc};

use crate::history::*;

pub fn time(millis: i64) -> DateTime {
    DateTime::from_millis(millis)
}

/// Stores policies with the copies that a program leaves that keeps their `_id` in this field: policy 1 has a copy twice,
/// policy 2 lacks one, and policy 3 has no history.
pub async fn by_the_recipe(db: &TestDatabase, field: &str) {
    let at = |id: i32, revision: i32| {
        let mut policy = policy_by_id(id);
        policy.extend(doc! { "revision": revision, "dateSet": time(i64::from(revision) * 1000) });
        policy
    };
    let copy = |id: i32, revision: i32| {
        let mut copy = without_id(&at(id, revision));
        copy.insert(field, id);
        copy
    };
    let now = [at(1, 2), at(2, 2), policy_by_id(3)];
    current(db).insert_many(now).await.unwrap();
    let copies = [copy(1, 1), copy(1, 2), copy(1, 2), copy(2, 1)];
    revisions(db).insert_many(copies).await.unwrap();
}
