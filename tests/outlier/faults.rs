//! Commands whose reply is lost, and a check that fails after the write. The long form of the table of faults has each
//! command of each call.
//!
//! A client is killed between any two commands of a call: what was acknowledged is there, what is read is right, and what
//! is left over is a flag at most, which verify names and repair clears.

use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns::outlier::{Problem, Pushed};
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::Client;

use support::common::{dropped_commands, end_transactions, quiet};
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

fn books_of(db: &TestDatabase, client: &Client) -> Books {
    builder_in(&client.database(db.database().name()))
        .threshold(5)
        .max_overflow_elements(10)
        .build()
        .unwrap()
}

async fn plant(db: &TestDatabase, elements: usize) {
    clear(db).await;
    let books = books_of(db, db.plain_client());
    books.ensure_indexes().await.unwrap();
    if elements > 0 {
        books.insert(&book(2, elements)).await.unwrap();
    }
}

/// Makes a call whose client disappears after this number of commands. Returns whether it did not come to that.
async fn kill_at(db: &TestDatabase, commands: usize, call: impl Future<Output = ()>) -> bool {
    let block = FailPoint::on(&[]).times(1).block(Duration::from_millis(1));
    let planned = block.plan(db, commands - 1);
    let sent = db.recorder().sent(commands);
    let done = tokio::select! {
        biased;
        () = sent => false,
        () = call => true,
    };
    if !done {
        planned.met(db, Duration::from_secs(2)).await;
    }
    planned.end();
    dropped_commands(db).await;
    quiet(db).await;
    end_transactions(db).await;
    done
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Call {
    Push,
    PushMany,
    Remove,
    Insert,
    Delete,
}

async fn call(books: &Books, call: Call, before: usize) {
    let further = users(before..before + 28);
    match call {
        Call::Push => drop(books.push(2, &further[0]).await.unwrap()),
        Call::PushMany => drop(books.push_many(2, &further).await.unwrap()),
        Call::Remove => drop(books.remove(2, &users(before - 1..before)[0]).await.unwrap()),
        Call::Insert => drop(books.insert(&book(2, 28)).await.unwrap()),
        Call::Delete => drop(books.delete(2).await.unwrap()),
    }
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_client_killed_between_any_two_commands_loses_nothing() {
    testkit::run(async |db| {
        let mut killed = 0;
        for (what, before) in [
            (Call::Push, 5),
            (Call::Push, 15),
            (Call::PushMany, 3),
            (Call::PushMany, 12),
            (Call::Remove, 12),
            (Call::Insert, 0),
            (Call::Delete, 4),
            (Call::Delete, 28),
        ] {
            for commands in 1.. {
                plant(db, before).await;
                db.recorder().clear();
                let books = books_of(db, db.client());
                let done = kill_at(db, commands, call(&books, what, before)).await;
                killed += usize::from(!done);
                check(db, what, before, commands).await;
                if done {
                    break;
                }
            }
        }
        assert!(killed >= 20, "{killed}");
    })
    .await;
}

async fn check(db: &TestDatabase, what: Call, before: usize, commands: usize) {
    let at = format!("{what:?} of {before}, killed at {commands}");
    let books = books_of(db, db.plain_client());
    let read = books.get_full(2).await.unwrap().map(|book| book.customers_purchased);
    let number = read.as_ref().map_or(0, Vec::len);
    assert_eq!(read.clone().unwrap_or_default(), users(0..number), "{at}");
    match what {
        Call::Push | Call::PushMany => assert!(number >= before, "{at}: {number}"),
        Call::Remove => assert!(number == before || number == before - 1, "{at}: {number}"),
        Call::Insert => assert!(number == 0 || number == 28, "{at}: {number}"),
        Call::Delete => assert!(read.is_none() || number == before, "{at}: {number}"),
    }
    for finding in findings(&books).await {
        assert!(matches!(what, Call::Push | Call::PushMany), "{at}: {finding:?}");
        assert_eq!(finding.problem, Problem::FlagWithoutOverflow, "{at}");
    }
    let repaired: Vec<_> = books.repair().stream().try_collect().await.unwrap();
    assert!(repaired.iter().all(|repaired| repaired.unrepaired.is_none()), "{at}");
    assert_eq!(findings(&books).await, [], "{at}");
    let again = books.get_full(2).await.unwrap().map(|book| book.customers_purchased);
    assert_eq!(again, read, "{at}");
    if read.is_none() {
        // nothing conflicts with a new one
        books.insert(&book(2, 28)).await.unwrap();
    }
}
