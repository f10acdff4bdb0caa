//! A mongod process that the testkit starts.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use mongodb::bson::{Document, doc};

use crate::machine::{Folder, Machine};
use crate::process::Process;
use crate::{StartError, locate};

/// The time without a heartbeat of the primary after which another member is elected.
pub(crate) const ELECTION_TIMEOUT: Duration = Duration::from_secs(2);

/// Options for starting a [`Mongod`].
///
/// ```no_run
/// # use mongo_patterns_testkit::{Mongod, MongodOptions, StartError};
/// # async fn f() -> Result<(), StartError> {
/// let options = MongodOptions::new().standalone().argument("--setParameter=ttlMonitorSleepSecs=1");
/// let mongod = Mongod::start(options).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct MongodOptions {
    role: Role,
    /// Whether it is one of several processes, which share the machine's memory.
    of_several: bool,
    arguments: Vec<String>,
}

/// What a mongod is.
#[derive(Clone, Debug, Default)]
pub(crate) enum Role {
    Standalone,
    #[default]
    Member,
    /// The config server of a sharded cluster.
    Config,
    /// The shard of a sharded cluster with this name.
    Shard(String),
}

impl Role {
    /// Returns the name of the replica set.
    pub(crate) fn set(&self) -> Option<&str> {
        match self {
            Self::Standalone => None,
            Self::Member => Some("rs0"),
            Self::Config => Some("config"),
            Self::Shard(name) => Some(name),
        }
    }
}

impl MongodOptions {
    /// Creates the options of a replica set of one node, with test commands enabled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a standalone server: no replica set, no transactions, no retryable writes.
    #[must_use]
    pub fn standalone(mut self) -> Self {
        self.role = Role::Standalone;
        self
    }

    pub(crate) fn of_several(mut self) -> Self {
        self.of_several = true;
        self
    }

    pub(crate) fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// Adds an argument to the command line, such as `--setParameter=ttlMonitorSleepSecs=1`.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    fn command_line(&self, folder: &Folder) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec!["--dbpath".into(), folder.file("data")];
        let cache = if self.of_several { "0.25" } else { "0.5" };
        line.extend(["--wiredTigerCacheSizeGB", cache].map(OsString::from));
        // 5 MB on disk instead of 300 MB
        let log = "log=(prealloc=false,file_max=4MB)";
        line.extend(["--wiredTigerEngineConfigString", log].map(OsString::from));
        match self.role {
            Role::Config => line.push("--configsvr".into()),
            Role::Shard(_) => line.push("--shardsvr".into()),
            Role::Standalone | Role::Member => {}
        }
        if let Some(set) = self.role.set() {
            line.extend(["--replSet", set].map(OsString::from));
        }
        // The fewest that it allows. A client with a password computes as many hashes before its first command.
        line.extend(["--setParameter", "scramSHA256IterationCount=5000"].map(OsString::from));
        line.extend(self.arguments.iter().map(OsString::from));
        line
    }
}

/// A mongod process in a temporary directory, on a free port of 127.0.0.1.
///
/// The process ends and its directory is removed when this value is dropped, or when this process ends or is killed.
///
/// ```no_run
/// # use mongo_patterns_testkit::{Mongod, MongodOptions, StartError};
/// # async fn f() -> Result<(), StartError> {
/// let mut mongod = Mongod::start(MongodOptions::new()).await?;
/// println!("at {}, in {:?}", mongod.uri(), mongod.folder());
/// mongod.kill().await?; // as a crash would
/// mongod.restart().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Mongod {
    pub(crate) process: Process,
    uri: String,
}

impl Mongod {
    /// Starts a mongod and waits until it accepts writes.
    ///
    /// # Errors
    /// If there is no mongod program, or it does not start; with the end of its log.
    pub async fn start(options: MongodOptions) -> Result<Self, StartError> {
        let machine = Machine::start(locate::mongod()?, 1)?;
        Self::start_on(&machine, &options).await
    }

    pub(crate) async fn start_on(machine: &Machine, options: &MongodOptions) -> Result<Self, StartError> {
        let mongod = Self::start_process(machine, options).await?;
        let ready = async {
            if options.role.set().is_some() {
                initiate(&[&mongod], &options.role, ELECTION_TIMEOUT).await?;
            }
            mongod.process.wait_until_primary().await
        };
        ready.await.map_err(|problem| mongod.process.failure(&problem))?;
        Ok(mongod)
    }

    /// Starts a mongod that listens but is not yet a member of a replica set.
    pub(crate) async fn start_process(machine: &Machine, options: &MongodOptions) -> Result<Self, StartError> {
        let arguments = |folder: &Folder| options.command_line(folder);
        let process = Process::start(machine, "mongod", arguments).await?;
        let port = process.port;
        let uri = match options.role.set() {
            None => format!("mongodb://127.0.0.1:{port}/?directConnection=true"),
            Some(set) => format!("mongodb://127.0.0.1:{port}/?replicaSet={set}"),
        };
        Ok(Self { process, uri })
    }

    /// Returns the connection string.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Returns the process id of mongod, or `None` if it runs in a container.
    pub fn pid(&self) -> Option<u32> {
        let is_here = self.container().is_none();
        is_here.then_some(self.process.pid)
    }

    /// Returns the temporary directory of its data and log, or `None` if it runs in a container.
    pub fn folder(&self) -> Option<&Path> {
        self.process.machine.of_host(&self.process.folder)
    }

    /// Returns the name of the Docker container in which it runs, if it does.
    pub fn container(&self) -> Option<&str> {
        self.process.machine.container()
    }

    /// Kills the process with SIGKILL, like a crash. Its data remains for [`restart`](Self::restart), as long as this
    /// value.
    ///
    /// # Errors
    /// If it does not end within two minutes.
    pub async fn kill(&mut self) -> Result<(), StartError> {
        self.process.kill().await
    }

    /// Restarts it after [`kill`](Self::kill), on the same port and data, and waits until it accepts writes.
    ///
    /// # Errors
    /// If it does not start; with the end of its log. Another process can have taken its port.
    pub async fn restart(&mut self) -> Result<(), StartError> {
        if !self.process.start_again().await? {
            return Err(self.process.failure("another process has taken its port"));
        }
        let primary = self.process.wait_until_primary().await;
        primary.map_err(|problem| self.process.failure(&problem))
    }
}

/// Initiates a replica set of these nodes.
pub(crate) async fn initiate(nodes: &[&Mongod], role: &Role, election_timeout: Duration) -> Result<(), String> {
    let election = i64::try_from(election_timeout.as_millis()).unwrap_or(i64::MAX);
    // Until a heartbeat times out, the other nodes may still follow a frozen one.
    let heartbeat_timeout = i64::try_from(election_timeout.as_secs()).unwrap_or(i64::MAX).max(1);
    let members = (0..)
        .zip(nodes)
        .map(|(id, node)| doc! { "_id": id, "host": format!("127.0.0.1:{}", node.process.port) });
    let mut config = doc! {
        "_id": role.set().unwrap_or_default(),
        "members": members.collect::<Vec<Document>>(),
        "settings": {
            "electionTimeoutMillis": election,
            "heartbeatIntervalMillis": (election / 2).max(1),
            "heartbeatTimeoutSecs": heartbeat_timeout,
        },
    };
    if matches!(role, Role::Config) {
        config.insert("configsvr", true);
    }
    let initiated = nodes[0].process.admin(doc! { "replSetInitiate": config }).await;
    initiated.map(|_| ()).map_err(|error| error.to_string())
}
