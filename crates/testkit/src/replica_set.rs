//! A replica set of several nodes, for tests that take its primary away.

use std::time::{Duration, Instant};

use mongodb::Client;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, doc};

use crate::mongod::{ELECTION_TIMEOUT, PATIENCE, POLL, initiate};
use crate::{Mongod, MongodOptions, StartError};

/// How long a node may take to say what it is. One that takes longer is as good as gone.
const ANSWER: Duration = Duration::from_secs(2);
/// For how long a node that stepped down is not elected again, and how long it waits for another to have all, in
/// seconds.
const STEPPED_DOWN: (i32, i32) = (10, 5);

/// How to start a [`ReplicaSet`].
#[derive(Clone, Debug)]
pub struct ReplicaSetOptions {
    nodes: usize,
    election_timeout: Duration,
    mongod: MongodOptions,
}

impl ReplicaSetOptions {
    /// So many nodes.
    pub fn new(nodes: usize) -> Self {
        Self {
            nodes,
            election_timeout: ELECTION_TIMEOUT,
            mongod: MongodOptions::new().of_several(),
        }
    }

    /// After how long without a sign of the primary another one is elected; two seconds by default. One second is a good
    /// choice for a test that takes it away many times. On a busy machine a primary may then lose its place by itself.
    #[must_use]
    pub fn election_timeout(mut self, time: Duration) -> Self {
        self.election_timeout = time;
        self
    }

    /// A further argument on the command line of each node, such as `--setParameter=ttlMonitorSleepSecs=1`.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.mongod = self.mongod.argument(argument);
        self
    }
}

/// A replica set of several mongod processes, whose primary can be killed, frozen and made to step down, and comes back.
/// All nodes end with this value or the process.
///
/// ```no_run
/// use std::time::Duration;
///
/// use mongo_patterns_testkit::{ReplicaSet, ReplicaSetOptions};
///
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// let fast = ReplicaSetOptions::new(3).election_timeout(Duration::from_secs(1));
/// let mut set = ReplicaSet::start_with(fast).await?;
/// let client = mongodb::Client::with_uri_str(set.uri()).await?;
/// // .. writers are started, and then:
/// for _ in 0..10 {
///     let killed = set.kill_primary().await?; // another one is primary now
///     set.restart(killed).await?; // and all three are there again
///     let frozen = set.freeze_primary().await?;
///     set.thaw(frozen).await?;
///     set.step_down().await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ReplicaSet {
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    mongod: Mongod,
    /// `None` while it is killed or frozen. It asks this node alone.
    client: Option<Client>,
}

impl ReplicaSet {
    /// Starts so many nodes, and waits until one is primary.
    ///
    /// # Errors
    /// When there is no mongod program, or a node does not start.
    pub async fn start(nodes: usize) -> Result<Self, StartError> {
        Self::start_with(ReplicaSetOptions::new(nodes)).await
    }

    /// Starts one by options, and waits until a node is primary and all others follow it.
    ///
    /// # Errors
    /// When there is no mongod program, or a node does not start.
    pub async fn start_with(options: ReplicaSetOptions) -> Result<Self, StartError> {
        let mut started = Vec::new();
        for _ in 0..options.nodes {
            started.push(Mongod::start_process(&options.mongod).await?);
        }
        let members: Vec<&Mongod> = started.iter().collect();
        initiate(&members, options.election_timeout)
            .await
            .map_err(StartError::one)?;
        let nodes = started.into_iter().map(|mongod| Node { mongod, client: None });
        let mut set = Self { nodes: nodes.collect() };
        for node in &mut set.nodes {
            node.connect().await?;
        }
        for node in &set.nodes {
            node.wait_until_member().await?;
        }
        set.primary().await?;
        Ok(set)
    }

