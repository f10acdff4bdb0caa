//! A replica set of several nodes, for tests that kill one.

use std::process::Command;
use std::time::Instant;

use crate::mongod::{PATIENCE, POLL, initiate};
use crate::{Mongod, MongodOptions, StartError};

/// A replica set of several mongod processes, whose primary can be killed.
///
/// It elects a new primary some two seconds after the old one is gone. All nodes end with this value or the process.
///
/// ```no_run
/// # use mongo_patterns_testkit::{ReplicaSet, StartError};
/// # async fn f() -> Result<(), StartError> {
/// let mut set = ReplicaSet::start(3).await?;
/// println!("{}", set.uri());
/// set.kill_primary().await?; // and another one is primary
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ReplicaSet {
    nodes: Vec<Mongod>,
}

impl ReplicaSet {
    /// Starts so many nodes, and waits until one is primary.
    ///
    /// # Errors
    /// When there is no mongod program, or a node does not start.
    pub async fn start(nodes: usize) -> Result<Self, StartError> {
        let mut started = Vec::new();
        for _ in 0..nodes {
            started.push(Mongod::start_process(&MongodOptions::new()).await?);
        }
        let set = Self { nodes: started };
        let members: Vec<&Mongod> = set.nodes.iter().collect();
        initiate(&members).await.map_err(StartError::one)?;
        set.primary().await?;
        Ok(set)
    }

    /// The connection string, with all nodes.
    pub fn uri(&self) -> String {
        let hosts: Vec<String> = self
            .nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port))
            .collect();
        format!("mongodb://{}/?replicaSet=rs0", hosts.join(","))
    }

    /// Kills the primary with SIGKILL, as a crash of its machine would, and waits until another node is primary.
    ///
    /// # Errors
    /// When none is after two minutes, as when too few nodes are left.
    pub async fn kill_primary(&mut self) -> Result<(), StartError> {
        let primary = self.primary().await?;
        let node = self.nodes.remove(primary);
        let killed = Command::new("kill").args(["-KILL", &node.pid().to_string()]).status();
        if !killed.is_ok_and(|status| status.success()) {
            return Err(StartError::one("the primary could not be killed"));
        }
        drop(node);
        self.primary().await.map(|_| ())
    }

    async fn primary(&self) -> Result<usize, StartError> {
        let started = Instant::now();
        loop {
            for (index, node) in self.nodes.iter().enumerate() {
                if node.is_primary().await.unwrap_or(false) {
                    return Ok(index);
                }
            }
            if started.elapsed() > PATIENCE {
                return Err(StartError::one(format!("no node was primary within {PATIENCE:?}")));
            }
            tokio::time::sleep(POLL).await;
        }
    }
}
