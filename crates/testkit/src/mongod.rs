//! A mongod process that the testkit starts.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::error::ErrorKind;
use mongodb::options::ClientOptions;

use crate::StartError;
use crate::locate::locate;

/// The server's error code for a command that the user may not run.
const UNAUTHORIZED: i32 = 13;
/// The longest time that a start may take. On an idle machine it takes under a second.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(120);
pub(crate) const POLL: Duration = Duration::from_millis(20);
/// The time without a heartbeat of the primary after which another member is elected.
pub(crate) const ELECTION_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs the program of its arguments, and kills it when its own standard input closes. The system closes that pipe
/// however the process ends, even by a kill. Then the keeper removes the directory, which needs no clean shutdown. A
/// line on its standard input kills the program too, and a second line starts it again.
const KEEPER: &str = r#"
folder=$1; shift
exec 3<&0
while
  "$@" </dev/null >"$folder/out.txt" 2>&1 3<&- &
  mongod=$!
  echo "$mongod"
  (read -r _ <&3; kill -KILL "$mongod") 2>/dev/null &
  keeper=$!
  wait "$mongod"
  echo "$?" >"$folder/ended.txt"
  wait "$keeper"
  read -r _ <&3
do :; done
rm -rf "$folder"
"#;

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
    standalone: bool,
    /// Whether it belongs to a replica set of several nodes, which share the machine's memory.
    of_several: bool,
    arguments: Vec<String>,
}

impl MongodOptions {
    /// Creates the options of a replica set of one node, with test commands enabled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a standalone server: no replica set, no transactions, no retryable writes.
    #[must_use]
    pub fn standalone(mut self) -> Self {
        self.standalone = true;
        self
    }

    pub(crate) fn of_several(mut self) -> Self {
        self.of_several = true;
        self
    }

    /// Adds an argument to the command line, such as `--setParameter=ttlMonitorSleepSecs=1`.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
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
/// println!("process {} at {}, in {}", mongod.pid(), mongod.uri(), mongod.folder().display());
/// mongod.kill().await?; // as a crash would
/// mongod.restart().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Mongod {
    keeper: Child,
    /// The keeper's standard output, to which it writes the process id. It is kept open because a write to a closed
    /// pipe would end the keeper.
    pids: Option<BufReader<ChildStdout>>,
    pid: u32,
    pub(crate) port: u16,
    uri: String,
    folder: PathBuf,
}

impl Mongod {
    /// Starts a mongod and waits until it accepts writes.
    ///
    /// # Errors
    /// If there is no mongod program, or it does not start; with the end of its log.
    pub async fn start(options: MongodOptions) -> Result<Self, StartError> {
        let mongod = Self::start_process(&options).await?;
        let ready = async {
            if !options.standalone {
                initiate(&[&mongod], ELECTION_TIMEOUT).await?;
            }
            mongod.wait_until_primary().await?;
            match options.standalone {
                true => Ok(()),
                false => mongod
                    .acknowledge_by_majority()
                    .await
                    .map_err(|error| error.to_string()),
            }
        };
        ready.await.map_err(|problem| mongod.failure(&problem))?;
        Ok(mongod)
    }

    /// Starts a mongod that listens but is not yet a member of a replica set.
    pub(crate) async fn start_process(options: &MongodOptions) -> Result<Self, StartError> {
        let program = locate()?;
        // Another process can take the free port before mongod does. Then mongod ends, and the next attempt uses
        // another port.
        for _ in 0..10 {
            if let Some(mongod) = Self::start_on(free_port()?, &program, options).await? {
                return Ok(mongod);
            }
        }
        Err(StartError::one(
            "other processes took 10 free ports before mongod could: run the tests again",
        ))
    }

