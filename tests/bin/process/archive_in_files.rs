//! Calls an archive in files, and dies at a step: it aborts before or after a command that writes, or in the middle of a write
//! of a file. It prints the ids of its sessions. Its arguments are the connection string, the database, the directory, the
//! call, and the step.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use bytes::Bytes;
use mongo_patterns::archive_files::FileArchive;
use mongo_patterns::archive_files::object_store::local::LocalFileSystem;
use mongo_patterns::archive_files::object_store::path::Path;
use mongo_patterns::archive_files::object_store::{PutPayload, Result as StoreResult};
use mongodb::Client;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::event::EventHandler;
use mongodb::event::command::CommandEvent;
use mongodb::options::ClientOptions;

use super::arguments::argument;
use support::hooked_store::{Hooked, Hooks};

/// How many steps are left.
static STEPS: AtomicUsize = AtomicUsize::new(0);

fn step() {
    if STEPS.fetch_sub(1, Ordering::SeqCst) == 1 {
        std::process::abort();
    }
}

/// Who dies at one of these commands has done what they have who die at the command before.
const READS: [&str; 4] = ["aggregate", "find", "getMore", "listIndexes"];

fn on(event: &CommandEvent) {
    if let CommandEvent::Started(started) = event
        && let Some(Bson::Binary(id)) = started
            .command
            .get_document("lsid")
            .ok()
            .and_then(|lsid| lsid.get("id"))
    {
        let id: String = id.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        println!("{id}");
    }
    let name = match event {
        CommandEvent::Started(started) => &started.command_name,
        CommandEvent::Succeeded(succeeded) => &succeeded.command_name,
        CommandEvent::Failed(failed) => &failed.command_name,
        _ => return,
    };
    if !READS.contains(&name.as_str()) {
        step();
    }
}

#[derive(Debug)]
struct Dying;

#[async_trait]
impl Hooks for Dying {
    async fn before_put(&self, files: &LocalFileSystem, path: &Path, content: &PutPayload) -> StoreResult<()> {
        step();
        // As the store itself does.
        let mut temporary = files.path_to_filesystem(path)?.into_os_string();
        temporary.push("#1");
        let half = Bytes::from(content.clone()).slice(..content.content_length() / 2);
        std::fs::write(temporary, half).expect("the directory exists");
        step();
        Ok(())
    }

    fn after_put(&self) {
        step();
    }

    fn around_delete(&self) -> StoreResult<()> {
        step();
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
pub(super) async fn main() -> Result<()> {
    let (uri, database, path, call, steps) = (argument()?, argument()?, argument()?, argument()?, argument()?);
    let mut options = ClientOptions::parse(uri).await?;
    options.command_event_handler = Some(EventHandler::callback(|event| on(&event)));
    let database = Client::with_options(options)?.database(&database);
    let store = Arc::new(Hooked::new(LocalFileSystem::new_with_prefix(path)?, Dying));
    let archive = FileArchive::<Document>::builder(database.collection::<Document>("sales"), store, "")
        .age_field("date")
        .older_than(Duration::from_secs(1))
        .keep(doc! { "retentionPolicy": "permanent" })
        .build()?;
    let files = archive.files(..).await?;
    STEPS.store(steps.parse()?, Ordering::SeqCst);
    match &*call {
        "run" => drop(archive.run().chunk(3).await?),
        "restore" => drop(archive.restore_file(&files[0].name).await?),
        _ => drop(archive.delete_before(DateTime::now()).await?),
    }
    Ok(())
}
