//! The testkit: how it gets a server, when it stops the server, and what it offers to tests.

use std::io::{BufRead, BufReader};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures::FutureExt;
use mongo_patterns_testkit::{self as testkit, FailPoint, Mongod, MongodOptions};
use mongodb::Client;
use mongodb::bson::{Document, doc};

use support::common::pause;

/// Returns a process that gets a server of its own.
fn holder() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_process"));
    command.arg("hold-server").env_remove("MONGODB_URI");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// What a server leaves behind if it is not stopped.
enum Traces {
    Process { pid: String, folder: PathBuf },
    Container { name: String },
}

impl Traces {
    fn of(mongod: &Mongod) -> Self {
        match (mongod.pid(), mongod.folder(), mongod.container()) {
            (Some(pid), Some(folder), None) => Self::Process {
                pid: pid.to_string(),
                folder: folder.to_owned(),
            },
            (None, None, Some(name)) => Self::Container { name: name.to_owned() },
            other => panic!("{other:?}"),
        }
    }

    /// Reads the line of `hold-server`.
    fn read(line: &str) -> Option<Self> {
        match *line.split_whitespace().collect::<Vec<_>>() {
            ["process", pid, folder] => Some(Self::Process {
                pid: pid.into(),
                folder: folder.into(),
            }),
            ["container", name] => Some(Self::Container { name: name.into() }),
            _ => None,
        }
    }

    /// Returns whether the process, and its directory or container, exist.
    fn exist(&self) -> [bool; 2] {
        match self {
            Self::Process { pid, folder } => [process_exists(pid), folder.is_dir()],
            Self::Container { name } => [has_container(name); 2],
        }
    }

    async fn wait_until_gone(&self) {
        let started = Instant::now();
        while self.exist() != [false; 2] {
            assert!(started.elapsed() < Duration::from_secs(60), "a server is not stopped");
            pause().await;
        }
    }
}

struct Held {
    child: Child,
    traces: Traces,
}

fn hold() -> Held {
    let mut child = holder().spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let traces = Traces::read(&line).unwrap_or_else(|| panic!("{:?}", read_errors(&mut child)));
    assert_eq!(traces.exist(), [true; 2]);
    Held { child, traces }
}

fn read_errors(child: &mut Child) -> String {
    std::io::read_to_string(child.stderr.take().unwrap()).unwrap()
}

fn process_exists(pid: &str) -> bool {
    succeeds(Command::new("kill").args(["-0", pid]))
}

fn has_container(name: &str) -> bool {
    succeeds(Command::new("docker").args(["inspect", name]))
}

fn succeeds(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.unwrap().success()
}

#[tokio::test]
async fn a_server_stops_with_its_process_even_if_that_is_killed() {
    let mut killed = hold();
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    killed.traces.wait_until_gone().await;

    let mut ended = hold();
    drop(ended.child.stdin.take());
    assert!(ended.child.wait().unwrap().success());
    ended.traces.wait_until_gone().await;
}

#[tokio::test]
async fn a_dropped_server_is_stopped() {
    let mongod = Mongod::start(MongodOptions::new()).await.unwrap();
    // `cargo xtask docker` runs the tests so.
    let is_docker = std::env::var("MONGOD").is_ok_and(|value| value.starts_with("docker"));
    assert_eq!(mongod.container().is_some(), is_docker);
    let traces = Traces::of(&mongod);
    assert_eq!(traces.exist(), [true; 2]);
    drop(mongod);
    assert_eq!(traces.exist(), [false; 2]);
}

#[tokio::test]
async fn a_mongod_that_is_killed_starts_again_with_its_data() {
    let mut mongod = Mongod::start(MongodOptions::new()).await.unwrap();
    // A new client each time: one that knows the old server may need more than its one retry.
    let collection = async |mongod: &Mongod| {
        let client = Client::with_uri_str(mongod.uri()).await.unwrap();
        client.database("test").collection::<Document>("c")
    };
    collection(&mongod).await.insert_one(doc! { "_id": 1 }).await.unwrap();
    let address = mongod.uri().to_owned();
    let listens = async || {
        let (_, rest) = address.split_once("127.0.0.1:").unwrap();
        let port: u16 = rest.split(['/', '?']).next().unwrap().parse().unwrap();
        hello(port).await.is_ok()
    };
    assert!(listens().await);
    for _ in 0..2 {
        let first = mongod.pid();
        mongod.kill().await.unwrap();
        assert!(!listens().await);
        if let Traces::Process { pid, folder } = Traces::of(&mongod) {
            assert!(!process_exists(&pid) && folder.is_dir());
        }
        mongod.restart().await.unwrap();
        assert!(first.is_none() || mongod.pid() != first);
        assert_eq!(collection(&mongod).await.count_documents(doc! {}).await.unwrap(), 1);
    }
    let traces = Traces::of(&mongod);
    drop(mongod);
    traces.wait_until_gone().await;
}

