//! A replica set of several nodes, for tests of failovers.

use std::time::{Duration, Instant};

use mongodb::Client;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, doc};

use crate::machine::Machine;
use crate::mongod::{ELECTION_TIMEOUT, Role, initiate};
use crate::process::{POLL, START_TIMEOUT};
use crate::{Mongod, MongodOptions, StartError, locate};

/// The time that a node has to answer `hello`. A slower node counts as unreachable.
const HELLO_TIMEOUT: Duration = Duration::from_secs(2);
/// The seconds for which a node that stepped down is not elected again, and for which it waits for a secondary to catch
/// up.
const STEPPED_DOWN: (i32, i32) = (10, 5);

/// Options for starting a [`ReplicaSet`].
#[derive(Clone, Debug)]
pub struct ReplicaSetOptions {
    nodes: usize,
    election_timeout: Duration,
    mongod: MongodOptions,
}

impl ReplicaSetOptions {
    /// Creates the options of a replica set of this number of nodes.
    pub fn new(nodes: usize) -> Self {
        Self {
            nodes,
            election_timeout: ELECTION_TIMEOUT,
            mongod: MongodOptions::new().of_several(),
        }
    }

    /// Sets the time without a heartbeat of the primary after which another node is elected. Two seconds by default.
    /// One second suits a test with many failovers. On a busy machine a primary can then lose an election without a
    /// failure.
    #[must_use]
    pub fn election_timeout(mut self, time: Duration) -> Self {
        self.election_timeout = time;
        self
    }

    /// Adds an argument to the command line of each node, such as `--setParameter=ttlMonitorSleepSecs=1`.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.mongod = self.mongod.argument(argument);
        self
    }
}

/// A replica set of several mongod processes. A test can kill, freeze and step down its primary, and restart or thaw
/// it. All nodes end with this value or the process.
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
/// // start writers, and then:
/// for _ in 0..10 {
///     let killed = set.kill_primary().await?; // another one is primary now
///     set.restart(killed).await?; // now all three nodes are members
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
    /// `None` while it is killed or frozen. It connects to this node alone.
    client: Option<Client>,
}

impl ReplicaSet {
    /// Starts this number of nodes, and waits until one is primary.
    ///
    /// # Errors
    /// If there is no mongod program, or a node does not start.
    pub async fn start(nodes: usize) -> Result<Self, StartError> {
        Self::start_with(ReplicaSetOptions::new(nodes)).await
    }

