//! A sharded cluster, for tests of shard keys, moving chunks and failures of a shard.

use std::ffi::OsString;
use std::process::Stdio;

use futures::future::{try_join, try_join_all};
use mongodb::bson::{Document, doc};
use mongodb::{Client, Namespace};

use crate::machine::Machine;
use crate::mongod::Role;
use crate::process::Process;
use crate::{Mongod, MongodOptions, StartError, locate};

/// Options for starting a [`ShardedCluster`].
#[derive(Clone, Debug)]
pub struct ShardedClusterOptions {
    shards: usize,
    mongod: MongodOptions,
}

impl ShardedClusterOptions {
    /// Creates the options of a cluster with this number of shards.
    pub fn new(shards: usize) -> Self {
        Self {
            shards,
            mongod: MongodOptions::new()
                .of_several()
                // Otherwise a change stream waits 10 seconds for a shard without writes.
                .argument("--setParameter=periodicNoopIntervalSecs=1")
                // Otherwise the documents that a moved chunk leaves behind are kept for 15 minutes.
                .argument("--setParameter=orphanCleanupDelaySecs=0"),
        }
    }

    /// Adds an argument to the command line of each mongod, such as `--setParameter=ttlMonitorSleepSecs=1`.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.mongod = self.mongod.argument(argument);
        self
    }
}

/// A config server, shards of one node each, and a mongos. All processes end with this value or the process.
///
/// It uses the program that `MONGOS` names, or a `mongos` on the `PATH`, with the mongod of [`Mongod`], which is of the
/// same version or the one after. Without one, or with `MONGOD=docker`, all processes run in one Docker container.
///
/// The balancer is stopped, so that a test decides where the chunks are.
///
/// ```no_run
/// use mongo_patterns_testkit::ShardedCluster;
/// use mongodb::bson::doc;
/// use mongodb::{Client, Namespace};
///
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// let mut cluster = ShardedCluster::start(2).await?;
/// let client = Client::with_uri_str(cluster.uri()).await?;
/// let trades = Namespace::new("shop", "trades");
/// let shard = doc! { "shardCollection": trades.to_string(), "key": { "customerId": 1 } };
/// client.database("admin").run_command(shard).await?;
///
/// cluster.split_at(&trades, doc! { "customerId": 500 }).await?;
/// cluster.move_chunk(&trades, doc! { "customerId": 500 }, 1).await?;
/// cluster.kill_shard(1).await?; // calls for customer 500 fail
/// cluster.restart_shard(1).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ShardedCluster {
    // Dropped in this order: a mongos without its config server writes to its log only.
    mongos: Process,
    uri: String,
    shards: Vec<Mongod>,
    _config: Mongod,
}

impl ShardedCluster {
    /// Starts a cluster with this number of shards, and waits until it accepts writes.
    ///
    /// # Errors
    /// If there is no mongos or mongod program, with what was tried. If a process does not start, with the end of its
    /// log.
    pub async fn start(shards: usize) -> Result<Self, StartError> {
        Self::start_with(ShardedClusterOptions::new(shards)).await
    }

    /// Starts a cluster with these options, and waits until it accepts writes.
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    pub async fn start_with(options: ShardedClusterOptions) -> Result<Self, StartError> {
        // The config server, the shards, and the mongos.
        let machine = Machine::start(locate::cluster()?, options.shards + 2)?;
        let mongos = version(&machine)?;
        let (config, shards) = start_members(&machine, &options).await?;
        let lowered = lower_version(&config, mongos).await;
        lowered.map_err(|error| config.process.failure(&error.to_string()))?;
        let hosts = format!("config/127.0.0.1:{}", config.process.port);
        let arguments = ["--configdb".into(), OsString::from(hosts)];
        let mongos = Process::start(&machine, "mongos", |_| arguments.to_vec()).await?;
        let cluster = Self {
            uri: format!("mongodb://127.0.0.1:{}/", mongos.port),
            mongos,
            shards,
            _config: config,
        };
        let set_up = cluster.set_up().await;
        set_up.map_err(|error| cluster.mongos.failure(&error.to_string()))?;
        Ok(cluster)
    }

    async fn set_up(&self) -> mongodb::error::Result<()> {
        for (number, shard) in self.shards.iter().enumerate() {
            let name = name(number);
            let host = format!("{name}/127.0.0.1:{}", shard.process.port);
            self.admin(doc! { "addShard": host, "name": name }).await?;
        }
        self.admin(doc! { "balancerStop": 1 }).await?;
        Ok(())
    }

    /// Returns the connection string, with the mongos as the only host.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Returns the shards, for direct connections: to read a profile, or to set a fail point.
    pub fn shards(&self) -> &[Mongod] {
        &self.shards
    }

    /// Splits a chunk of a sharded collection at a value of its shard key.
    ///
    /// # Errors
    /// Those of the driver, for example if the value is a boundary already.
    pub async fn split_at(&self, collection: &Namespace, bound: Document) -> mongodb::error::Result<()> {
        let split = doc! { "split": collection.to_string(), "middle": bound };
        self.admin(split).await.map(drop)
    }

    /// Moves the chunk that contains a value of the shard key to the shard with this index, and waits until it is
    /// there.
    ///
    /// # Errors
    /// Those of the driver, for example if another chunk of the collection is being moved.
    ///
    /// # Panics
    /// If there is no shard with this index.
    pub async fn move_chunk(&self, collection: &Namespace, key: Document, shard: usize) -> mongodb::error::Result<()> {
        assert!(
            shard < self.shards.len(),
            "the cluster has {} shards",
            self.shards.len()
        );
        let to = name(shard);
        let move_chunk = doc! { "moveChunk": collection.to_string(), "find": key, "to": to };
        self.admin(move_chunk).await.map(drop)
    }