    /// Returns the connection string.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Returns the process id of mongod, for tests that kill or freeze it.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the temporary directory of its data and log.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Kills the process with SIGKILL, like a crash. Its data remains for [`restart`](Self::restart), as long as this
    /// value.
    ///
    /// MongoDB 4.4 can lose all data and its replica set configuration when it is killed before its first checkpoint.
    /// Run `fsync` first.
    ///
    /// # Errors
    /// If it does not end within two minutes.
    pub async fn kill(&mut self) -> Result<(), StartError> {
        self.signal_keeper()?;
        let started = Instant::now();
        while !self.folder.join("ended.txt").exists() {
            if started.elapsed() > START_TIMEOUT {
                return Err(self.failure("mongod did not end after SIGKILL"));
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Restarts it after [`kill`](Self::kill), on the same port and data, and waits until it accepts writes.
    ///
    /// # Errors
    /// If it does not start; with the end of its log. Another process can have taken its port.
    pub async fn restart(&mut self) -> Result<(), StartError> {
        if !self.start_again().await? {
            return Err(self.failure("another process has taken its port"));
        }
        self.wait_until_primary()
            .await
            .map_err(|problem| self.failure(&problem))
    }

    /// Starts it after [`kill`](Self::kill), and waits until it listens. Returns `false` if its port is taken.
    pub(crate) async fn start_again(&mut self) -> Result<bool, StartError> {
        for stale in ["ended.txt", "log.txt"] {
            // A missing file is not an error.
            let _ = fs::remove_file(self.folder.join(stale));
        }
        self.signal_keeper()?;
        self.pid = read_pid(&mut self.pids).map_err(|error| self.failure(&error.to_string()))?;
        self.wait_until_it_listens().await
    }

    /// Sends a signal, such as `STOP`.
    pub(crate) fn signal(&self, signal: &str) -> Result<(), StartError> {
        let sent = Command::new("kill")
            .arg(format!("-{signal}"))
            .arg(self.pid.to_string())
            .status();
        match sent {
            Ok(status) if status.success() => Ok(()),
            _ => Err(self.failure(&format!("SIG{signal} could not be sent to mongod"))),
        }
    }

    /// Writes a line to the keeper, which then kills mongod or starts it again.
    fn signal_keeper(&mut self) -> Result<(), StartError> {
        let written = self.keeper.stdin.as_mut().map(|stdin| stdin.write_all(b"\n"));
        match written {
            Some(Ok(())) => Ok(()),
            _ => Err(self.failure("the keeper process of mongod has ended")),
        }
    }

    /// Returns `None` if the port is taken.
    async fn start_on(port: u16, program: &Path, options: &MongodOptions) -> Result<Option<Self>, StartError> {
        let failed = |error: std::io::Error| StartError::one(format!("starting {}: {error}", program.display()));
        let folder = tempfile::Builder::new()
            .prefix("mongo-patterns-")
            .tempdir()
            .map_err(failed)?
            .keep();
        fs::create_dir(folder.join("data")).map_err(failed)?;

        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "keeper"]).arg(&folder).arg(program);
        keeper.arg("--dbpath").arg(folder.join("data"));
        keeper.arg("--logpath").arg(folder.join("log.txt"));
        keeper.args(["--bind_ip", "127.0.0.1", "--port", &port.to_string()]);
        // A killed mongod would leave its socket file behind.
        keeper.arg("--nounixsocket");
        keeper.args([
            "--wiredTigerCacheSizeGB",
            if options.of_several { "0.25" } else { "0.5" },
        ]);
        // 5 MB on disk instead of 300 MB
        keeper.args(["--wiredTigerEngineConfigString", "log=(prealloc=false,file_max=4MB)"]);
        keeper.args(["--setParameter", "enableTestCommands=1"]);
        if !options.standalone {
            keeper.args(["--replSet", "rs0"]);
        }
        keeper.args(&options.arguments);
        own_process_group(&mut keeper);
        let mut keeper = keeper
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let mut pids = keeper.stdout.take().map(BufReader::new);
        let pid = read_pid(&mut pids).map_err(failed)?;
        let uri = if options.standalone {
            format!("mongodb://127.0.0.1:{port}/?directConnection=true")
        } else {
            format!("mongodb://127.0.0.1:{port}/?replicaSet=rs0")
        };
        let mongod = Self {
            keeper,
            pids,
            pid,
            port,
            uri,
            folder,
        };
        Ok(mongod.wait_until_it_listens().await?.then_some(mongod))
    }

    /// Waits until it listens. Returns `false` if the port is taken. It reads mongod's own log, because another process
    /// could answer on the port.
    async fn wait_until_it_listens(&self) -> Result<bool, StartError> {
        let started = Instant::now();
        loop {
            let log = fs::read_to_string(self.folder.join("log.txt")).unwrap_or_default();
            if log.contains("Waiting for connections") {
                return Ok(true);
            }
            if let Ok(status) = fs::read_to_string(self.folder.join("ended.txt")) {
                if log.contains("Address already in use") {
                    return Ok(false);
                }
                return Err(self.failure(&format!("mongod ended with status {}", status.trim())));
            }
            if started.elapsed() > START_TIMEOUT {
                return Err(self.failure(&format!("mongod did not listen within {START_TIMEOUT:?}")));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Returns a new client of this node alone. A client that connected before the initiation can keep an outdated
    /// topology.
    pub(crate) async fn direct_client(&self) -> mongodb::error::Result<Client> {
        let uri = format!(
            "mongodb://127.0.0.1:{}/?directConnection=true&serverSelectionTimeoutMS=60000",
            self.port
        );
        Client::with_options(ClientOptions::parse(uri).await?)
    }

    /// Returns whether this node is the primary, or a standalone.
    pub(crate) async fn is_primary(&self) -> mongodb::error::Result<bool> {
        let admin = self.direct_client().await?.database("admin");
        let hello: Document = admin.run_command(doc! { "hello": 1 }).await?;
        Ok(hello.get_bool("isWritablePrimary").unwrap_or(false))
    }

    async fn wait_until_primary(&self) -> Result<(), String> {
        let started = Instant::now();
        while !self.is_primary().await.map_err(|error| error.to_string())? {
            if started.elapsed() > START_TIMEOUT {
                return Err(format!("mongod was not primary within {START_TIMEOUT:?}"));
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Sets the default write concern to majority, as MongoDB does since 5.0. With a lower one, a transaction may not
    /// read what the server acknowledged to another client.
    async fn acknowledge_by_majority(&self) -> mongodb::error::Result<()> {
        let admin = self.direct_client().await?.database("admin");
        let info = admin.run_command(doc! { "buildInfo": 1 }).await?;
        let is_default = info
            .get_array("versionArray")
            .ok()
            .and_then(|version| version[0].as_i32())
            >= Some(5);
        if !is_default {
            let majority = doc! { "setDefaultRWConcern": 1, "defaultWriteConcern": { "w": "majority" } };
            if let Err(error) = admin.run_command(majority).await {
                match *error.kind {
                    // The users of a server with access control configure it themselves.
                    ErrorKind::Command(refused) if refused.code == UNAUTHORIZED => {}
                    _ => return Err(error),
                }
            }
        }
        Ok(())
    }

    pub(crate) fn failure(&self, problem: &str) -> StartError {
        let tail = |name: &str| {
            let text = fs::read_to_string(self.folder.join(name)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(10)..].join("\n")
        };
        StartError::one(format!("{problem}\n{}\n{}", tail("out.txt"), tail("log.txt")))
    }
}

impl Drop for Mongod {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // The keeper now ends. An error here means that it has ended already.
        let _ = self.keeper.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Initiates a replica set of these nodes.
pub(crate) async fn initiate(nodes: &[&Mongod], election_timeout: Duration) -> Result<(), String> {
    let election = i64::try_from(election_timeout.as_millis()).unwrap_or(i64::MAX);
    // Until a heartbeat times out, the other nodes may still follow a frozen one.
    let heartbeat_timeout = i64::try_from(election_timeout.as_secs()).unwrap_or(i64::MAX).max(1);
    let members = (0..)
        .zip(nodes)
        .map(|(id, node)| doc! { "_id": id, "host": format!("127.0.0.1:{}", node.port) });
    let config = doc! {
        "_id": "rs0",
        "members": members.collect::<Vec<Document>>(),
        "settings": {
            "electionTimeoutMillis": election,
            "heartbeatIntervalMillis": (election / 2).max(1),
            "heartbeatTimeoutSecs": heartbeat_timeout,
        },
    };
    let initiated = async {
        let admin = nodes[0].direct_client().await?.database("admin");
        admin.run_command(doc! { "replSetInitiate": config }).await
    };
    initiated.await.map(|_| ()).map_err(|error| error.to_string())
}

fn read_pid(pids: &mut Option<BufReader<ChildStdout>>) -> std::io::Result<u32> {
    let mut pid = String::new();
    if let Some(pids) = pids {
        pids.read_line(&mut pid)?;
    }
    Ok(pid.trim().parse().unwrap_or(0))
}

fn free_port() -> Result<u16, StartError> {
    TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| StartError::one(format!("no free port on 127.0.0.1: {error}")))
}

/// Ctrl-C in a terminal reaches the whole process group. The keeper must survive it to clean up.
#[cfg(unix)]
fn own_process_group(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
}

#[cfg(not(unix))]
fn own_process_group(_: &mut Command) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_start_on_a_taken_port_returns_none() {
        let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let program = locate().unwrap();
        let started = Mongod::start_on(port, &program, &MongodOptions::new()).await.unwrap();
        assert!(started.is_none());
    }
}
