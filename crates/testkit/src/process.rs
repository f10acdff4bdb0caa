//! A server process in a temporary directory, which ends with this process.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::options::ClientOptions;

use crate::StartError;
use crate::machine::{Folder, Machine};
use crate::system::own_process_group;

/// The longest time that a start may take. On an idle machine it takes under a second.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(120);
pub(crate) const POLL: Duration = Duration::from_millis(20);
/// The exit status of a server that cannot listen on its port. Its text depends on the system.
const NET_ERROR: i32 = 48;

/// Runs the program of its arguments, and kills it when its own standard input closes. The system closes that pipe
/// however the process ends, even by a kill. Then the keeper removes the directory, which needs no clean shutdown. A
/// line on its standard input kills the program too, and a second line starts it again.
const KEEPER: &str = r#"
folder=$1; shift
mkdir -p "$folder/data"
exec 3<&0
while
  rm -f "$folder/ended.txt" "$folder/log.txt"
  "$@" </dev/null >"$folder/out.txt" 2>&1 3<&- &
  server=$!
  echo "$server"
  (read -r _ <&3; kill -KILL "$server") 2>/dev/null &
  keeper=$!
  wait "$server"
  echo "$?" >"$folder/ended.txt"
  wait "$keeper"
  read -r _ <&3
do :; done
rm -rf "$folder"
"#;

/// A mongod or mongos on a free port of 127.0.0.1.
#[derive(Debug)]
pub(crate) struct Process {
    /// `mongod` or `mongos`, for errors.
    name: &'static str,
    pub(crate) machine: Machine,
    keeper: Child,
    /// The keeper's standard output, to which it writes the process id. It is kept open because a write to a closed
    /// pipe would end the keeper.
    pids: Option<BufReader<ChildStdout>>,
    pub(crate) pid: u32,
    pub(crate) port: u16,
    pub(crate) folder: Folder,
}

impl Process {
    /// Starts a program with test commands enabled, and waits until it listens. Its data is in `data` of its folder.
    pub(crate) async fn start(
        machine: &Machine,
        name: &'static str,
        arguments: impl Fn(&Folder) -> Vec<OsString>,
    ) -> Result<Self, StartError> {
        // Another process can take the free port before the program does. Then the program ends, and the next attempt
        // uses another port.
        for _ in 0..10 {
            let port = machine.next_port()?;
            if let Some(process) = Self::start_on(machine, port, name, &arguments).await? {
                return Ok(process);
            }
        }
        Err(StartError::one(format!(
            "other processes took 10 free ports before {name} could: run the tests again"
        )))
    }

    /// Returns `None` if the port is taken.
    async fn start_on(
        machine: &Machine,
        port: u16,
        name: &'static str,
        arguments: &impl Fn(&Folder) -> Vec<OsString>,
    ) -> Result<Option<Self>, StartError> {
        let failed = |error: std::io::Error| StartError::one(format!("starting {name}: {error}"));
        let folder = machine.new_folder().map_err(failed)?;

        let mut keeper = machine.command("sh");
        keeper.args(["-c", KEEPER, "keeper"]).arg(&folder.0);
        keeper.arg(machine.program(name));
        keeper.arg("--logpath").arg(folder.file("log.txt"));
        keeper.args(["--bind_ip", machine.bind_ip(), "--port", &port.to_string()]);
        // A killed server would leave its socket file behind.
        keeper.arg("--nounixsocket");
        keeper.args(["--setParameter", "enableTestCommands=1"]);
        keeper.args(arguments(&folder));
        own_process_group(&mut keeper);
        let mut keeper = keeper
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let mut pids = keeper.stdout.take().map(BufReader::new);
        let pid = read_pid(&mut pids).map_err(failed)?;
        let process = Self {
            name,
            machine: machine.clone(),
            keeper,
            pids,
            pid,
            port,
            folder,
        };
        Ok(process.wait_until_it_listens().await?.then_some(process))
    }

