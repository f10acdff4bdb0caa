//! Errors of pushes that are sent together: each caller gets the outcome of its own element.

use futures::future::join_all;
use mongo_patterns::outlier::{OutlierRepository, Pushed};
use mongo_patterns::{ErrorKind, Result, RetryPolicy};
use mongo_patterns_testkit::{self as testkit, FailPoint};
use mongodb::IndexModel;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::IndexOptions;
use serde::Serialize;

use support::common::{all, end_transactions};
use support::outlier::*;

async fn push_all<D, E>(lists: &OutlierRepository<D, E>, elements: &[E]) -> Vec<Result<Pushed>>
where
    D: Send + Sync,
    E: Serialize + Sync,
{
    join_all(elements.iter().map(|element| lists.push(2, element).into_future())).await
}

fn kinds(results: Vec<Result<Pushed>>) -> Vec<Option<ErrorKind>> {
    let kind = |result: Result<Pushed>| result.err().map(|error| error.kind());
    results.into_iter().map(kind).collect()
}

/// A unique index that is not of the pattern refuses two of the elements.
#[tokio::test]
async fn an_element_that_the_server_refuses_fails_alone() {
    testkit::run(async |db| {
        let books: Books = unsharded(db, builder(db)).await;
        let options = IndexOptions::builder().unique(true).build();
        let index = IndexModel::builder().keys(doc! { "customers_purchased": 1 });
        sales(db).create_index(index.options(options).build()).await.unwrap();
        let of_another = ["user13", "user37"].map(Bson::from);
        let another = doc! { "_id": 1, "title": "", "customers_purchased": of_another };
        sales(db).insert_one(another).await.unwrap();
        let document = doc! { "_id": 2, "title": "", "customers_purchased": ["user99"] };
        sales(db).insert_one(document).await.unwrap();
        let alone = books.push(2, "user13").await.unwrap_err();
        db.recorder().clear();
        let all = users(0..45);
        for (user, result) in all.iter().zip(push_all(&books, &all).await) {
            match user.as_str() {
                "user13" | "user37" => assert_eq!(result.unwrap_err().kind(), alone.kind()),
                _ => assert_eq!(result.unwrap(), Pushed::Inline),
            }
        }
        assert!(db.recorder().round_trips() < 30, "{}", db.recorder().round_trips());
        let mut expected = vec!["user99".to_owned()];
        expected.extend(all.into_iter().filter(|user| user != "user13" && user != "user37"));
        assert_eq!(stored(db, 2).await, expected);
    })
    .await;
}

#[tokio::test]
async fn an_invalid_element_or_id_is_refused_before_it_is_queued() {
    testkit::run(async |db| {
        let things = ready(db, builder::<Document, Bson>(db)).await;
        things.insert(&doc! { "_id": 2 }).await.unwrap();
        db.recorder().clear();
        let large = Bson::String("x".repeat(17 << 20));
        let elements = [Bson::Int32(1), Bson::Undefined, Bson::Int32(2), large, Bson::Int32(3)];
        let expected = [
            None,
            Some(ErrorKind::InvalidArgument),
            None,
            Some(ErrorKind::TooLarge),
            None,
        ];
        assert_eq!(kinds(push_all(&things, &elements).await), expected);
        let error = things.push(Bson::Null, &elements[0]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(error.operation(), Some("push"));
        assert_eq!(db.recorder().round_trips(), 2, "the first alone, and the others");
        let stored: Vec<Bson> = things.elements(2).await.unwrap();
        assert_eq!(stored, [1, 2, 3].map(Bson::Int32));
    })
    .await;
}

/// The document has 12 MiB besides its array.
#[tokio::test]
async fn an_element_that_does_not_fit_into_the_document_fails_alone() {
    testkit::run(async |db| {
        let things = ready(db, builder::<Document, String>(db)).await;
        let main = doc! { "_id": 2, "blurb": "x".repeat(12 << 20) };
        sales(db).insert_one(main).await.unwrap();
        let sizes = [1, 5 << 20, 2, 3, 7 << 20, 3 << 20, 4];
        let elements = sizes.map(|bytes| "x".repeat(bytes));
        let too_large = Some(ErrorKind::TooLarge);
        let expected = [None, too_large, None, None, too_large, None, None];
        assert_eq!(kinds(push_all(&things, &elements).await), expected);
        let stored: Vec<String> = things.elements(2).await.unwrap();
        let stored: Vec<usize> = stored.iter().map(String::len).collect();
        assert_eq!(stored, [1, 2, 3, 3 << 20, 4]);
    })
    .await;
}

#[tokio::test]
async fn an_error_of_the_list_reaches_every_caller_at_once() {
    testkit::run(async |db| {
        let books: Books = builder(db).build().unwrap();
        for result in push_all(&books, &users(0..50)).await {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::NotFound);
        }
        // The first push is alone.
        assert!(db.recorder().round_trips() <= 6, "{:?}", db.recorder().names());

        let flagged = doc! { "_id": 2, "title": "", "customers_purchased": ["user00"], "has_extras": true };
        sales(db).insert_one(flagged).await.unwrap();
        let extra = doc! { "book_id": 2, "seq": 0, "count": 1, "customers_purchased_extra": ["user01"] };
        extra_sales(db).insert_one(extra).await.unwrap();
        db.recorder().clear();
        for result in push_all(&books, &users(2..50)).await {
            let error = result.unwrap_err();
            assert_eq!((error.kind(), error.stored_count()), (ErrorKind::IndexMissing, None));
        }
        assert!(db.recorder().round_trips() <= 6, "{:?}", db.recorder().names());
        books.ensure_indexes().await.unwrap();
        for result in push_all(&books, &users(2..50)).await {
            assert_eq!(result.unwrap(), Pushed::Overflow);
        }
        assert_eq!(stored(db, 2).await, users(0..50));
    })
    .await;
}

