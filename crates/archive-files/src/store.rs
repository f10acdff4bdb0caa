//! The calls of the object store. A task of its own polls each to its end, also when the call is dropped.

use std::collections::BTreeSet;
use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

use futures::TryStreamExt;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::error::Error as DriverError;
use object_store::path::Path;
use object_store::{Error as StoreError, ObjectStore, ObjectStoreExt, PutMode, Result as StoreResult};

/// The files below a prefix of an object store.
pub(crate) struct Store {
    pub(crate) files: Arc<dyn ObjectStore>,
    pub(crate) prefix: Path,
}

impl Store {
    /// Polls a call to its end.
    async fn call<T: Send + 'static, F: Future<Output = StoreResult<T>> + Send + 'static>(
        &self,
        name: &str,
        conn: &Conn<'_>,
        call: impl FnOnce(Arc<dyn ObjectStore>, Path) -> F,
    ) -> StoreResult<T> {
        let call = call(self.files.clone(), self.prefix.clone().join(name));
        conn.finish(Box::pin(call)).await
    }

    /// Stores a file that must not exist.
    pub(crate) async fn put(&self, name: &str, content: Vec<u8>, conn: &Conn<'_>) -> Result<()> {
        let put = self.call(name, conn, async move |files, path| {
            files.put_opts(&path, content.into(), PutMode::Create.into()).await
        });
        put.await.map(drop).map_err(|error| failed("write", error))
    }

    /// Reads a file. `None` if it is missing.
    pub(crate) async fn get(&self, name: &str, conn: &Conn<'_>) -> Result<Option<Vec<u8>>> {
        let get = self.call(name, conn, async |files, path| files.get(&path).await?.bytes().await);
        match get.await {
            Ok(content) => Ok(Some(content.into())),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed("read", error)),
        }
    }

    /// Deletes a file, if it exists.
    pub(crate) async fn delete(&self, name: &str, conn: &Conn<'_>) -> Result<()> {
        let delete = self.call(name, conn, async |files, path| files.delete(&path).await);
        match delete.await {
            Ok(()) | Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed("delete", error)),
        }
    }

    /// Lists the names of all files.
    pub(crate) async fn list(&self, conn: &Conn<'_>) -> Result<BTreeSet<String>> {
        let paths = self.files.list(Some(&self.prefix)).map_ok(|file| file.location);
        let paths: StoreResult<Vec<Path>> = conn.finish(Box::pin(paths.try_collect())).await;
        let name = |path: &Path| {
            let segments = path.prefix_match(&self.prefix)?;
            let segments: Vec<_> = segments.map(|segment| segment.as_ref().to_owned()).collect();
            Some(segments.join("/"))
        };
        let paths = paths.map_err(|error| failed("list", error))?;
        Ok(paths.iter().filter_map(name).collect())
    }
}

/// Returns the error of a call of the store. The store's own text has paths, so ours has only the reason.
pub(crate) fn failed(call: &str, error: impl Into<StoreError>) -> Error {
    let error = error.into();
    let text = format!(
        "the store could not {call} a file ({}), the documents are where they were: correct it, and call again",
        reason(&error)
    );
    Error::from_driver(ErrorKind::FileStore, text, DriverError::custom(error))
}

fn reason(error: &StoreError) -> String {
    let mut source: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(cause) = source {
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            return error.kind().to_string();
        }
        source = cause.source();
    }
    let reason = match error {
        StoreError::NotFound { .. } => "not found",
        StoreError::AlreadyExists { .. } => "the file exists",
        StoreError::PermissionDenied { .. } => "permission denied",
        StoreError::Unauthenticated { .. } => "not authenticated",
        StoreError::NotSupported { .. } | StoreError::NotImplemented { .. } => "not supported",
        _ => "see as_driver_error()",
    };
    reason.to_owned()
}
