//! The search for programs on the `PATH`.

use std::env;
use std::path::PathBuf;

/// Returns the first executable file with this name on the `PATH`.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}
