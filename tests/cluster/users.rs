//! A server whose clients must log in.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use futures::TryStreamExt;
use mongo_patterns_testkit::{Mongod, MongodOptions};
use mongodb::bson::{Document, doc};
use mongodb::options::{ClientOptions, Credential};
use mongodb::results::CollectionSpecification;
use mongodb::{Client, Database};
use tempfile::TempDir;

use support::common::all;

pub(crate) const READER: &str = "Zoe.Reader";
pub(crate) const SECRET: &str = "s3cret/of@Zoe";
const WRITER: [&str; 2] = ["writer", "wr1ter"];
const ROOT: [&str; 2] = ["root", "r00t"];

/// A replica set whose members authenticate by a key file. Its users are an administrator, a writer and a reader.
pub(crate) struct Secured {
    pub(crate) mongod: Mongod,
    _key: TempDir,
}

impl Secured {
    /// Starts the server. The writer has the role `readWrite`, and the reader `read`, in these databases.
    pub(crate) async fn start(databases: &[impl AsRef<str>]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        fs::write(&key, "bW9uZ28tcGF0dGVybnM=").unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o400)).unwrap();
        let key = format!("--keyFile={}", key.display());
        let mongod = Mongod::start(MongodOptions::new().argument(key)).await.unwrap();
        let secured = Self { mongod, _key: folder };
        let user = |[name, password]: [&str; 2], roles: Vec<Document>| {
            doc! { "createUser": name, "pwd": password, "roles": roles }
        };
        // While there is no user, the localhost exception lets a client create the first one.
        let unauthenticated = secured.unauthenticated("admin").await;
        let root = user(ROOT, vec![doc! { "role": "root", "db": "admin" }]);
        unauthenticated.run_command(root).await.unwrap();
        let admin = secured.root("admin").await;
        for (name, role) in [(WRITER, "readWrite"), ([READER, SECRET], "read")] {
            let roles = databases.iter().map(|name| doc! { "role": role, "db": name.as_ref() });
            admin.run_command(user(name, roles.collect())).await.unwrap();
        }
        secured
    }

    pub(crate) async fn unauthenticated(&self, database: &str) -> Database {
        let client = Client::with_uri_str(self.mongod.uri()).await.unwrap();
        client.database(database)
    }

    pub(crate) async fn root(&self, database: &str) -> Database {
        self.log_in(ROOT, database).await
    }

    pub(crate) async fn writer(&self, database: &str) -> Database {
        self.log_in(WRITER, database).await
    }

    pub(crate) async fn reader(&self, database: &str) -> Database {
        self.log_in([READER, SECRET], database).await
    }

    pub(crate) async fn log_in(&self, [name, password]: [&str; 2], database: &str) -> Database {
        let mut options = ClientOptions::parse(self.mongod.uri()).await.unwrap();
        let credential = Credential::builder()
            .username(name.to_owned())
            .password(password.to_owned());
        options.credential = Some(credential.source("admin".to_owned()).build());
        Client::with_options(options).unwrap().database(database)
    }
}

/// Returns the indexes and documents of each collection.
pub(crate) async fn stored(database: &Database) -> BTreeMap<String, (Vec<String>, Vec<Document>)> {
    let mut stored = BTreeMap::new();
    let collections = database.list_collections().filter(doc! { "type": "collection" });
    let collections: Vec<_> = collections.await.unwrap().try_collect().await.unwrap();
    // Where views are stored.
    let is_system = |name: &str| name.starts_with("system.");
    for CollectionSpecification { name, .. } in collections.into_iter().filter(|of| !is_system(&of.name)) {
        let collection = database.collection::<Document>(&name);
        let indexes = collection.list_index_names().await.unwrap();
        stored.insert(name, (indexes, all(&collection).await));
    }
    stored
}
