//! Replies of servers and routers, and the errors that they become. Replies of routers and of newer servers are written
//! after their sources.

use mongodb::bson::{Document, deserialize_from_document, doc};
use mongodb::error::{Error as DriverError, ErrorKind as DriverKind, WriteFailure};

use super::command::{Command, CommandError};
use super::{Error, ErrorKind, duplicate_key, is_bad_hint, lost_race};

const ALL: [Command; 3] = [Command::Read, Command::WriteOne, Command::WriteMany];
const WRITES: [Command; 2] = [Command::WriteOne, Command::WriteMany];

/// What a caller can do after an error.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meaning {
    Transient,
    Unknown,
    Refused,
}
use Meaning::{Refused, Transient, Unknown};

/// The reply to a command that failed as a whole.
fn failed(code: i32, message: &str) -> DriverError {
    let reply = doc! { "ok": 0, "code": code, "codeName": "Name", "errmsg": message };
    DriverKind::Command(deserialize_from_document(reply).unwrap()).into()
}

/// The reply to a write with one failed statement.
fn write_failed(code: i32, message: &str) -> DriverError {
    let reply = doc! { "index": 0, "code": code, "errmsg": message };
    DriverKind::Write(WriteFailure::WriteError(deserialize_from_document(reply).unwrap())).into()
}

/// The reply to a write whose write concern failed.
fn unconfirmed(code: i32) -> DriverError {
    let reply = doc! { "code": code, "codeName": "Name", "errmsg": "" };
    DriverKind::Write(WriteFailure::WriteConcernError(
        deserialize_from_document(reply).unwrap(),
    ))
    .into()
}

/// The reply to an insert with one failed document.
fn insert_failed(code: i32, message: &str) -> DriverError {
    let errors: Vec<Document> = vec![doc! { "index": 3, "code": code, "errmsg": message }];
    let reply = doc! { "writeErrors": errors };
    DriverKind::InsertMany(deserialize_from_document(reply).unwrap()).into()
}

fn converted(error: DriverError, command: Command) -> Error {
    CommandError::new(error, command).into()
}

fn meaning(error: &Error) -> Meaning {
    match (error.is_transient(), error.is_outcome_unknown()) {
        (true, false) => Transient,
        (false, true) => Unknown,
        (false, false) => Refused,
        (true, true) => panic!("both: {error:?}"),
    }
}

#[test]
fn a_server_that_is_unavailable_is_transient_only_for_reads() {
    let no_node = [133, 134, 13435, 13436];
    let moving = [239, 249, 267, 272, 304, 343, 13388];
    let overloaded = [433, 449, 450, 462];
    for code in no_node.into_iter().chain(moving).chain(overloaded) {
        for (command, expected) in ALL.into_iter().zip([Transient, Unknown, Unknown]) {
            let error = converted(failed(code, "not now"), command);
            assert_eq!(
                (error.kind(), meaning(&error)),
                (ErrorKind::Driver, expected),
                "{code} {command:?}"
            );
            let claims_no_effect = error.to_string().contains("no effect");
            assert_eq!(claims_no_effect, expected == Transient, "{error}");
        }
        let error = converted(write_failed(code, "not now"), Command::WriteOne);
        assert_eq!(meaning(&error), Unknown, "{code}");
    }
}

/// An unknown error is treated as the error of a write.
#[test]
fn an_error_that_does_not_know_its_command_is_that_of_a_write() {
    assert_eq!(meaning(&Error::from(failed(133, ""))), Unknown);
    assert_eq!(meaning(&Error::from(failed(175, ""))), Unknown);
    assert_eq!(meaning(&converted(failed(133, ""), Command::Read)), Transient);
}

#[test]
fn a_router_that_lost_its_shard_knows_no_outcome() {
    for code in [6, 7, 89, 202, 407, 9001] {
        for command in ALL {
            assert_eq!(
                meaning(&converted(failed(code, ""), command)),
                Unknown,
                "{code} {command:?}"
            );
            let names_a_write = converted(failed(code, ""), command).to_string().contains("a write");
            assert_eq!(names_a_write, command != Command::Read, "{code} {command:?}");
        }
        assert_eq!(meaning(&converted(write_failed(code, ""), Command::WriteOne)), Unknown);
        assert_eq!(
            meaning(&converted(insert_failed(code, ""), Command::WriteMany)),
            Unknown
        );
    }
    // The text of MongoDB 6.0 to 8.0, and the one of newer routers.
    for message in [
        "Write results unavailable from failing to target a host in the shard s2 :: caused by :: Could not find host",
        "Write failed :: caused by :: write results unavailable from 127.0.0.1:27018 :: caused by :: Error connecting",
    ] {
        // Whatever the code is: the router passes on that of its own failure.
        for code in [133, 8, 83, 96, 112, 365, 11000] {
            for command in WRITES {
                for error in [
                    failed(code, message),
                    write_failed(code, message),
                    insert_failed(code, message),
                ] {
                    let error = converted(error, command);
                    assert_eq!(
                        (error.kind(), meaning(&error)),
                        (ErrorKind::Driver, Unknown),
                        "{code}: {error:?}"
                    );
                    assert!(
                        error.to_string().contains("may or may not have taken effect"),
                        "{error}"
                    );
                }
            }
        }
    }
}

