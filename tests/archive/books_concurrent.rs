//! Outliers that move beside writers.

use std::sync::Mutex;

use futures::future::try_join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::doc;

use super::books::*;
use super::sales::beside_writers;
use support::archive::books::*;

/// Pushes of two processes, to few lists: each acknowledged element is once in its list, which is whole in one of the two.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "slow: cargo xtask ci"]
async fn no_push_is_lost_beside_runs_and_restores() {
    testkit::run(no_push_is_lost).await;
}

async fn no_push_is_lost(db: &TestDatabase) {
    const BOOKS: i32 = 8;
    let ([hot, cold], archive) = shop(db).await;
    // Not recorded: their commands would allow further ones.
    let plain = db.plain_client().database(db.database().name());
    let processes = [(); 2].map(|()| books_in(&plain, HOT));
    for id in 0..BOOKS {
        hot.insert(&book(id, 0, 1)).await.unwrap();
    }
    let acknowledged = Mutex::new(Vec::new());
    let push = async |id: i32, n: i32| {
        let element = format!("writer {n}");
        let pushed = processes[usize::from(n % 2 == 0)].push(id, &element).await;
        match &pushed {
            Ok(_) => acknowledged.lock().unwrap().push((id, element)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}"),
        }
        pushed.is_ok()
    };
    let round = async || {
        let run = || archive.run().chunk(3).into_future();
        try_join_all([run(), run()]).await.unwrap();
        archive.restore_many(doc! { "_id": { "$mod": [2, 0] } }).await.unwrap();
        archive.restore_many(doc! {}).chunk(2).await.unwrap();
    };
    beside_writers(db, (BOOKS, 60), push, round).await;
    archive.run().await.unwrap();
    assert_whole(&[hot, cold.clone()], &archive).await;
    archive.restore_many(doc! {}).await.unwrap();
    let [hot, _] = processes;
    let mut acknowledged = acknowledged.into_inner().unwrap();
    for id in 0..BOOKS {
        let stored: Vec<String> = hot.elements(id).await.unwrap();
        let mut stored: Vec<_> = stored.into_iter().filter(|one| one.starts_with("writer")).collect();
        let of_book = acknowledged.extract_if(.., |(book, _)| *book == id);
        let mut expected: Vec<_> = of_book.map(|(_, element)| element).collect();
        stored.sort_unstable();
        expected.sort_unstable();
        assert_eq!(stored, expected, "{id}");
    }
    assert_whole(&[hot, cold], &archive).await;
}