    /// Starts a replica set with these options, and waits until a node is primary and all others follow it.
    ///
    /// # Errors
    /// If there is no mongod program, or a node does not start.
    pub async fn start_with(options: ReplicaSetOptions) -> Result<Self, StartError> {
        let machine = Machine::start(locate::mongod()?, options.nodes)?;
        let mut started = Vec::new();
        for _ in 0..options.nodes {
            started.push(Mongod::start_process(&machine, &options.mongod).await?);
        }
        let members: Vec<&Mongod> = started.iter().collect();
        initiate(&members, &Role::Member, options.election_timeout)
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

    /// Returns the connection string, with all nodes.
    pub fn uri(&self) -> String {
        let hosts = self
            .nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.mongod.process.port));
        format!("mongodb://{}/?replicaSet=rs0", hosts.collect::<Vec<_>>().join(","))
    }

    /// Returns the index of the primary, from 0. Waits until there is one.
    ///
    /// # Errors
    /// If there is none after two minutes, for example because too few nodes are left.
    pub async fn primary(&self) -> Result<usize, StartError> {
        self.primary_but(None).await
    }

    /// Kills the primary with SIGKILL, like a crash, and waits until another node is primary. Returns the index of the
    /// killed node, for [`restart`](Self::restart).
    ///
    /// # Errors
    /// If there is no new primary after two minutes, for example because too few nodes are left.
    pub async fn kill_primary(&mut self) -> Result<usize, StartError> {
        let primary = self.primary().await?;
        let node = &mut self.nodes[primary];
        node.client = None;
        node.mongod.kill().await?;
        self.primary_but(Some(primary)).await?;
        Ok(primary)
    }

    /// Restarts a killed node with its data, and waits until it is a member again, as a secondary or primary. The
    /// server has then rolled back the writes that only this node had.
    ///
    /// It starts with its last checkpoint and repeats what it has replicated since, by default up to a minute of writes.
    /// [`argument("--syncdelay=10")`](ReplicaSetOptions::argument) makes that ten seconds.
    ///
    /// # Errors
    /// If it does not start within two minutes; with the end of its log.
    pub async fn restart(&mut self, node: usize) -> Result<(), StartError> {
        let node = &mut self.nodes[node];
        node.mongod.process.restart().await?;
        node.connect().await?;
        node.wait_until_member().await
    }

    /// Freezes the primary with SIGSTOP, and waits until another node is primary. The connections of the frozen node
    /// stay open, and it does not reply. Returns its index, for [`thaw`](Self::thaw).
    ///
    /// # Errors
    /// If no other node is primary after two minutes.
    pub async fn freeze_primary(&mut self) -> Result<usize, StartError> {
        let primary = self.primary().await?;
        let node = &mut self.nodes[primary];
        node.client = None;
        node.mongod.process.signal("STOP")?;
        self.primary_but(Some(primary)).await?;
        Ok(primary)
    }

    /// Resumes a frozen node, and waits until it is a member again, as a secondary or primary. At first it can still
    /// act as the primary.
    ///
    /// # Errors
    /// If it is not a member after two minutes.
    pub async fn thaw(&mut self, node: usize) -> Result<(), StartError> {
        self.nodes[node].mongod.process.signal("CONT")?;
        self.nodes[node].connect().await?;
        let started = Instant::now();
        loop {
            self.nodes[node].wait_until_member().await?;
            // It can still act as the former primary. Once it has heard from the others, the set has one primary.
            let primaries = self.primaries().await;
            if primaries.len() == 1 {
                return Ok(());
            }
            if started.elapsed() > START_TIMEOUT {
                return Err(self.nodes[node]
                    .mongod
                    .process
                    .failure("it did not step down for the new primary"));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Makes the primary step down, as an operator does before maintenance, and waits until another node is primary.
    /// The node stays a member. Returns its index.
    ///
    /// # Errors
    /// If it does not step down, or no other node is primary after two minutes.
    pub async fn step_down(&mut self) -> Result<usize, StartError> {
        let primary = self.primary().await?;
        let node = &self.nodes[primary];
        let (seconds, catch_up) = STEPPED_DOWN;
        let command = doc! { "replSetStepDown": seconds, "secondaryCatchUpPeriodSecs": catch_up, "force": true };
        if let Some(client) = &node.client
            && let Err(error) = client.database("admin").run_command(command).await
            // Another node can have been elected just before.
            && self.primary().await? == primary
        {
            return Err(node.mongod.process.failure(&error.to_string()));
        }
        self.primary_but(Some(primary)).await?;
        Ok(primary)
    }

    /// Returns the primary, if it is not the node `but`. If two nodes act as primary, the one that was elected last is
    /// returned.
    async fn primary_but(&self, but: Option<usize>) -> Result<usize, StartError> {
        let started = Instant::now();
        loop {
            match self.primaries().await.last() {
                Some(&(_, index)) if Some(index) != but => return Ok(index),
                _ if started.elapsed() > START_TIMEOUT => {
                    return Err(self.no_primary().await);
                }
                _ => tokio::time::sleep(POLL).await,
            }
        }
    }

    /// Creates an error with the state of each node, and the ends of their logs.
    async fn no_primary(&self) -> StartError {
        let mut problems = vec![format!("no node was primary within {START_TIMEOUT:?}")];
        for (index, node) in self.nodes.iter().enumerate() {
            let state = node.state().await;
            problems.push(node.mongod.process.problem(&format!("node {index}: {state}")));
        }
        StartError::new(problems)
    }

    /// Returns the nodes that act as primary, in the order of their elections.
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
        let client = self.mongod.process.direct_client().await;
        self.client = Some(client.map_err(|error| self.mongod.process.failure(&error.to_string()))?);
        Ok(())
    }

    /// Returns the reply to `hello`, if the node replies in time.
    async fn hello(&self) -> Option<Document> {
        let admin = self.client.as_ref()?.database("admin");
        let hello = tokio::time::timeout(HELLO_TIMEOUT, async { admin.run_command(doc! { "hello": 1 }).await });
        hello.await.ok()?.ok()
    }

    /// Describes it in an error.
    async fn state(&self) -> String {
        let Some(client) = &self.client else {
            return "killed or frozen".to_owned();
        };
        let status = doc! { "replSetGetStatus": 1 };
        let admin = client.database("admin");
        match tokio::time::timeout(HELLO_TIMEOUT, async { admin.run_command(status).await }).await {
            Err(_) => format!("no reply within {HELLO_TIMEOUT:?}"),
            Ok(Err(error)) => error.to_string(),
            Ok(Ok(status)) => {
                let members = status.get_array("members").into_iter().flatten();
                let members = members.filter_map(|member| member.as_document());
                let seen = members.filter_map(|member| member.get_str("stateStr").ok());
                format!("sees {}", seen.collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// Returns the id of the election that made it primary, if it is. Later elections have greater ids.
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
            if started.elapsed() > START_TIMEOUT {
                return Err(self
                    .mongod
                    .process
                    .failure(&format!("it was not a member of the set within {START_TIMEOUT:?}")));
            }
            tokio::time::sleep(POLL).await;
        }
    }
}
