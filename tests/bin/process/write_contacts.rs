//! A program of one release that counts in contacts, as in a rolling deployment. Its arguments are the connection string, the
//! database, and the release: `guarded` is the first one, `typed` and `server` are the second one, which also migrates. It
//! writes until its input ends, and then each document once more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use mongo_patterns::ErrorKind;
use mongo_patterns::mongodb::Client;
use mongo_patterns::mongodb::bson::{Bson, Document, doc};
use mongo_patterns::schema::SchemaRepository;

use super::arguments::argument;

const DOCUMENTS: i32 = 30;

#[tokio::main]
pub(super) async fn main() -> Result<()> {
    let (uri, database, release) = (argument()?, argument()?, argument()?);
    let contacts = Client::with_uri_str(uri)
        .await?
        .database(&database)
        .collection::<Document>("contacts");
    let builder = SchemaRepository::<Document>::builder(contacts);
    // The second release has the number in a document.
    let typed = |mut old: Document| {
        let number = old.remove("n").unwrap_or(Bson::Int32(0));
        old.insert("count", doc! { "n": number });
        Ok(old)
    };
    let stages = vec![doc! { "$set": { "count": { "n": "$n" } } }, doc! { "$unset": "n" }];
    let (contacts, field) = match release.as_str() {
        "guarded" => (builder.build()?, "n"),
        "typed" => (builder.step(1, typed).build()?, "count.n"),
        _ => (builder.pipeline_step(1, stages).build()?, "count.n"),
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_over);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        ends.store(true, Ordering::Relaxed);
    });
    let (mut acknowledged, mut refused, mut failed) = (0, 0, 0);
    let mut write = async |id: i32| match contacts.update(id, doc! { "$inc": { field: 1 } }).await {
        Ok(_) => acknowledged += 1,
        Err(error) if error.kind() == ErrorKind::NewerVersion => refused += 1,
        Err(_) => failed += 1,
    };
    let writes = async {
        // All documents once more after the end of its input.
        let (mut id, mut more) = (0, DOCUMENTS);
        while more > 0 {
            more -= i32::from(is_over.load(Ordering::Relaxed));
            id = (id + 7) % DOCUMENTS;
            write(id).await;
        }
    };
    let migration = async {
        match release.as_str() {
            "guarded" => Ok(()),
            _ => contacts.migrate().chunk(5).await.map(drop),
        }
    };
    futures::join!(writes, migration).1?;
    println!("{acknowledged} {refused} {failed}");
    Ok(())
}
