//! Every operation, failed and dropped at each of its commands: a prefix is stored, and reads are correct.

use mongo_patterns::Error;
use mongo_patterns::outlier::Pushed;
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::doc;

use crate::common::support::{all, end_transactions};
use crate::outlier::support::*;

const COMMANDS: [&str; 6] = [
    "findAndModify",
    "update",
    "insert",
    "delete",
    "find",
    "commitTransaction",
];

#[derive(Clone, Copy, Debug)]
enum Operation {
    Push,
    PushUnique,
    PushMany(usize),
    /// Of the element in the middle.
    Remove,
    Insert,
    Delete,
}

/// Each operation on a book with this number of purchases.
const CASES: [(Operation, usize); 16] = [
    (Operation::Push, 3),
    (Operation::Push, 5),
    (Operation::Push, 8),
    (Operation::Push, 15),
    (Operation::PushUnique, 3),
    (Operation::PushUnique, 5),
    (Operation::PushUnique, 8),
    (Operation::PushUnique, 15),
    (Operation::PushMany(30), 0),
    (Operation::PushMany(30), 8),
    (Operation::PushMany(2), 4),
    (Operation::Remove, 4),
    (Operation::Remove, 30),
    (Operation::Insert, 40),
    (Operation::Delete, 3),
    (Operation::Delete, 40),
];

async fn repository(db: &TestDatabase, (operation, _): (Operation, usize)) -> Books {
    extra_sales(db).drop().await.unwrap();
    let repository = builder(db).threshold(5).max_overflow_elements(10);
    match operation {
        Operation::PushUnique => ready(db, repository.unique_elements()).await,
        _ => ready(db, repository).await,
    }
}

/// Stores only a book with this number of purchases, and clears the recorder.
async fn fill(db: &TestDatabase, books: &Books, (operation, before): (Operation, usize)) {
    sales(db).delete_many(doc! {}).await.unwrap();
    extra_sales(db).delete_many(doc! {}).await.unwrap();
    if !matches!(operation, Operation::Insert) {
        books.insert(&book(1, before)).await.unwrap();
    }
    db.recorder().clear();
}

async fn run(books: &Books, (operation, before): (Operation, usize)) -> Result<(), Error> {
    let next = format!("user{before:02}");
    match operation {
        Operation::Push => books.push(1, &next).await.map(drop),
        Operation::PushUnique => books.push_unique(1, &next).await.map(drop),
        Operation::PushMany(n) => books.push_many(1, &users(before..before + n)).await.map(drop),
        Operation::Remove => books.remove(1, &users(0..before)[before / 2]).await.map(drop),
        Operation::Insert => books.insert(&book(1, before)).await.map(drop),
        Operation::Delete => books.delete(1).await.map(drop),
    }
}

/// What the list is when the operation is done, and what it may be when it is not, shortest last.
fn outcomes((operation, before): (Operation, usize)) -> Vec<Option<Vec<String>>> {
    let all = users(0..before);
    let more = |n: usize| (0..=n).rev().map(|n| Some(users(0..before + n))).collect();
    match operation {
        Operation::Push | Operation::PushUnique => more(1),
        Operation::PushMany(n) => more(n),
        Operation::Remove => {
            let mut left = all.clone();
            left.remove(before / 2);
            vec![Some(left), Some(all)]
        }
        Operation::Insert => vec![Some(all), None],
        Operation::Delete => vec![None, Some(all)],
    }
}

/// Checks the stored data, and that the operation, or a similar one, continues from there.
async fn check(db: &TestDatabase, books: &Books, case: (Operation, usize), context: &str) {
    let full = books.get_full(1).await.unwrap().map(|book| book.customers_purchased);
    let allowed = outcomes(case);
    assert!(allowed.contains(&full), "{context}: {full:?}");
    match case.0 {
        Operation::Push | Operation::PushMany(_) => {
            books.push_many(1, &users(500..520)).await.unwrap();
            let expected = [full.unwrap(), users(500..520)].concat();
            assert_eq!(books.elements(1).await.unwrap(), expected, "{context}");
        }
        Operation::Insert if full.is_some() => {}
        _ => {
            run(books, case).await.unwrap();
            let full = books.get_full(1).await.unwrap().map(|book| book.customers_purchased);
            assert_eq!(full, allowed[0], "{context}");
        }
    }
    if !matches!(case.0, Operation::Remove) {
        assert_eq!(violations(db, 5, 10).await, Vec::<String>::new(), "{context}");
    }
    if matches!(case.0, Operation::Delete) {
        assert!(all(&extra_sales(db)).await.is_empty(), "{context}");
    }
}

/// Every third case; the other test runs all.
#[tokio::test]
async fn what_fails_at_a_command_of_some_operations_stores_a_prefix() {
    let cases = CASES.into_iter().step_by(3);
    let failed = fail_at_each_command(cases.flat_map(|case| [(case, true), (case, false)])).await;
    assert!(failed >= 10, "{failed}");
}

