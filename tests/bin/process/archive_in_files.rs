//! Calls an archive in files, and dies at a step: it aborts before or after a command that writes, or in the middle of a write
//! of a file. It prints the ids of its sessions. Its arguments are the connection string, the database, the directory, the
//! call, and the step.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use mongo_patterns::archive::files::{Directory, FileArchive, FileStore, StoreFuture};
use mongodb::Client;
use mongodb::bson::{Bson, DateTime, Document};
use mongodb::event::EventHandler;
use mongodb::event::command::CommandEvent;
use mongodb::options::ClientOptions;

use super::arguments::argument;

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

struct Dying {
    directory: Directory,
    path: PathBuf,
}

impl FileStore for Dying {
    fn put(&self, name: &str, content: Vec<u8>) -> StoreFuture<()> {
        let temporary = self.path.join(name).with_extension("tmp");
        let (directory, name) = (self.directory.clone(), name.to_owned());
        Box::pin(async move {
            step();
            std::fs::write(temporary, &content[..content.len() / 2])?;
            step();
            directory.put(&name, content).await?;
            step();
            Ok(())
        })
    }

    fn get(&self, name: &str) -> StoreFuture<Vec<u8>> {
        self.directory.get(name)
    }

    fn delete(&self, name: &str) -> StoreFuture<()> {
        let deleted = self.directory.delete(name);
        Box::pin(async move {
            step();
            deleted.await?;
            step();
            Ok(())
        })
    }

    fn list(&self) -> StoreFuture<Vec<String>> {
        self.directory.list()
    }
}

#[tokio::main(flavor = "current_thread")]
pub(super) async fn main() -> Result<()> {
    let (uri, database, path, call, steps) = (argument()?, argument()?, argument()?, argument()?, argument()?);
    let mut options = ClientOptions::parse(uri).await?;
    options.command_event_handler = Some(EventHandler::callback(|event| on(&event)));
    let database = Client::with_options(options)?.database(&database);
    let store = Dying {
        directory: Directory::new(&path),
        path: path.into(),
    };
    let archive = FileArchive::<Document>::builder(database.collection::<Document>("sales"), store)
        .age_field("date")
        .older_than(Duration::from_secs(1))
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
