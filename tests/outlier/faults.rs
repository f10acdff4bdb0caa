//! Commands whose reply is lost, and a check that fails after the write. The table of faults has each command of each call.

use mongo_patterns::outlier::Pushed;
use mongo_patterns_testkit::{self as testkit, FailPoint};

use support::outlier::*;

/// When the answer is lost, the driver sends the command again, and the server answers with the whole document as it was,
/// without the projection of the command.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
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
