//! Helpers that the examples share: a database, and text in the format of mongosh.

// Each example compiles this module separately and uses only a part of it.
#![allow(dead_code, unreachable_pub)]

pub mod cdnow;
pub mod shell;

use std::env;

use anyhow::{Result, anyhow};
use mongo_patterns_testkit::{self as testkit, CommandRecorder};
use mongodb::{Client, Database};

/// Drops and returns the example's database. With `MONGODB_URI` set, the data remains on that server, to inspect it
/// with mongosh or Compass.
pub async fn open(example: &str) -> Result<Database> {
    let server = testkit::server().await.map_err(|error| anyhow!("{error}"))?;
    let client = Client::with_options(server.client_options().await?)?;
    prepare(client, example).await
}

/// Like [`open`], with a client whose commands are recorded.
pub async fn open_recorded(example: &str) -> Result<(Database, CommandRecorder)> {
    let server = testkit::server().await.map_err(|error| anyhow!("{error}"))?;
    let recorder = CommandRecorder::new();
    let mut options = server.client_options().await?;
    recorder.attach(&mut options);
    let database = prepare(Client::with_options(options)?, example).await?;
    recorder.clear();
    Ok((database, recorder))
}

async fn prepare(client: Client, example: &str) -> Result<Database> {
    let server = testkit::server().await.map_err(|error| anyhow!("{error}"))?;
    let database = client.database(&format!("mongo_patterns_{example}"));
    database.drop().await?;
    let version = server.version();
    if env::var_os("MONGODB_URI").is_some() && !server.is_own() {
        println!(
            "MongoDB {version} at MONGODB_URI. The database {} was dropped and is rebuilt; it remains afterwards.\n",
            database.name()
        );
    } else {
        println!(
            "MongoDB {version}, started for this example. Its data is deleted when it ends; set MONGODB_URI to keep it.\n"
        );
    }
    Ok(database)
}
