//! Docker containers in which server processes run.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use mongodb::bson::oid::ObjectId;

use crate::StartError;
use crate::system::{free_ports, on_path, own_process_group};

/// The image of a server that the testkit starts in Docker. It is the official one of MongoDB.
///
/// `MONGOD=docker:IMAGE` names another one, such as `MONGOD=docker:mongo:7.0`.
pub const DOCKER_IMAGE: &str = "mongo:8.3";

/// Says that the container runs, and ends it when its standard input closes. The engine closes that when the client has
/// gone, however it ended.
const HOLD: &str = "echo started; exec cat >/dev/null";

/// What the engine says about a port that another process has.
const PORT_TAKEN: [&str; 3] = [
    "port is already allocated",
    "address already in use",
    "ports are not available",
];

/// Docker, with an image.
#[derive(Clone, Debug)]
pub(crate) struct Docker {
    program: PathBuf,
    image: String,
}

impl Docker {
    /// Finds the program and asks its engine for a sign of life.
    pub(crate) fn find(image: &str) -> Result<Self, String> {
        // The client would take it for an option, or for none.
        if image.is_empty() || image.starts_with('-') {
            return Err("names no image".to_owned());
        }
        let program = on_path("docker").ok_or("there is no docker on the PATH")?;
        let image = image.to_owned();
        let docker = Self { program, image };
        docker.run(&["version", "--format", "{{.Server.Version}}"])?;
        Ok(docker)
    }

    /// Starts a container that publishes this number of ports. Downloads the image if it is not here.
    pub(crate) fn start(&self, ports: usize) -> Result<Container, StartError> {
        self.have_image().map_err(|problem| self.failed(&problem))?;
        // Another process can take a free port before the engine does.
        for _ in 0..10 {
            if let Some(container) = self.start_on(free_ports(ports)?)? {
                return Ok(container);
            }
        }
        Err(self.failed("other processes took 10 free ports before the engine could: run the tests again"))
    }

    fn have_image(&self) -> Result<(), String> {
        if self.run(&["image", "inspect", &self.image]).is_ok() {
            return Ok(());
        }
        eprintln!("downloading the Docker image {} (once)", self.image);
        self.run(&["pull", "--quiet", &self.image]).map(drop)
    }

    /// Returns `None` if a port is taken.
    fn start_on(&self, ports: Vec<u16>) -> Result<Option<Container>, StartError> {
        let failed = |error: std::io::Error| self.failed(&error.to_string());
        let name = format!("mongo-patterns-{}", ObjectId::new());
        let mut run = Command::new(&self.program);
        run.args(["run", "--rm", "--interactive", "--pull=never", "--name", &name]);
        run.args(["--label", "mongo-patterns-testkit"]);
        for port in &ports {
            run.arg(format!("--publish=127.0.0.1:{port}:{port}"));
        }
        run.args(["--entrypoint", "sh", &self.image, "-c", HOLD]);
        own_process_group(&mut run);
        let run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut keeper = run.spawn().map_err(failed)?;
        let mut started = String::new();
        if let Some(stdout) = keeper.stdout.take() {
            BufReader::new(stdout).read_line(&mut started).map_err(failed)?;
        }
        if started.trim() == "started" {
            return Ok(Some(Container {
                docker: self.program.clone(),
                name,
                ports,
                keeper,
            }));
        }
        let mut problem = String::new();
        if let Some(mut stderr) = keeper.stderr.take() {
            stderr.read_to_string(&mut problem).map_err(failed)?;
        }
        keeper.wait().map_err(failed)?;
        match PORT_TAKEN.iter().any(|taken| problem.contains(taken)) {
            true => Ok(None),
            false => Err(self.failed(problem.trim())),
        }
    }

    fn run(&self, arguments: &[&str]) -> Result<Output, String> {
        let mut command = Command::new(&self.program);
        let output = command.args(arguments).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("{}: {error}", self.program.display()))?;
        match output.status.success() {
            true => Ok(output),
            false => Err(format!(
                "docker {}: {}",
                arguments[0],
                String::from_utf8_lossy(&output.stderr).trim()
            )),
        }
    }

    fn failed(&self, problem: &str) -> StartError {
        StartError::one(format!("a container of the image {}: {problem}", self.image))
    }
}

/// A running container. It ends with this value, or with this process, and is removed then.
#[derive(Debug)]
pub(crate) struct Container {
    docker: PathBuf,
    pub(crate) name: String,
    pub(crate) ports: Vec<u16>,
    /// The Docker client that started it.
    keeper: Child,
}

impl Container {
    /// Returns a command that runs a program in the container, with the standard input of the command.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.docker);
        command.args(["exec", "--interactive", &self.name]);
        command
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // The container now ends, and is removed. An error here means that it has ended already.
        let _ = self.keeper.wait();
    }
}