    /// The connection string, with all nodes.
    pub fn uri(&self) -> String {
        let hosts = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.mongod.port));
        format!("mongodb://{}/?replicaSet=rs0", hosts.collect::<Vec<_>>().join(","))
    }

    /// Which node is primary, from 0. Waits until one is.
    ///
    /// # Errors
    /// When none is after two minutes, as when too few nodes are left.
    pub async fn primary(&self) -> Result<usize, StartError> {
        self.primary_but(None).await
    }

    /// Kills the primary with SIGKILL, as a crash would, and waits until another node is primary. Returns which one was
    /// killed, for [`restart`](Self::restart). A node of MongoDB 4.4 may not survive it in its first minute, as
    /// [`Mongod::kill`] says.
    ///
    /// # Errors
    /// When none is after two minutes, as when too few nodes are left.
    pub async fn kill_primary(&mut self) -> Result<usize, StartError> {
        let primary = self.primary().await?;
        let node = &mut self.nodes[primary];
        node.client = None;
        node.mongod.kill().await?;
        self.primary_but(Some(primary)).await?;
        Ok(primary)
    }

    /// Starts a node again that was killed, with its data, and waits until it is a member as before: secondary, or
    /// primary. What it had alone is rolled back by then.
    ///
    /// # Errors
    /// When it does not start, with the end of its log.
    pub async fn restart(&mut self, node: usize) -> Result<(), StartError> {
        let started = Instant::now();
        let node = &mut self.nodes[node];
        while !node.mongod.start_again().await? {
            // Another process has its port for the moment.
            node.mongod.kill().await?;
            if started.elapsed() > PATIENCE {
                return Err(node.mongod.failure("another process has taken its port"));
            }
            tokio::time::sleep(POLL).await;
        }
        node.connect().await?;
        node.wait_until_member().await
    }

    /// Freezes the primary with SIGSTOP, as a machine that stands still, and waits until another node is primary. Its
    /// connections stay open, and nothing is answered. Returns which one is frozen, for [`thaw`](Self::thaw).
    ///
    /// # Errors
    /// When no other one is primary after two minutes.
    pub async fn freeze_primary(&mut self) -> Result<usize, StartError> {
        let primary = self.primary().await?;
        let node = &mut self.nodes[primary];
        node.client = None;
        node.mongod.signal("STOP")?;
        self.primary_but(Some(primary)).await?;
        Ok(primary)
    }

    /// Lets a frozen node go on, and waits until it is a member as before: secondary, or primary. At first it may take
    /// itself for the primary still.
    ///
    /// # Errors
    /// When it is no member after two minutes.
    pub async fn thaw(&mut self, node: usize) -> Result<(), StartError> {
        self.nodes[node].mongod.signal("CONT")?;
        self.nodes[node].connect().await?;
        let started = Instant::now();
        loop {
            self.nodes[node].wait_until_member().await?;
            // It may be the primary of before. The set knows of one alone as soon as it has heard from the others.
            let primaries = self.primaries().await;
            if primaries.len() == 1 {
                return Ok(());
            }
            if started.elapsed() > PATIENCE {
                return Err(self.nodes[node]
                    .mongod
                    .failure("it did not make room for the new primary"));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Makes the primary step down, as an operator does before maintenance, and waits until another node is primary. It
    /// stays a member. Returns which one it was.
    ///
    /// # Errors
    /// When it does not step down, or no other one is primary after two minutes.
    pub async fn step_down(&mut self) -> Result<usize, StartError> {
        let primary = self.primary().await?;
        let node = &self.nodes[primary];
        let (seconds, catch_up) = STEPPED_DOWN;
        let command = doc! { "replSetStepDown": seconds, "secondaryCatchUpPeriodSecs": catch_up, "force": true };
        if let Some(client) = &node.client
            && let Err(error) = client.database("admin").run_command(command).await
            // It may have lost its place by itself just before.
            && self.primary().await? == primary
        {
            return Err(node.mongod.failure(&error.to_string()));
        }
        self.primary_but(Some(primary)).await?;
        Ok(primary)
    }

    /// The primary, which is not that node. Where two take themselves for it, the one that was elected last is.
    async fn primary_but(&self, but: Option<usize>) -> Result<usize, StartError> {
        let started = Instant::now();
        loop {
            match self.primaries().await.last() {
                Some(&(_, index)) if Some(index) != but => return Ok(index),
                _ if started.elapsed() > PATIENCE => {
                    return Err(StartError::one(format!("no node was primary within {PATIENCE:?}")));
                }
                _ => tokio::time::sleep(POLL).await,
            }
        }
    }

    /// The nodes that take themselves for the primary, the one that was elected last at the end.
    async fn primaries(&self) -> Vec<(ObjectId, usize)> {
        let mut primaries = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            primaries.extend(node.election().await.map(|election| (election, index)));
        }
        primaries.sort_unstable();
        primaries
    }
}

impl Node {
    async fn connect(&mut self) -> Result<(), StartError> {
        let client = self.mongod.direct_client().await;
        self.client = Some(client.map_err(|error| self.mongod.failure(&error.to_string()))?);
        Ok(())
    }

    /// What it says of itself, if it answers.
    async fn hello(&self) -> Option<Document> {
        let admin = self.client.as_ref()?.database("admin");
        let hello = tokio::time::timeout(ANSWER, async { admin.run_command(doc! { "hello": 1 }).await });
        hello.await.ok()?.ok()
    }

    /// By which election it is primary, if it is. Later ones are greater.
    async fn election(&self) -> Option<ObjectId> {
        let hello = self.hello().await?;
        let is_primary = hello.get_bool("isWritablePrimary").unwrap_or(false);
        hello.get_object_id("electionId").ok().filter(|_| is_primary)
    }

    async fn wait_until_member(&self) -> Result<(), StartError> {
        let started = Instant::now();
        loop {
            let hello = self.hello().await.unwrap_or_default();
            let is = |what| hello.get_bool(what).unwrap_or(false);
            if is("secondary") || is("isWritablePrimary") {
                return Ok(());
            }
            if started.elapsed() > PATIENCE {
                return Err(self
                    .mongod
                    .failure(&format!("it was no member of the set within {PATIENCE:?}")));
            }
            tokio::time::sleep(POLL).await;
        }
    }
}
