//! A directory of files whose calls a test delays, fails or changes.

use std::fmt::{self, Debug, Display};
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt, once};
use mongo_patterns::archive_files::object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, local::LocalFileSystem, path::Path,
};

/// What a test does before and after the calls.
#[async_trait]
pub trait Hooks: Debug + Send + Sync + 'static {
    /// Runs before a write of this content.
    async fn before_put(&self, files: &LocalFileSystem, path: &Path, content: &PutPayload) -> Result<()>;

    /// Runs after a write.
    fn after_put(&self) {}

    /// Runs before and after a deletion.
    fn around_delete(&self) -> Result<()> {
        Ok(())
    }

    /// Returns how many bytes of this number a read returns.
    fn read_bytes(&self, bytes: usize) -> usize {
        bytes
    }
}

#[derive(Debug)]
pub struct Hooked<H>(Arc<(LocalFileSystem, H)>);

impl<H: Hooks> Hooked<H> {
    pub fn new(files: LocalFileSystem, hooks: H) -> Self {
        Self(Arc::new((files, hooks)))
    }
}

impl<H> Display for Hooked<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hooked")
    }
}

#[async_trait]
impl<H: Hooks> ObjectStore for Hooked<H> {
    async fn put_opts(&self, path: &Path, content: PutPayload, options: PutOptions) -> Result<PutResult> {
        let (files, hooks) = &*self.0;
        hooks.before_put(files, path, &content).await?;
        let written = files.put_opts(path, content, options).await;
        hooks.after_put();
        written
    }

    async fn put_multipart_opts(&self, path: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.0.0.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let (files, hooks) = &*self.0;
        let content = files.get(path).await?.bytes().await?;
        let content = content.slice(..hooks.read_bytes(content.len()));
        let mut result = files.get_opts(path, options).await?;
        result.payload = GetResultPayload::Stream(once(async { Ok(content) }).boxed());
        Ok(result)
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let shared = self.0.clone();
        let delete = async move |path: Result<Path>| {
            let ((files, hooks), path) = (&*shared, path?);
            hooks.around_delete()?;
            files.delete(&path).await?;
            hooks.around_delete()?;
            Ok(path)
        };
        let delete = Arc::new(delete);
        paths
            .then(move |path| {
                let delete = delete.clone();
                async move { delete(path).await }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.0.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.0.copy_opts(from, to, options).await
    }
}