/// Asks the server at a port of 127.0.0.1 who it is. A port that a container publishes accepts connections also when no
/// process listens there.
async fn hello(port: u16) -> mongodb::error::Result<Document> {
    let uri = format!("mongodb://127.0.0.1:{port}/?directConnection=true&serverSelectionTimeoutMS=300");
    let admin = Client::with_uri_str(uri).await?.database("admin");
    admin.run_command(doc! { "hello": 1 }).await
}

#[tokio::test]
async fn servers_that_start_concurrently_do_not_interfere() {
    let starts = (0..3).map(|_| Mongod::start(MongodOptions::new().standalone()));
    let servers = futures::future::try_join_all(starts).await.unwrap();
    for (n, server) in (0..).zip(&servers) {
        let client = Client::with_uri_str(server.uri()).await.unwrap();
        let collection = client.database("test").collection::<Document>("c");
        assert_eq!(collection.count_documents(doc! {}).await.unwrap(), 0);
        collection.insert_one(doc! { "n": n }).await.unwrap();
    }
}

#[tokio::test]
async fn a_mongod_that_does_not_start_reports_the_end_of_its_log() {
    let options = MongodOptions::new().argument("--noSuchOption");
    let error = Mongod::start(options).await.unwrap_err();
    assert!(error.to_string().contains("noSuchOption"), "{error}");
}

