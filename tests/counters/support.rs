//! Shared code of the tests of counters.

use std::time::Duration;

use mongo_patterns::RetryPolicy;
use mongo_patterns::counters::{Counters, CountersBuilder};
use mongo_patterns_testkit::TestDatabase;
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};

/// Returns a builder of counters that insert missing articles.
pub fn builder(db: &TestDatabase) -> CountersBuilder {
    of_existing(db).upsert()
}

pub fn of_existing(db: &TestDatabase) -> CountersBuilder {
    Counters::builder(db.collection::<Document>("articles")).field("views")
}

pub fn views(db: &TestDatabase) -> Counters {
    builder(db).build().unwrap()
}

/// Returns counters whose flushes do not retry.
pub fn impatient(db: &TestDatabase) -> Counters {
    let once = RetryPolicy::default().with_max_attempts(1);
    builder(db).retry(once).build().unwrap()
}

/// Returns counters whose interval does not end in a test.
pub fn slow(db: &TestDatabase) -> Counters {
    builder(db).interval(Duration::from_secs(3600)).build().unwrap()
}

/// Returns the articles, by a client that is not recorded.
pub fn articles(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("articles")
}

pub async fn stored(db: &TestDatabase, id: impl Into<Bson>) -> Option<Document> {
    let id: Bson = id.into();
    articles(db).find_one(doc! { "_id": { "$eq": id } }).await.unwrap()
}

/// Returns the stored count of an article.
pub async fn count(db: &TestDatabase, id: impl Into<Bson>) -> i64 {
    let article = stored(db, id).await.unwrap();
    article.get_i64("views").unwrap()
}
