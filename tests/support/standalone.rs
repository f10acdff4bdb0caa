//! One standalone server for all tests: it has no transactions.

use mongo_patterns_testkit::{Mongod, MongodOptions};
use mongodb::bson::oid::ObjectId;
use mongodb::options::ClientOptions;
use mongodb::{Client, Database};
use tokio::sync::OnceCell;

/// Ends with the process, because a static is never dropped.
static SERVER: OnceCell<Mongod> = OnceCell::const_new();

/// Returns an empty database of the server, which is started by the first call.
pub async fn standalone() -> Database {
    standalone_with(|_| ()).await
}

/// Returns an empty database, of a client with these options.
pub async fn standalone_with(change: impl FnOnce(&mut ClientOptions)) -> Database {
    let start = async || Mongod::start(MongodOptions::new().standalone()).await.unwrap();
    let server = SERVER.get_or_init(start).await;
    let mut options = ClientOptions::parse(server.uri()).await.unwrap();
    change(&mut options);
    let name = format!("standalone_{}", ObjectId::new());
    Client::with_options(options).unwrap().database(&name)
}