/// How the server fails a command, and what is known of its elements.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The connection breaks before the command is executed, also at the driver's retry.
    Broken,
    /// The command is executed, and its reply is an error without a label.
    Executed,
    /// The server refuses the command.
    Refused,
}

/// The first element is pushed alone. The others fill the array, then an overflow document, then open others. Each
/// command fails once.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn each_caller_learns_of_its_element_when_a_command_of_the_batch_fails() {
    testkit::run(async |db| {
        // The faults stay, so an attempt of a transaction fails again.
        let once = RetryPolicy::default().with_max_attempts(2);
        let builder = builder(db).threshold(5).max_overflow_elements(10).retry(once);
        let books: Books = ready(db, builder).await;
        let all = users(0..30);
        let (mut failed, mut partly) = (0, 0);
        for fault in [Fault::Broken, Fault::Executed, Fault::Refused] {
            for command in 0.. {
                clear(db).await;
                let main = doc! { "_id": 2, "title": "", "customers_purchased": &all[..2] };
                sales(db).insert_one(main).await.unwrap();
                let extra = doc! { "book_id": 2, "seq": 0, "count": 1, "customers_purchased_extra": ["other"] };
                extra_sales(db).insert_one(extra).await.unwrap();
                db.recorder().clear();
                let point = match fault {
                    Fault::Broken => FailPoint::on(&["findAndModify", "update"]).close_connection(),
                    Fault::Executed => FailPoint::on(&["findAndModify", "update"]).write_concern_error(64),
                    Fault::Refused => FailPoint::on(&["findAndModify", "insert", "update"]).error_code(96),
                };
                let point = point.skip(command).enable(db).await;
                let results = push_all(&books, &all[2..]).await;
                point.disable().await;
                end_transactions(db).await;
                let context = format!("{fault:?} from command {command} on");
                let stored = stored(db, 2).await;
                let main = sales(db).find_one(doc! { "_id": 2 }).await.unwrap().unwrap();
                let array = main.get_array("customers_purchased").unwrap();
                let is_inline = |user: &String| array.iter().any(|other| other.as_str() == Some(user));
                let errors = results.iter().filter(|result| result.is_err()).count();
                for (user, result) in all[2..].iter().zip(results) {
                    let times = stored.iter().filter(|other| *other == user).count();
                    match result {
                        Ok(Pushed::Inline) => assert!(is_inline(user), "{context}: {user}"),
                        Ok(_) => assert!(!is_inline(user) && times == 1, "{context}: {user}"),
                        Err(error) if error.is_outcome_unknown() => {
                            assert_ne!(error.stored_count(), Some(1), "{context}: {error:?}");
                        }
                        Err(error) => assert_eq!(times, 0, "{context}: {user}: {error:?}"),
                    }
                    assert!(times <= 1, "{context}: {user} is stored {times} times");
                }
                assert_eq!(violations_of_lists(db).await, 0, "{context}");
                failed += usize::from(errors > 0);
                partly += usize::from(errors > 0 && errors < 28);
                if errors == 0 {
                    break;
                }
            }
        }
        assert!(failed >= 6 && partly >= 3, "{failed} failed, {partly} in part");
    })
    .await;
}

/// Arrays beyond their bounds, and wrong counts.
async fn violations_of_lists(db: &testkit::TestDatabase) -> usize {
    let main = sales(db).find_one(doc! {}).await.unwrap().unwrap();
    let over = usize::from(main.get_array("customers_purchased").unwrap().len() > 5);
    let wrong = |document: &&Document| {
        let stored = document.get_array("customers_purchased_extra").unwrap().len();
        stored > 10 || document.get_i32("count").ok() != i32::try_from(stored).ok()
    };
    over + all(&extra_sales(db)).await.iter().filter(wrong).count()
}