#[tokio::test]
#[ignore = "long: cargo xtask ci --full"]
async fn what_fails_at_any_command_stores_a_prefix() {
    let failed = fail_at_each_command(CASES.into_iter().flat_map(|case| [(case, true), (case, false)])).await;
    assert!(failed >= 30, "{failed}");
}

/// Returns how many commands failed. The flag of a case is whether its connection breaks.
async fn fail_at_each_command(cases: impl Iterator<Item = ((Operation, usize), bool)>) -> u32 {
    let mut failed = 0;
    testkit::run(async |db| {
        for (case, broken) in cases {
            let books = repository(db, case).await;
            for skip in 0.. {
                fill(db, &books, case).await;
                // A transaction is tried again on a broken connection for as long as the retry policy says.
                let fault = match broken {
                    true => FailPoint::on(&["findAndModify"]).close_connection(),
                    false => FailPoint::on(&COMMANDS).error_code(96),
                };
                let fault = fault.skip(skip);
                let fault = fault.enable(db).await;
                let outcome = run(&books, case).await;
                fault.disable().await;
                end_transactions(db).await;
                let context = format!("{case:?} failed after {skip}: {outcome:?}");
                if let (Err(error), Operation::PushMany(_)) = (&outcome, case.0) {
                    let stored = books.count(1).await.unwrap().total() - case.1 as u64;
                    assert_eq!(error.stored_count(), Some(stored), "{context}");
                }
                check(db, &books, case, &context).await;
                failed += u32::from(outcome.is_err());
                if outcome.is_ok() {
                    break;
                }
            }
        }
    })
    .await;
    failed
}

/// When the answer is lost, the driver sends the command again, and the server answers with the whole document as it was,
/// without the projection of the command.
#[tokio::test]
async fn the_reply_to_a_retried_command_is_understood() {
    testkit::run(async |db| {
        let done_and_gone = || FailPoint::on(&["findAndModify"]).times(1).write_concern_error(91);
        let books: Books = ready(db, builder(db).threshold(5).max_overflow_elements(10).unique_elements()).await;
        let plain = again(db, 5, 10);
        books.insert(&book(1, 5)).await.unwrap();
        let mut expected = users(0..5);
        for user in users(5..8) {
            // the first one makes an outlier
            let fault = done_and_gone().enable(db).await;
            assert_eq!(plain.push(1, &user).await.unwrap(), Pushed::Overflow);
            fault.disable().await;
            expected.push(user);
            assert_eq!(stored(db, 1).await, expected);
        }
        let fault = done_and_gone().enable(db).await;
        plain.push_many(1, &users(8..10)).await.unwrap();
        fault.disable().await;
        expected.extend(users(8..10));
        assert_eq!(stored(db, 1).await, expected);
        // in the book, and in an overflow document, where the second command is the retried one
        for (user, skip) in [("user03", 0), ("user06", 0), ("user06", 1)] {
            db.recorder().clear();
            let fault = FailPoint::on(&[]).times(1).write_concern_error(91).plan(db, skip);
            let pushed = books.push_unique(1, &user.to_owned()).await.unwrap();
            assert!(fault.is_made());
            fault.end();
            assert_eq!(pushed, Pushed::AlreadyThere, "{user}");
            assert_eq!(stored(db, 1).await, expected);
        }
        for user in ["user03", "user06"] {
            let fault = done_and_gone().enable(db).await;
            assert!(plain.remove(1, &user.to_owned()).await.unwrap().found, "{user}");
            fault.disable().await;
            expected.retain(|left| left != user);
            assert_eq!(stored(db, 1).await, expected);
        }
        assert_eq!(violations(db, 5, 10).await, Vec::<String>::new());
    })
    .await;
}

/// The element is stored, and only the look for an equal one fails.
#[tokio::test]
async fn a_unique_push_whose_last_check_fails_reports_that_it_is_stored() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(5).max_overflow_elements(10).unique_elements()).await;
        books.insert(&book(1, 8)).await.unwrap();
        // Another process does not know the outlier.
        let builder = builder(db).threshold(5).max_overflow_elements(10).unique_elements();
        let books: Books = builder.build().unwrap();
        let user = "user08".to_owned();
        let fault = FailPoint::on(&["find"]).error_code(96).enable(db).await;
        let error = books.push_unique(1, &user).await.unwrap_err();
        fault.disable().await;
        assert_eq!(error.stored_count(), Some(1), "{error:?}");
        assert_eq!(stored(db, 1).await, users(0..9));
        assert_eq!(books.push_unique(1, &user).await.unwrap(), Pushed::AlreadyThere);
    })
    .await;
}
