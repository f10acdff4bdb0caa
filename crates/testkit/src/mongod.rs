//! A mongod process of our own.

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

/// The server's code for what a user may not do.
const UNAUTHORIZED: i32 = 13;
/// How long a start may take. It takes under a second on a quiet machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
pub(crate) const POLL: Duration = Duration::from_millis(20);
/// For how long a member is not heard from before another is elected.
pub(crate) const ELECTION_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs the program that its arguments name, and ends it when its own standard input ends: the only thing that a
/// process is sure to leave behind, however it ends. Then it removes the folder. Nothing in there is worth a clean
/// shutdown. A line on its standard input ends the program too, and a second one starts it again.
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

/// How to start a [`Mongod`].
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
    /// Of a replica set of several nodes, which share the machine's memory.
    of_several: bool,
    arguments: Vec<String>,
}

impl MongodOptions {
    /// A replica set of one node, with test commands enabled.
    pub fn new() -> Self {
        Self::default()
    }

    /// A standalone server: no replica set, no transactions, no retryable writes.
    #[must_use]
    pub fn standalone(mut self) -> Self {
        self.standalone = true;
        self
    }

    pub(crate) fn of_several(mut self) -> Self {
        self.of_several = true;
        self
    }

    /// A further argument on the command line, such as `--setParameter=ttlMonitorSleepSecs=1`.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }
}

/// A mongod process of our own, in a temporary folder, on a free port of 127.0.0.1.
///
/// It ends, and its folder goes, when this value is dropped or the process ends, also when that is killed.
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
    /// Where the keeper says the process id. It would end at a line that nobody reads.
    pids: Option<BufReader<ChildStdout>>,
    pid: u32,
    pub(crate) port: u16,
    uri: String,
    folder: PathBuf,
}

impl Mongod {
    /// Starts one and waits until it accepts writes.
    ///
    /// # Errors
    /// When there is no mongod program, or it does not start; with the end of its log.
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

    /// Starts one that listens, and is not a member of a replica set yet.
    pub(crate) async fn start_process(options: &MongodOptions) -> Result<Self, StartError> {
        let program = locate()?;
        // Between choosing a free port and mongod taking it, another process may. Then mongod ends, and we try again.
        for _ in 0..10 {
            if let Some(mongod) = Self::start_on(free_port()?, &program, options).await? {
                return Ok(mongod);
            }
        }
        Err(StartError::one("10 free ports were all taken by others at once"))
    }

    /// The connection string.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The process id of mongod, for tests that kill or freeze it.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The temporary folder that holds its data and log.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Kills it with SIGKILL, as a crash would. Its data stays, for [`restart`](Self::restart), as long as this value.
    ///
    /// MongoDB 4.4 can lose all data, its replica set too, when it is killed before its first checkpoint: send it `fsync`
    /// before.
    ///
    /// # Errors
    /// When it does not end within two minutes.
    pub async fn kill(&mut self) -> Result<(), StartError> {
        self.tell_keeper()?;
        let started = Instant::now();
        while !self.folder.join("ended.txt").exists() {
            if started.elapsed() > PATIENCE {
                return Err(self.failure("mongod was killed, and did not end"));
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Starts it again after [`kill`](Self::kill), on the same port and data, and waits until it accepts writes.
    ///
    /// # Errors
    /// When it does not start; with the end of its log. Another process may have taken its port meanwhile.
    pub async fn restart(&mut self) -> Result<(), StartError> {
        if !self.start_again().await? {
            return Err(self.failure("another process has taken its port"));
        }
        self.wait_until_primary()
            .await
            .map_err(|problem| self.failure(&problem))
    }

    /// Starts it after [`kill`](Self::kill), and waits until it listens; `false` when its port was taken.
    pub(crate) async fn start_again(&mut self) -> Result<bool, StartError> {
        for of_last_run in ["ended.txt", "log.txt"] {
            // What is not there cannot mislead.
            let _ = fs::remove_file(self.folder.join(of_last_run));
        }
        self.tell_keeper()?;
        self.pid = read_pid(&mut self.pids).map_err(|error| self.failure(&error.to_string()))?;
        self.wait_until_it_listens().await
    }

    /// Sends it a signal, such as `STOP`.
    pub(crate) fn signal(&self, signal: &str) -> Result<(), StartError> {
        let sent = Command::new("kill")
            .arg(format!("-{signal}"))
            .arg(self.pid.to_string())
            .status();
        match sent {
            Ok(status) if status.success() => Ok(()),
            _ => Err(self.failure(&format!("mongod could not be sent SIG{signal}"))),
        }
    }

    /// A line, at which the keeper ends mongod, or starts it again.
    fn tell_keeper(&mut self) -> Result<(), StartError> {
        let told = self.keeper.stdin.as_mut().map(|stdin| stdin.write_all(b"\n"));
        match told {
            Some(Ok(())) => Ok(()),
            _ => Err(self.failure("the process that keeps mongod has ended")),
        }
    }

    /// `None` when the port is taken.
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
        // One that is killed would leave its socket's file behind.
        keeper.arg("--nounixsocket");
        keeper.args([
            "--wiredTigerCacheSizeGB",
            if options.of_several { "0.25" } else { "0.5" },
        ]);
        // 5 MB on disk, and not 300
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

    /// Whether it listens; `false` when the port was taken. Its own log says it, since another process might answer.
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
            if started.elapsed() > PATIENCE {
                return Err(self.failure(&format!("mongod did not listen within {PATIENCE:?}")));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// A client of this node alone. It is a new one each time: one that connected before the initiation may keep a wrong
    /// idea of the topology.
    pub(crate) async fn direct_client(&self) -> mongodb::error::Result<Client> {
        let uri = format!(
            "mongodb://127.0.0.1:{}/?directConnection=true&serverSelectionTimeoutMS=60000",
            self.port
        );
        Client::with_options(ClientOptions::parse(uri).await?)
    }

    /// Whether this node is the primary, or a standalone.
    pub(crate) async fn is_primary(&self) -> mongodb::error::Result<bool> {
        let admin = self.direct_client().await?.database("admin");
        let hello: Document = admin.run_command(doc! { "hello": 1 }).await?;
        Ok(hello.get_bool("isWritablePrimary").unwrap_or(false))
    }

    async fn wait_until_primary(&self) -> Result<(), String> {
        let started = Instant::now();
        while !self.is_primary().await.map_err(|error| error.to_string())? {
            if started.elapsed() > PATIENCE {
                return Err(format!("mongod was not primary within {PATIENCE:?}"));
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// As MongoDB does by default since 5.0. With less, a transaction may not see what another client was told to be
    /// stored.
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
                    // A server with access control is its users' to set up.
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
        // The keeper ends by itself now; an error here would mean that it has ended already.
        let _ = self.keeper.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Makes a replica set of these nodes.
pub(crate) async fn initiate(nodes: &[&Mongod], election_timeout: Duration) -> Result<(), String> {
    let election = i64::try_from(election_timeout.as_millis()).unwrap_or(i64::MAX);
    // Until a heartbeat has timed out, the others may go on to follow a node that stands still.
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
        .map_err(|error| StartError::one(format!("looking for a free port of 127.0.0.1: {error}")))
}

/// Ctrl-C in a terminal reaches the whole process group. The keeper must outlive it to clean up.
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
    async fn a_port_that_was_taken_meanwhile_is_noticed() {
        let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let program = locate().unwrap();
        let started = Mongod::start_on(port, &program, &MongodOptions::new()).await.unwrap();
        assert!(started.is_none());
    }
}
