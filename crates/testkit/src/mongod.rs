//! A mongod process of our own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::options::ClientOptions;

use crate::StartError;
use crate::locate::locate;

/// How long a start may take. It takes under a second on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);

/// Runs the program that its arguments name, and ends it when its own standard input ends: the only thing that a
/// process is sure to leave behind, however it ends. Then it removes the folder. Nothing in there is worth a clean
/// shutdown.
const KEEPER: &str = r#"
folder=$1; shift
exec 3<&0
"$@" </dev/null >"$folder/out.txt" 2>&1 3<&- &
mongod=$!
echo "$mongod"
(cat <&3 >/dev/null; kill -KILL "$mongod") 2>/dev/null &
keeper=$!
wait "$mongod"
echo "$?" >"$folder/ended.txt"
wait "$keeper"
rm -rf "$folder"
"#;

/// How to start a [`Mongod`].
#[derive(Clone, Debug, Default)]
pub struct MongodOptions {
    standalone: bool,
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
#[derive(Debug)]
pub struct Mongod {
    keeper: Child,
    pid: u32,
    uri: String,
    folder: PathBuf,
}

impl Mongod {
    /// Starts one and waits until it accepts writes.
    ///
    /// # Errors
    /// When there is no mongod program, or it does not start; with the end of its log.
    pub async fn start(options: MongodOptions) -> Result<Self, StartError> {
        let program = locate()?;
        // Between choosing a free port and mongod taking it, another process may. Then mongod ends, and we try again.
        for _ in 0..10 {
            if let Some(mongod) = Self::start_on(free_port()?, &program, &options).await? {
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
        keeper.args(["--wiredTigerCacheSizeGB", "0.5"]);
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
        let mut pid = String::new();
        if let Some(stdout) = keeper.stdout.take() {
            BufReader::new(stdout).read_line(&mut pid).map_err(failed)?;
        }
        let uri = if options.standalone {
            format!("mongodb://127.0.0.1:{port}/?directConnection=true")
        } else {
            format!("mongodb://127.0.0.1:{port}/?replicaSet=rs0")
        };
        let mongod = Self {
            keeper,
            pid: pid.trim().parse().unwrap_or(0),
            uri,
            folder,
        };
        if !mongod.wait_until_it_listens().await? {
            return Ok(None);
        }
        mongod
            .wait_until_it_writes(port, options)
            .await
            .map_err(|problem| mongod.failure(&problem))?;
        Ok(Some(mongod))
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

    async fn wait_until_it_writes(&self, port: u16, options: &MongodOptions) -> Result<(), String> {
        // A client of its own: one that connected before the initiation may keep a wrong idea of the topology.
        let uri = format!("mongodb://127.0.0.1:{port}/?directConnection=true&serverSelectionTimeoutMS=60000");
        let text = |error: mongodb::error::Error| error.to_string();
        let options_of_client = ClientOptions::parse(uri).await.map_err(text)?;
        let admin = Client::with_options(options_of_client).map_err(text)?.database("admin");
        if !options.standalone {
            let member = doc! { "_id": 0, "host": format!("127.0.0.1:{port}") };
            let config = doc! { "_id": "rs0", "members": [member] };
            admin
                .run_command(doc! { "replSetInitiate": config })
                .await
                .map_err(text)?;
        }
        let started = Instant::now();
        loop {
            let hello: Document = admin.run_command(doc! { "hello": 1 }).await.map_err(text)?;
            if hello.get_bool("isWritablePrimary").unwrap_or(false) {
                return Ok(());
            }
            if started.elapsed() > PATIENCE {
                return Err(format!("mongod was not primary within {PATIENCE:?}"));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn failure(&self, problem: &str) -> StartError {
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
