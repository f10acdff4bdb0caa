//! The server that the tests of a process share.

use std::env;
use std::time::Duration;

use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::options::ClientOptions;
use tokio::sync::OnceCell;

use crate::{Mongod, MongodOptions, StartError};

static SERVER: OnceCell<Result<Server, StartError>> = OnceCell::const_new();

/// The server that the tests or examples of a process share.
///
/// ```no_run
/// # use mongo_patterns_testkit as testkit;
/// # use mongodb::Client;
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// let server = testkit::server().await?;
/// println!("MongoDB {} at {}, started here: {}", server.version(), server.uri(), server.is_own());
/// let client = Client::with_options(server.client_options().await?)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Server {
    uri: String,
    version: String,
    topology: Topology,
    test_commands: bool,
    /// Ends with the process, because a static is never dropped.
    started: Option<Mongod>,
}

/// Returns the server of this process. The first call finds or starts it.
///
/// ```no_run
/// # use mongo_patterns_testkit as testkit;
/// # async fn f() -> Result<(), testkit::StartError> {
/// let uri = testkit::server().await?.uri();
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If none is available: what was tried, and what to do. Further calls in this process return the same error.
pub async fn server() -> Result<&'static Server, StartError> {
    let server = SERVER.get_or_init(Server::acquire).await;
    server.as_ref().map_err(Clone::clone)
}

/// The kind of deployment of a server.
///
/// ```no_run
/// # use mongo_patterns_testkit::{self as testkit, Topology};
/// # async fn f() -> Result<(), testkit::StartError> {
/// let is_sharded = testkit::server().await?.topology() == Topology::Sharded;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Topology {
    /// One mongod without a replica set.
    Standalone,
    /// A replica set, also one of a single node.
    ReplicaSet,
    /// A sharded cluster, reached through a mongos.
    Sharded,
}

impl Topology {
    /// Returns the topology that a reply to `hello` shows.
    fn of(hello: &Document) -> Self {
        if hello.get_str("msg").is_ok_and(|msg| msg == "isdbgrid") {
            Self::Sharded
        } else if hello.contains_key("setName") {
            Self::ReplicaSet
        } else {
            Self::Standalone
        }
    }
}

impl Server {
    /// Returns the connection string.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Returns the version, such as `6.0.5`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns whether this process started it, so that it ends with the process.
    pub fn is_own(&self) -> bool {
        self.started.is_some()
    }

    /// Returns the mongod process, if this process started it.
    pub fn process(&self) -> Option<&Mongod> {
        self.started.as_ref()
    }

    /// Returns the kind of deployment.
    pub fn topology(&self) -> Topology {
        self.topology
    }

    /// Returns whether it has transactions, change streams and retryable writes: a standalone has not.
    pub fn has_transactions(&self) -> bool {
        self.topology != Topology::Standalone
    }

    /// Returns whether it runs with `enableTestCommands=1`, so that it has fail points.
    pub fn has_test_commands(&self) -> bool {
        self.test_commands
    }

    /// Returns options for a new client.
    ///
    /// # Errors
    /// Those of the driver, such as for an invalid `MONGODB_URI`.
    pub async fn client_options(&self) -> mongodb::error::Result<ClientOptions> {
        ClientOptions::parse(&self.uri).await
    }

    async fn acquire() -> Result<Self, StartError> {
        if let Some(uri) = env::var("MONGODB_URI").ok().filter(|uri| !uri.is_empty()) {
            return Self::inspect(uri, None).await.map_err(|error| {
                // The text of the error names the hosts, but not the user or the password.
                StartError::one(format!("the server at MONGODB_URI: {}", error.kind))
            });
        }
        let mongod = Mongod::start(MongodOptions::new()).await?;
        Self::inspect(mongod.uri().to_owned(), Some(mongod))
            .await
            .map_err(|error| StartError::one(error.to_string()))
    }

    async fn inspect(uri: String, started: Option<Mongod>) -> mongodb::error::Result<Self> {
        let mut options = ClientOptions::parse(&uri).await?;
        options.server_selection_timeout = Some(Duration::from_secs(15));
        let admin = Client::with_options(options)?.database("admin");
        let info: Document = admin.run_command(doc! { "buildInfo": 1 }).await?;
        let hello: Document = admin.run_command(doc! { "hello": 1 }).await?;
        let parameters = admin
            .run_command(doc! { "getParameter": 1, "enableTestCommands": 1 })
            .await;
        Ok(Self {
            uri,
            version: info.get_str("version").unwrap_or_default().to_owned(),
            topology: Topology::of(&hello),
            test_commands: parameters.is_ok_and(|reply| {
                reply.get_bool("enableTestCommands").unwrap_or(false)
                    || reply.get_i32("enableTestCommands").unwrap_or(0) == 1
            }),
            started,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reply_to_hello_shows_the_topology() {
        let mongos = doc! { "isWritablePrimary": true, "msg": "isdbgrid", "maxWireVersion": 21, "ok": 1.0 };
        let node = doc! { "isWritablePrimary": true, "setName": "rs0", "secondary": false, "ok": 1.0 };
        let standalone = doc! { "isWritablePrimary": true, "maxWireVersion": 17, "ok": 1.0 };
        assert_eq!(
            [mongos, node, standalone].each_ref().map(Topology::of),
            [Topology::Sharded, Topology::ReplicaSet, Topology::Standalone]
        );
    }
}
