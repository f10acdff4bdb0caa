//! Where server processes run: on this machine, or in a Docker container.

use std::ffi::OsString;
use std::fs;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mongodb::bson::oid::ObjectId;

use crate::StartError;
use crate::docker::{Container, Docker};
use crate::system::free_ports;

/// Where the programs of servers come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// Programs of this machine.
    Programs(Programs),
    /// The image of a container.
    Image(Docker),
}

/// Programs of this machine.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) mongod: PathBuf,
    /// Only located for a sharded cluster.
    pub(crate) mongos: Option<PathBuf>,
}

/// Where the processes of one deployment run. They reach each other, and the client reaches them, at 127.0.0.1.
#[derive(Clone, Debug)]
pub(crate) struct Machine(Arc<Kind>);

#[derive(Debug)]
enum Kind {
    Host(Programs),
    Container {
        container: Container,
        /// The number of its ports that processes have.
        used: AtomicUsize,
    },
}

/// The directory of a process: its data and its log.
#[derive(Clone, Debug)]
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// Returns the path of a file or directory in it. In a container, it is a path of Linux.
    pub(crate) fn file(&self, name: &str) -> OsString {
        let mut path = self.0.clone().into_os_string();
        path.push("/");
        path.push(name);
        path
    }
}

impl Machine {
    /// Prepares it for this number of processes.
    pub(crate) fn start(source: Source, processes: usize) -> std::result::Result<Self, StartError> {
        let kind = match source {
            Source::Programs(programs) => Kind::Host(programs),
            Source::Image(docker) => Kind::Container {
                container: docker.start(processes)?,
                used: AtomicUsize::new(0),
            },
        };
        Ok(Self(Arc::new(kind)))
    }

    pub(crate) fn container(&self) -> Option<&str> {
        match &*self.0 {
            Kind::Host(_) => None,
            Kind::Container { container, .. } => Some(&container.name),
        }
    }

    /// Returns the name or path of a program: `mongod` or `mongos`.
    pub(crate) fn program(&self, name: &str) -> OsString {
        match &*self.0 {
            Kind::Host(Programs { mongod, .. }) if name == "mongod" => mongod.into(),
            Kind::Host(Programs {
                mongos: Some(mongos), ..
            }) => mongos.into(),
            _ => name.into(),
        }
    }

    /// Returns the port of the next process. On this machine, another process can take it before.
    pub(crate) fn next_port(&self) -> std::result::Result<u16, StartError> {
        match &*self.0 {
            Kind::Host(_) => Ok(free_ports(1)?[0]),
            Kind::Container { container, used } => {
                let next = used.fetch_add(1, Ordering::Relaxed);
                let port = container.ports.get(next).copied();
                port.ok_or_else(|| StartError::one("a container has more processes than ports"))
            }
        }
    }

    /// Returns the address on which a process must listen.
    pub(crate) fn bind_ip(&self) -> &'static str {
        match &*self.0 {
            Kind::Host(_) => "127.0.0.1",
            // The engine publishes the port on 127.0.0.1 only, and connects to the address of the container.
            Kind::Container { .. } => "0.0.0.0",
        }
    }

    /// Returns a new directory, which a container does not have yet.
    pub(crate) fn new_folder(&self) -> Result<Folder> {
        Ok(Folder(match &*self.0 {
            Kind::Host(_) => tempfile::Builder::new().prefix("mongo-patterns-").tempdir()?.keep(),
            // A volume of the image, which is removed with the container.
            Kind::Container { .. } => PathBuf::from(format!("/data/db/{}", ObjectId::new())),
        }))
    }

    /// Returns a command that runs a program there.
    pub(crate) fn command(&self, program: impl Into<OsString>) -> Command {
        match &*self.0 {
            Kind::Host(_) => Command::new(program.into()),
            Kind::Container { container, .. } => {
                let mut command = container.command();
                command.arg(program.into());
                command
            }
        }
    }

    /// Reads a text file.
    pub(crate) fn read(&self, path: impl Into<OsString>) -> Result<String> {
        let path = path.into();
        match &*self.0 {
            Kind::Host(_) => fs::read_to_string(path),
            Kind::Container { container, .. } => {
                let mut command = container.command();
                let output = command.arg("cat").arg(path).stdin(Stdio::null()).output()?;
                match output.status.success() {
                    true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
                    false => Err(Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
                }
            }
        }
    }

    /// Returns the directory, if it is one of this machine.
    pub(crate) fn of_host<'a>(&self, folder: &'a Folder) -> Option<&'a Path> {
        matches!(*self.0, Kind::Host(_)).then_some(&folder.0)
    }
}