    /// Kills it with SIGKILL. Its data remains.
    pub(crate) async fn kill(&mut self) -> Result<(), StartError> {
        self.signal_keeper()?;
        let started = Instant::now();
        while self.read("ended.txt").is_err() {
            if started.elapsed() > START_TIMEOUT {
                return Err(self.failure(&format!("{} did not end after SIGKILL", self.name)));
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Starts it after [`kill`](Self::kill), and waits until it listens. Returns `false` if its port is taken.
    pub(crate) async fn start_again(&mut self) -> Result<bool, StartError> {
        self.signal_keeper()?;
        self.pid = read_pid(&mut self.pids).map_err(|error| self.failure(&error.to_string()))?;
        self.wait_until_it_listens().await
    }

    /// Starts it after [`kill`](Self::kill), when its port is free, and waits until it listens.
    pub(crate) async fn restart(&mut self) -> Result<(), StartError> {
        let started = Instant::now();
        while !self.start_again().await? {
            // Another process has its port at the moment.
            self.kill().await?;
            if started.elapsed() > START_TIMEOUT {
                return Err(self.failure("another process has taken its port"));
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Sends a signal, such as `STOP`.
    pub(crate) fn signal(&self, signal: &str) -> Result<(), StartError> {
        let mut kill = self.machine.command("sh");
        kill.args(["-c", r#"kill -s "$1" "$2""#, "kill", signal, &self.pid.to_string()]);
        let sent = kill.stdin(Stdio::null()).status();
        match sent {
            Ok(status) if status.success() => Ok(()),
            _ => Err(self.failure(&format!("SIG{signal} could not be sent to {}", self.name))),
        }
    }

    /// Writes a line to the keeper, which then kills the program or starts it again.
    fn signal_keeper(&mut self) -> Result<(), StartError> {
        let written = self.keeper.stdin.as_mut().map(|stdin| stdin.write_all(b"\n"));
        match written {
            Some(Ok(())) => Ok(()),
            _ => Err(self.failure(&format!("the keeper process of {} has ended", self.name))),
        }
    }

    /// Waits until it listens. Returns `false` if the port is taken. It reads the program's own log, because another
    /// process could answer on the port.
    async fn wait_until_it_listens(&self) -> Result<bool, StartError> {
        let started = Instant::now();
        loop {
            let log = self.read("log.txt").unwrap_or_default();
            if log.contains("Waiting for connections") {
                return Ok(true);
            }
            // The keeper creates the file before it writes the status.
            let ended = self.read("ended.txt").unwrap_or_default();
            match ended.trim().parse() {
                Ok(NET_ERROR) => return Ok(false),
                Ok(status) => return Err(self.failure(&format!("{} ended with status {status}", self.name))),
                Err(_) => {}
            }
            if started.elapsed() > START_TIMEOUT {
                return Err(self.failure(&format!("{} did not listen within {START_TIMEOUT:?}", self.name)));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Returns a new client of this process alone. A client that connected before the initiation of a replica set can
    /// keep an outdated topology.
    pub(crate) async fn direct_client(&self) -> mongodb::error::Result<Client> {
        let uri = format!(
            "mongodb://127.0.0.1:{}/?directConnection=true&serverSelectionTimeoutMS=60000",
            self.port
        );
        Client::with_options(ClientOptions::parse(uri).await?)
    }

    /// Runs a command on this process alone.
    pub(crate) async fn admin(&self, command: Document) -> mongodb::error::Result<Document> {
        self.direct_client().await?.database("admin").run_command(command).await
    }

    /// Waits until it is the primary, or a standalone.
    pub(crate) async fn wait_until_primary(&self) -> Result<(), String> {
        let started = Instant::now();
        loop {
            let hello = self
                .admin(doc! { "hello": 1 })
                .await
                .map_err(|error| error.to_string())?;
            if hello.get_bool("isWritablePrimary").unwrap_or(false) {
                return Ok(());
            }
            if started.elapsed() > START_TIMEOUT {
                return Err(format!("{} was not primary within {START_TIMEOUT:?}", self.name));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Reads a file of its directory.
    fn read(&self, name: &str) -> std::io::Result<String> {
        self.machine.read(self.folder.file(name))
    }

    /// Creates an error with the end of the log.
    pub(crate) fn failure(&self, problem: &str) -> StartError {
        StartError::one(self.problem(problem))
    }

    /// Adds the end of the log to a problem.
    pub(crate) fn problem(&self, problem: &str) -> String {
        let tail = |name: &str| {
            let text = self.read(name).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(10)..].join("\n")
        };
        format!("{problem}\n{}\n{}", tail("out.txt"), tail("log.txt"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // The keeper now ends. An error here means that it has ended already.
        let _ = self.keeper.wait();
        if let Some(folder) = self.machine.of_host(&self.folder) {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

fn read_pid(pids: &mut Option<BufReader<ChildStdout>>) -> std::io::Result<u32> {
    let mut pid = String::new();
    if let Some(pids) = pids {
        pids.read_line(&mut pid)?;
    }
    let ended = |_| std::io::Error::new(ErrorKind::UnexpectedEof, "the keeper process has ended");
    pid.trim().parse().map_err(ended)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locate;

    #[tokio::test]
    async fn a_start_on_a_taken_port_returns_none() {
        let machine = Machine::start(locate::mongod().unwrap(), 1).unwrap();
        let arguments = |folder: &Folder| vec!["--dbpath".into(), folder.file("data")];
        let first = Process::start(&machine, "mongod", arguments).await.unwrap();
        let started = Process::start_on(&machine, first.port, "mongod", &arguments)
            .await
            .unwrap();
        assert!(started.is_none());
    }
}