fn message(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test]
async fn without_a_server_one_error_lists_the_remedies() {
    let nothing = std::env::temp_dir().join("mongo-patterns-nothing");
    let mut holder = holder();
    holder.env("PATH", &nothing).env("XDG_CACHE_HOME", &nothing);
    let text = message(holder.env_remove("MONGOD"));
    for part in [
        "no MongoDB server was found or started",
        "MONGODB_URI and MONGOD: not set",
        "a mongod on the PATH: none",
        "does not exist yet",
        "there is no python3 on the PATH",
        "there is no docker on the PATH",
        "docker compose up -d --wait",
        "install a mongod",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test]
async fn a_configured_mongod_that_does_not_run_is_an_error() {
    let text = message(holder().env("MONGOD", "/no/such/mongod"));
    assert!(text.contains("MONGOD=/no/such/mongod: cannot be started"), "{text}");
    let text = message(holder().env("MONGOD", "false"));
    assert!(text.contains("MONGOD=false: does not run here"), "{text}");
}

#[tokio::test]
async fn a_docker_image_that_cannot_be_had_is_an_error() {
    let nothing = tempfile::tempdir().unwrap();
    let text = message(holder().env("MONGOD", "docker").env("PATH", nothing.path()));
    assert!(text.contains("MONGOD=docker: there is no docker on the PATH"), "{text}");
    for none in ["docker:", "docker:--privileged"] {
        let text = message(holder().env("MONGOD", none));
        assert!(text.contains(&format!("MONGOD={none}: names no image")), "{text}");
    }
    // A program in place of Docker. First, its engine does not run.
    let with_docker = |image: &str, script: &str| {
        let docker = nothing.path().join("docker");
        std::fs::write(&docker, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&docker, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        message(holder().env("MONGOD", image).env("PATH", nothing.path()))
    };
    for (image, script, expected) in [
        (
            "docker:mongo:7.0",
            "echo 'Cannot connect to the Docker daemon' >&2; exit 1",
            "MONGOD=docker:mongo:7.0: docker version: Cannot connect to the Docker daemon",
        ),
        (
            "docker:mongo:7.0",
            r#"[ "$1" = version ] || { echo 'no such host' >&2; exit 1; }"#,
            "a container of the image mongo:7.0: docker pull: no such host",
        ),
        (
            "docker",
            r#"[ "$1" != run ] || { echo 'no space left' >&2; exit 125; }"#,
            "no space left",
        ),
    ] {
        let text = with_docker(image, script);
        assert!(text.contains(expected), "{text}");
    }
    let runs = nothing.path().join("runs");
    let no_port = format!(
        r#"[ "$1" != run ] || {{ echo "$6" >>'{}'; echo 'Bind failed: port is already allocated' >&2; exit 125; }}"#,
        runs.display()
    );
    let text = with_docker("docker", &no_port);
    assert!(text.contains("other processes took 10 free ports"), "{text}");
    assert_eq!(std::fs::read_to_string(runs).unwrap().lines().count(), 10);
}

#[tokio::test]
async fn the_compose_files_name_the_image_of_the_testkit() {
    let image = format!("image: {}", testkit::DOCKER_IMAGE);
    for file in [
        include_str!("../../docker-compose.yml"),
        include_str!("../../docker-compose.sharded.yml"),
    ] {
        let named = file.lines().map(str::trim).filter(|line| line.starts_with("image: "));
        assert_eq!(named.collect::<Vec<_>>(), [image.as_str()]);
    }
}

#[tokio::test]
async fn a_cluster_without_a_mongos_says_what_is_missing() {
    let nothing = tempfile::tempdir().unwrap();
    let text = message(holder().arg("cluster").env("PATH", nothing.path()).env_remove("MONGOS"));
    for part in [
        "no mongos was found, which a sharded cluster needs",
        "MONGOS: not set",
        "a mongos on the PATH: none",
        "Install a mongos on the PATH, or set MONGOS to its path",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = message(holder().arg("cluster").env("MONGOS", "/no/such/mongos"));
    assert!(text.contains("MONGOS=/no/such/mongos: cannot be started"), "{text}");
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn an_unreachable_configured_server_is_an_error_without_the_password() {
    let closed = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let closed = closed.local_addr().unwrap();
    let uri = format!("mongodb://someone:hunter2@{closed}/?serverSelectionTimeoutMS=300");
    let unreachable = message(holder().env("MONGODB_URI", uri));
    assert!(unreachable.contains(&closed.to_string()), "{unreachable}");
    let nonsense = message(holder().env("MONGODB_URI", "nonsense://someone:hunter2@x"));
    for text in [unreachable, nonsense] {
        assert!(text.contains("the server at MONGODB_URI"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
}

async fn databases() -> Vec<String> {
    let server = testkit::server().await.unwrap();
    let client = Client::with_uri_str(server.uri()).await.unwrap();
    client.list_database_names().await.unwrap()
}

#[tokio::test]
async fn a_database_is_dropped_on_success_and_kept_on_failure() {
    let mut name = String::new();
    testkit::run(async |db| {
        db.collection::<Document>("c").insert_one(doc! {}).await.unwrap();
        name = db.database().name().to_owned();
        assert!(databases().await.contains(&name));
    })
    .await;
    assert!(name.starts_with("test_a_database_is_dropped_on_su"), "{name}");
    assert!(!databases().await.contains(&name));

    let mut kept = Vec::new();
    let failure: Result<(), &str> = testkit::run(async |db| {
        db.collection::<Document>("c").insert_one(doc! {}).await.unwrap();
        kept.push(db.database().clone());
        Err("failed")
    })
    .await;
    assert!(failure.is_err());
    let panic = AssertUnwindSafe(testkit::run(async |db| {
        db.collection::<Document>("c").insert_one(doc! {}).await.unwrap();
        kept.push(db.database().clone());
        assert!(db.database().name().is_empty(), "an intended panic");
    }));
    assert!(panic.catch_unwind().await.is_err());
    assert_eq!(kept.len(), 2);
    for database in kept {
        assert!(databases().await.contains(&database.name().to_owned()));
        database.drop().await.unwrap();
    }
}

#[tokio::test]
async fn a_fail_point_affects_only_its_test_and_ends_with_its_guard() {
    testkit::run(async |db| {
        let insert = async |collection: mongodb::Collection<Document>| collection.insert_one(doc! {}).await;
        let fault = FailPoint::on(&["insert"]).error_code(96).enable(db).await;
        assert!(insert(db.collection("c")).await.is_err());
        insert(db.plain_collection("c")).await.unwrap();
        drop(fault);
        insert(db.collection("c")).await.unwrap();

        let fault = FailPoint::on(&["insert"]).skip(1).error_code(96).enable(db).await;
        insert(db.collection("c")).await.unwrap();
        assert!(insert(db.collection("c")).await.is_err());
        fault.disable().await;
        insert(db.collection("c")).await.unwrap();

        let fault = FailPoint::on(&["insert"]).times(1).block(Duration::from_millis(200));
        let fault = fault.enable(db).await;
        let started = Instant::now();
        insert(db.collection("c")).await.unwrap();
        assert!(started.elapsed() >= Duration::from_millis(200));
        fault.disable().await;
    })
    .await;
}

#[tokio::test]
async fn the_recorder_records_commands_replies_and_failures() {
    testkit::run(async |db| {
        let collection = db.collection::<Document>("c");
        collection.insert_one(doc! { "_id": 1 }).await.unwrap();
        assert!(collection.insert_one(doc! { "_id": 1 }).await.is_err());
        assert!(db.database().run_command(doc! { "noSuchCommand": 1 }).await.is_err());
        let plain = db.plain_collection::<Document>("c");
        plain.insert_one(doc! { "_id": 2 }).await.unwrap();

        let commands = db.recorder().commands();
        assert_eq!(db.recorder().names(), ["insert", "insert", "noSuchCommand"]);
        assert!(commands[0].essence().keys().eq(["insert", "ordered", "documents"]));
        assert!(!commands[1].failed && commands[1].reply.as_ref().unwrap().contains_key("writeErrors"));
        assert!(commands[2].failed && commands[2].reply.is_none());
        db.recorder().clear();
        assert_eq!(db.recorder().round_trips(), 0);
    })
    .await;
}
