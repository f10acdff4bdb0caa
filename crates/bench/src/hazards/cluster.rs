//! Three nodes, and their clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mongo_patterns_testkit::ReplicaSet;
use mongodb::bson::doc;
use mongodb::event::EventHandler;
use mongodb::event::command::CommandEvent;
use mongodb::options::{ClientOptions, ReadConcern, WriteConcern};
use mongodb::{Client, Database};

pub(super) const WRITERS: u64 = 64;

const NODES: usize = 3;
/// How long the last commands of dropped operations may take.
const IDLE_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
/// How often in a row the server must be idle: a client may be about to send its last command.
const IDLE_POLLS: u32 = 5;

pub(super) struct Cluster {
    pub(super) set: ReplicaSet,
    version: String,
    commands: Arc<AtomicU64>,
}

impl Cluster {
    pub(super) async fn start() -> Result<Self> {
        let set = ReplicaSet::start(NODES).await?;
        let admin = Client::with_uri_str(set.uri()).await?.database("admin");
        let info = admin.run_command(doc! { "buildInfo": 1 }).await?;
        Ok(Self {
            version: info.get_str("version").context("the server has no version")?.to_owned(),
            set,
            commands: Arc::default(),
        })
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Returns the number of commands that the clients of [`counted`](Self::counted) have sent.
    pub(super) fn commands(&self) -> u64 {
        self.commands.load(Ordering::Relaxed)
    }

    /// Returns a database by a new client whose commands are counted: the driver's defaults, with retryable writes.
    pub(super) async fn counted(&self, name: &str) -> Result<Database> {
        let mut options = self.options().await?;
        let commands = Arc::clone(&self.commands);
        options.command_event_handler = Some(EventHandler::callback(move |event| {
            if let CommandEvent::Started(_) = event {
                commands.fetch_add(1, Ordering::Relaxed);
            }
        }));
        Ok(Client::with_options(options)?.database(name))
    }

    /// Returns a database by a new client, to prepare and check documents.
    pub(super) async fn plain(&self, name: &str) -> Result<Database> {
        let mut options = self.options().await?;
        options.read_concern = Some(ReadConcern::majority());
        Ok(Client::with_options(options)?.database(name))
    }

    async fn options(&self) -> Result<ClientOptions> {
        let mut options = ClientOptions::parse(self.set.uri()).await?;
        options.write_concern = Some(WriteConcern::majority());
        options.max_pool_size = Some(u32::try_from(WRITERS)?);
        Ok(options)
    }

    /// Waits until the server executes no command of a dropped operation.
    pub(super) async fn wait_until_idle(&self, database: &Database) -> Result<()> {
        let admin = database.client().database("admin");
        let namespace = format!("^{}\\.", database.name());
        let (started, mut idle) = (Instant::now(), 0);
        while idle < IDLE_POLLS {
            let active = doc! { "currentOp": 1, "active": true, "ns": { "$regex": &namespace } };
            let is_idle = match admin.run_command(active).await {
                Ok(reply) => reply.get_array("inprog")?.is_empty(),
                Err(_) => false,
            };
            idle = if is_idle { idle + 1 } else { 0 };
            ensure!(
                started.elapsed() < IDLE_WITHIN,
                "the server was not idle within a minute"
            );
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }
}
