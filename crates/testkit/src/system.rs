//! The operating system: programs on the `PATH`, free ports, process groups.

use std::env;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

use crate::StartError;

/// Returns the first executable file with this name on the `PATH`.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let name = format!("{name}{}", env::consts::EXE_SUFFIX);
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(&name))
        .find(|path| path.is_file())
}

/// Returns different ports that are free at the moment.
pub(crate) fn free_ports(number: usize) -> Result<Vec<u16>, StartError> {
    let failed = |error| StartError::one(format!("no free port on 127.0.0.1: {error}"));
    let bind = |_| TcpListener::bind(("127.0.0.1", 0));
    let listeners = (0..number).map(bind).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let ports = listeners.iter().map(|listener| Ok(listener.local_addr()?.port()));
    ports.collect::<Result<_, _>>().map_err(failed)
}

/// Ctrl-C in a terminal reaches the whole process group. The keeper must survive it to clean up.
#[cfg(unix)]
pub(crate) fn own_process_group(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
}

#[cfg(not(unix))]
pub(crate) fn own_process_group(_: &mut Command) {}
