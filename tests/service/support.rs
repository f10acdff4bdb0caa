//! The example `service` as a process, and a client of it.

use std::io;
use std::net::SocketAddr;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use mongo_patterns_testkit::{Mongod, MongodOptions};
use mongodb::bson::oid::ObjectId;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::OnceCell;

use support::common::pause;

pub const TIMEOUT: Duration = Duration::from_secs(120);
/// The header of a form.
pub const FORM: &str = "content-type: application/x-www-form-urlencoded\r\n";

/// Fails with this text when a future does not end.
pub async fn in_time<T>(text: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, future).await.expect(text)
}

/// A running service. It is killed when this is dropped.
#[derive(Debug)]
pub struct Service {
    child: Child,
    pub address: SocketAddr,
}

/// A response of the service.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// The head, in lower case.
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the kind of a problem.
    pub fn kind(&self) -> String {
        let problem = self.json();
        let kind = problem["type"]
            .as_str()
            .and_then(|kind| kind.strip_prefix("/problems#"));
        kind.unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(header, _)| *header == name).map(|(_, value)| value)
    }
}

impl Service {
    /// Starts one on a free port, and waits until it is ready.
    pub async fn start(uri: &str) -> Self {
        let service = Self::spawn(program(uri)).await;
        service.wait_for("/health/ready", 200).await;
        service
    }

    /// Starts one, and waits until it listens.
    pub async fn spawn(mut program: Command) -> Self {
        let mut child = program
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).await.unwrap();
        let address = line.trim().strip_prefix("http://").unwrap().parse().unwrap();
        Self { child, address }
    }

    pub fn pid(&self) -> u32 {
        self.child.id().expect("the process has ended")
    }

    pub async fn terminate(&self) {
        let pid = self.pid().to_string();
        let signalled = Command::new("kill").args(["-TERM", &pid]).status().await.unwrap();
        assert!(signalled.success());
    }

    pub async fn ended(&mut self) -> ExitStatus {
        in_time("the process does not end", self.child.wait()).await.unwrap()
    }

    /// Sends requests until the response has this status.
    pub async fn wait_for(&self, path: &str, status: u16) {
        let is_answered = async || {
            let answer = try_ask(self.address, "GET", path, "", "").await;
            answer.is_ok_and(|answer| answer.status == status)
        };
        let answered = async {
            while !is_answered().await {
                pause().await;
            }
        };
        in_time(&format!("{path} was never {status}"), answered).await;
    }
}

/// The server of all services that need none of their own. It ends with the process.
static SERVER: OnceCell<Mongod> = OnceCell::const_new();

/// Returns the address of an empty database.
pub async fn uri() -> String {
    let start = async || Mongod::start(MongodOptions::new()).await.unwrap();
    let server = SERVER.get_or_init(start).await;
    server.uri().replace("/?", &format!("/service_{}?", ObjectId::new()))
}

/// Starts a service with an empty database.
pub async fn started() -> Service {
    Service::start(&uri().await).await
}

/// Returns the program of a service on a free port.
pub fn program(uri: &str) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_process"));
    program
        .arg("run-service")
        .env("MONGODB_URI", uri)
        .env("ADDRESS", "127.0.0.1:0");
    program
}

pub async fn get(service: SocketAddr, path: &str) -> Answer {
    ask(service, "GET", path, "", "").await
}

pub async fn send(service: SocketAddr, method: &str, path: &str, body: &Value) -> Answer {
    try_send(service, method, path, body).await.unwrap()
}

/// Sends JSON. Returns an error without a response.
pub async fn try_send(service: SocketAddr, method: &str, path: &str, body: &Value) -> io::Result<Answer> {
    let headers = "content-type: application/json\r\naccept: application/json\r\n";
    try_ask(service, method, path, headers, &body.to_string()).await
}

pub async fn ask(service: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    try_ask(service, method, path, headers, body).await.unwrap()
}

/// Sends a form.
pub async fn post(service: SocketAddr, path: &str, form: &str) -> Answer {
    ask(service, "POST", path, FORM, form).await
}

/// Sends one request on a connection of its own.
async fn try_ask(service: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> io::Result<Answer> {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {service}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    let mut stream = TcpStream::connect(service).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let parsed = answer.split_once("\r\n\r\n").and_then(|(head, body)| {
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Answer {
            status,
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        })
    });
    // A connection that ends in the middle of a response has not answered.
    let whole = parsed.filter(|answer| {
        let length = answer.header("content-length").and_then(|length| length.parse().ok());
        length.is_none_or(|length: usize| length == answer.body.len())
    });
    whole.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}
