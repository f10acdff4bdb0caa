//! The server of this process.

use std::env;
use std::time::Duration;

use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::options::ClientOptions;
use tokio::sync::OnceCell;

use crate::{Mongod, MongodOptions, StartError};

static SERVER: OnceCell<Result<Server, StartError>> = OnceCell::const_new();

/// The server that a process uses for its tests or its example.
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
    replica_set: bool,
    test_commands: bool,
    /// Ends with the process, as a static is never dropped.
    started: Option<Mongod>,
}

/// The server of this process: found or started at the first call, then always the same one.
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
/// When there is none: what was tried, and what to do. It does not try again in this process.
pub async fn server() -> Result<&'static Server, StartError> {
    let server = SERVER.get_or_init(Server::acquire).await;
    server.as_ref().map_err(Clone::clone)
}

impl Server {
    /// The connection string.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Its version, such as `6.0.5`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whether it was started by this process, and so ends with it.
    pub fn is_own(&self) -> bool {
        self.started.is_some()
    }

    /// The process, if this one started it.
    pub fn process(&self) -> Option<&Mongod> {
        self.started.as_ref()
    }

    /// Whether it is a member of a replica set, and so has transactions.
    pub fn is_replica_set(&self) -> bool {
        self.replica_set
    }

    /// Whether it was started with `enableTestCommands=1`, and so has fail points.
    pub fn has_test_commands(&self) -> bool {
        self.test_commands
    }

    /// Options for a client of your own.
    ///
    /// # Errors
    /// Those of the driver, such as for a `MONGODB_URI` that is none.
    pub async fn client_options(&self) -> mongodb::error::Result<ClientOptions> {
        ClientOptions::parse(&self.uri).await
    }

    async fn acquire() -> Result<Self, StartError> {
        if let Some(uri) = env::var("MONGODB_URI").ok().filter(|uri| !uri.is_empty()) {
            return Self::look_at(uri, None).await.map_err(|error| {
                // The text of the error names the hosts, and never the user or the password.
                StartError::one(format!("the server at MONGODB_URI: {}", error.kind))
            });
        }
        let mongod = Mongod::start(MongodOptions::new()).await?;
        Self::look_at(mongod.uri().to_owned(), Some(mongod))
            .await
            .map_err(|error| StartError::one(error.to_string()))
    }

    async fn look_at(uri: String, started: Option<Mongod>) -> mongodb::error::Result<Self> {
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
            replica_set: hello.contains_key("setName"),
            test_commands: parameters.is_ok_and(|reply| {
                reply.get_bool("enableTestCommands").unwrap_or(false)
                    || reply.get_i32("enableTestCommands").unwrap_or(0) == 1
            }),
            started,
        })
    }
}