    /// Kills the node of a shard with SIGKILL, like a crash.
    ///
    /// # Errors
    /// If it does not end within two minutes.
    ///
    /// # Panics
    /// If there is no shard with this index.
    pub async fn kill_shard(&mut self, shard: usize) -> Result<(), StartError> {
        self.shards[shard].kill().await
    }

    /// Restarts the node of a shard after [`kill_shard`](Self::kill_shard), and waits until it is primary.
    ///
    /// # Errors
    /// If it does not start; with the end of its log.
    ///
    /// # Panics
    /// If there is no shard with this index.
    pub async fn restart_shard(&mut self, shard: usize) -> Result<(), StartError> {
        let shard = &mut self.shards[shard].process;
        shard.restart().await?;
        shard
            .wait_until_primary()
            .await
            .map_err(|problem| shard.failure(&problem))
    }

    /// Kills the mongos with SIGKILL.
    ///
    /// # Errors
    /// If it does not end within two minutes.
    pub async fn kill_mongos(&mut self) -> Result<(), StartError> {
        self.mongos.kill().await
    }

    /// Restarts the mongos after [`kill_mongos`](Self::kill_mongos), on the same port.
    ///
    /// # Errors
    /// If it does not start; with the end of its log.
    pub async fn restart_mongos(&mut self) -> Result<(), StartError> {
        self.mongos.restart().await
    }

    async fn admin(&self, command: Document) -> mongodb::error::Result<Document> {
        let client = Client::with_uri_str(&self.uri).await?;
        client.database("admin").run_command(command).await
    }
}

/// Returns the name of a shard.
fn name(number: usize) -> String {
    format!("shard{number}")
}

/// Starts the config server and the shards, and waits until they are primaries.
async fn start_members(
    machine: &Machine,
    options: &ShardedClusterOptions,
) -> Result<(Mongod, Vec<Mongod>), StartError> {
    let start = async |role| Mongod::start_on(machine, &options.mongod.clone().role(role)).await;
    let shards = (0..options.shards).map(|number| start(Role::Shard(name(number))));
    try_join(start(Role::Config), try_join_all(shards)).await
}

/// Gives the cluster the feature compatibility version of an older mongos, which otherwise refuses to start.
async fn lower_version(config: &Mongod, mongos: (u32, u32)) -> mongodb::error::Result<()> {
    let info = config.process.admin(doc! { "buildInfo": 1 }).await?;
    let mongod = release(info.get_str("version").unwrap_or_default());
    if mongod.is_some_and(|mongod| mongod > mongos) {
        let version = format!("{}.{}", mongos.0, mongos.1);
        let mut lower = doc! { "setFeatureCompatibilityVersion": version, "writeConcern": { "w": "majority" } };
        if mongod >= Some((7, 0)) {
            lower.insert("confirm", true);
        }
        config.process.admin(lower).await?;
    }
    Ok(())
}

/// Returns the version of mongos.
fn version(machine: &Machine) -> Result<(u32, u32), StartError> {
    let failed = |problem: &str| StartError::no_mongos(vec![format!("mongos --version: {problem}")]);
    let mut command = machine.command(machine.program("mongos"));
    let output = command.arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed(&error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    // Docker prints to either that a container does not have the program.
    let printed = || format!("{text}{}", String::from_utf8_lossy(&output.stderr));
    release(&text)
        .filter(|_| output.status.success())
        .ok_or_else(|| failed(printed().trim()))
}

/// Returns the first two numbers of a version in a text, such as `mongos version v5.0.9` or `6.0.5`.
fn release(text: &str) -> Option<(u32, u32)> {
    let start = text.find(|character: char| character.is_ascii_digit())?;
    let mut numbers = text[start..].split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_config_server_and_the_shards_start() {
        let machine = Machine::start(locate::mongod().unwrap(), 3).unwrap();
        let (config, shards) = start_members(&machine, &ShardedClusterOptions::new(2)).await.unwrap();
        let hello = config.process.admin(doc! { "hello": 1 }).await.unwrap();
        // A config server says so: 2 is its kind.
        assert_eq!(hello.get_i32("configsvr").unwrap(), 2);
        assert_eq!(hello.get_str("setName").unwrap(), "config");
        for (number, shard) in shards.iter().enumerate() {
            let hello = shard.process.admin(doc! { "hello": 1 }).await.unwrap();
            assert!(hello.get_bool("isWritablePrimary").unwrap());
            assert_eq!(hello.get_str("setName").unwrap(), name(number));
        }

        let info = config.process.admin(doc! { "buildInfo": 1 }).await.unwrap();
        let (major, minor) = release(info.get_str("version").unwrap()).unwrap();
        lower_version(&config, (major, minor)).await.unwrap();
        assert_eq!(compatibility(&config).await, format!("{major}.{minor}"));
        // What a mongos of the version before needs.
        lower_version(&config, (major - 1, 0)).await.unwrap();
        assert_eq!(compatibility(&config).await, format!("{}.0", major - 1));
    }

    async fn compatibility(config: &Mongod) -> String {
        let get = doc! { "getParameter": 1, "featureCompatibilityVersion": 1 };
        let reply = config.process.admin(get).await.unwrap();
        let stored = reply.get_document("featureCompatibilityVersion").unwrap();
        stored.get_str("version").unwrap().to_owned()
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(release("mongos version v5.0.9\nBuild Info: {}"), Some((5, 0)));
        assert_eq!(release("8.2.1-rc0"), Some((8, 2)));
        assert_eq!(release("no version"), None);
        assert_eq!(release("7"), None);
    }
}