/// It may have ended after the write of its document.
#[test]
fn a_write_whose_plan_the_server_ended_has_an_unknown_outcome() {
    // By MongoDB 6.0 and later; after a failover; by MongoDB 9.0.
    for message in [
        "query plan killed :: index 'a_1' dropped",
        "operation was interrupted due to a rollback",
        "query plan killed :: caused by :: non-array path became multikey during yield",
    ] {
        for (command, expected) in ALL.into_iter().zip([Transient, Unknown, Unknown]) {
            for error in [failed(175, message), write_failed(175, message)] {
                assert!(!is_bad_hint(&error));
                let error = converted(error, command);
                assert_eq!(
                    (error.kind(), meaning(&error)),
                    (ErrorKind::Driver, expected),
                    "{command:?}"
                );
            }
        }
    }
}

#[test]
fn a_write_of_one_document_for_which_the_cache_is_full_has_no_effect() {
    for (command, kind) in ALL.into_iter().zip([
        ErrorKind::Contention,
        ErrorKind::Contention,
        // Some documents may be written.
        ErrorKind::Driver,
    ]) {
        let error = converted(failed(365, "cache is full"), command);
        assert_eq!(error.kind(), kind, "{command:?}");
        let expected = if kind == ErrorKind::Driver { Unknown } else { Transient };
        assert_eq!(meaning(&error), expected, "{command:?}");
    }
}

#[test]
fn what_a_router_cannot_do_is_of_the_version_or_of_the_shard_key() {
    let (unsupported, unsuitable) = (ErrorKind::Unsupported, ErrorKind::UnsuitableShardKey);
    for (code, message, kind, advice) in [
        (
            61,
            "Query for sharded findAndModify must contain the shard key",
            unsupported,
            "MongoDB 7.1",
        ),
        (28769, "trades.books cannot be sharded", unsupported, "MongoDB 8.0"),
        (
            67,
            "cannot create unique index over { a: 1 } with shard key pattern { b: 1 }",
            unsuitable,
            "ensure_sharded()",
        ),
        (
            72,
            "couldn't find valid index for shard key",
            unsuitable,
            "ensure_sharded()",
        ),
    ] {
        for command in ALL {
            let error = converted(failed(code, message), command);
            assert_eq!((error.kind(), meaning(&error)), (kind, Refused), "{code}");
            assert!(error.to_string().contains(advice), "{error}");
            assert!(!error.to_string().contains("{ "), "{error}");
        }
    }
    // Other reasons for the same codes.
    for code in [67, 72] {
        assert_eq!(
            converted(failed(code, "no such option"), Command::Read).kind(),
            ErrorKind::Driver
        );
    }
}

/// Only a pattern knows whether it is a race.
#[test]
fn a_duplicate_key_is_not_transient() {
    let text = "E11000 duplicate key error collection: a.b index: email_1 dup key: { email: 1 }";
    for command in ALL {
        for error in [
            failed(11000, text),
            write_failed(11000, text),
            insert_failed(11000, text),
        ] {
            let race = lost_race(CommandError::new(error.clone(), command));
            assert_eq!((race.kind(), meaning(&race)), (ErrorKind::Contention, Transient));
            let error = converted(error, command);
            assert_eq!(
                (error.kind(), meaning(&error)),
                (ErrorKind::DuplicateKey, Refused),
                "{command:?}"
            );
            assert!(!error.to_string().contains("{ "), "{error}");
        }
    }
    assert_eq!(lost_race(failed(121, "").into()).kind(), ErrorKind::ValidationFailed);
}

#[test]
fn a_refusal_says_what_to_do() {
    for (code, kind, advice) in [
        (121, ErrorKind::ValidationFailed, "change the document or the validator"),
        (257, ErrorKind::Driver, "store less in one call"),
        (388, ErrorKind::Driver, "store less in one call"),
        (146, ErrorKind::Driver, "more memory than the server allows"),
        (292, ErrorKind::Driver, "more memory than the server allows"),
        (323, ErrorKind::Unsupported, "a client without `strict`"),
        (9, ErrorKind::Driver, "with the error 9 (Name)"),
    ] {
        for command in ALL {
            let error = converted(failed(code, "text of the server"), command);
            assert_eq!((error.kind(), meaning(&error)), (kind, Refused), "{code}");
            assert!(error.to_string().contains(advice), "{error}");
            assert!(!error.to_string().contains("text of the server"), "{error}");
        }
    }
    let error = converted(write_failed(9, ""), Command::WriteOne);
    assert!(error.to_string().contains("with the error 9: see"), "{error}");
}

/// By name: the code of MongoDB 9.0 is not documented.
#[test]
fn too_many_open_transactions_are_contention() {
    let reply = doc! { "ok": 0, "code": 1_000_000, "codeName": "TooManyOpenTransactions", "errmsg": "" };
    let error: DriverError = DriverKind::Command(deserialize_from_document(reply).unwrap()).into();
    for command in ALL {
        let error = converted(error.clone(), command);
        assert_eq!((error.kind(), meaning(&error)), (ErrorKind::Contention, Transient));
    }
}

#[test]
fn the_name_of_an_index_ends_before_its_collation() {
    for text in [
        "E11000 duplicate key error collection: a.b index: customerId_1_open_10 dup key: { customerId: 1 }",
        "E11000 duplicate key error collection: a.b index: customerId_1_open_10 collation: { locale: \"simple\" } dup key: { customerId: 1 }",
    ] {
        let duplicate = duplicate_key(&write_failed(11000, text)).unwrap();
        assert_eq!(duplicate.index.as_deref(), Some("customerId_1_open_10"));
    }
}

#[test]
fn an_unsatisfied_write_concern_is_an_unknown_outcome_whatever_its_code_is() {
    for code in [64, 100, 133, 13435, 91] {
        let error = converted(unconfirmed(code), Command::WriteOne);
        assert_eq!(
            (error.kind(), meaning(&error)),
            (ErrorKind::WriteConcern, Unknown),
            "{code}"
        );
    }
}
