//! Where the files are.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;

use tokio::task::spawn_blocking;

/// The future of a call of a [`FileStore`].
pub type StoreFuture<T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;

/// A store of files, such as a [`Directory`]. Implement it over the client of an object store.
///
/// Names are letters, digits and dots. Each file is written once. An archive has a store of its own, such as a prefix of a bucket, with no
/// other files.
///
/// A future owns what it needs, because a task polls it to its end if the call is dropped.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::io;
/// use std::sync::{Arc, Mutex};
///
/// use mongo_patterns::archive::files::{FileStore, StoreFuture};
///
/// #[derive(Default)]
/// struct InMemory(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);
///
/// impl FileStore for InMemory {
///     fn put(&self, name: &str, content: Vec<u8>) -> StoreFuture<()> {
///         let (files, name) = (self.0.clone(), name.to_owned());
///         Box::pin(async move {
///             files.lock().unwrap().insert(name, content);
///             Ok(())
///         })
///     }
///
///     fn get(&self, name: &str) -> StoreFuture<Vec<u8>> {
///         let (files, name) = (self.0.clone(), name.to_owned());
///         Box::pin(async move { files.lock().unwrap().get(&name).cloned().ok_or(io::ErrorKind::NotFound.into()) })
///     }
///
///     fn delete(&self, name: &str) -> StoreFuture<()> {
///         let (files, name) = (self.0.clone(), name.to_owned());
///         Box::pin(async move {
///             files.lock().unwrap().remove(&name);
///             Ok(())
///         })
///     }
///
///     fn list(&self) -> StoreFuture<Vec<String>> {
///         let files = self.0.clone();
///         Box::pin(async move { Ok(files.lock().unwrap().keys().cloned().collect()) })
///     }
/// }
/// ```
pub trait FileStore: Send + Sync + 'static {
    /// Stores a file. When it returns, a failure of the machine does not lose the file: the documents are deleted then.
    fn put(&self, name: &str, content: Vec<u8>) -> StoreFuture<()>;

    /// Reads a file. The error of a missing one has the kind [`NotFound`](io::ErrorKind::NotFound).
    fn get(&self, name: &str) -> StoreFuture<Vec<u8>>;

    /// Deletes a file. A missing one is no error.
    fn delete(&self, name: &str) -> StoreFuture<()>;

    /// Lists the names of all files.
    fn list(&self) -> StoreFuture<Vec<String>>;
}

/// The files of a directory, which must exist.
///
/// A file is written under a temporary name, synced and renamed, and then the directory is synced. Blocking calls are in
/// tokio's threads for them.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Names the directory. Reads nothing.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn blocking<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> StoreFuture<T> {
        let path = self.path.join(name);
        // Not one of another directory, whatever the name is.
        let is_inside = path.parent() == Some(self.path.as_path()) && path.file_name() == Some(name.as_ref());
        Box::pin(async move {
            match is_inside {
                true => spawn_blocking(move || work(&path)).await.map_err(io::Error::other)?,
                false => Err(io::ErrorKind::InvalidInput.into()),
            }
        })
    }
}

const TEMPORARY: &str = "tmp";

impl FileStore for Directory {
    fn put(&self, name: &str, content: Vec<u8>) -> StoreFuture<()> {
        self.blocking(name, move |path| {
            let temporary = path.with_extension(TEMPORARY);
            let mut file = File::create(&temporary)?;
            file.write_all(&content)?;
            file.sync_all()?;
            fs::rename(&temporary, path)?;
            sync_directory_of(path)
        })
    }

    fn get(&self, name: &str) -> StoreFuture<Vec<u8>> {
        self.blocking(name, |path| fs::read(path))
    }

    fn delete(&self, name: &str) -> StoreFuture<()> {
        self.blocking(name, |path| {
            for path in [&path.with_extension(TEMPORARY), path] {
                match fs::remove_file(path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            sync_directory_of(path)
        })
    }

    fn list(&self) -> StoreFuture<Vec<String>> {
        let path = self.path.clone();
        let list = move || {
            let mut names = Vec::new();
            for entry in fs::read_dir(path)? {
                let name = entry?.file_name().to_string_lossy().into_owned();
                if Path::new(&name).extension() != Some(TEMPORARY.as_ref()) {
                    names.push(name);
                }
            }
            Ok(names)
        };
        Box::pin(async move { spawn_blocking(list).await.map_err(io::Error::other)? })
    }
}

/// Makes a rename or a deletion durable.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        // Windows does not open directories, and needs no such call.
        Some(directory) if cfg!(unix) => File::open(directory)?.sync_all(),
        _ => Ok(()),
    }
}
