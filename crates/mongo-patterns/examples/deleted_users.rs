//! Users with a unique address, which is free as soon as a user is deleted: deleted ones are in a second collection.
//!
//! `cargo run --example deleted_users`

mod support;

use std::time::Duration;

use anyhow::Result;
use mongo_patterns::prelude::*;
use mongodb::bson::{Document, doc};
use mongodb::options::IndexOptions;
use mongodb::{Collection, IndexModel};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct User {
    #[serde(rename = "_id")]
    id: i32,
    name: String,
    email: String,
}

fn claire(id: i32) -> User {
    User {
        id,
        name: "Claire".to_owned(),
        email: "claire@example.com".to_owned(),
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let (database, recorder) = support::open_recorded("deleted_users").await?;
    let users: Collection<User> = database.collection("users");
    let deleted: Collection<User> = database.collection("deleted_users");
    let unique = IndexOptions::builder().unique(true).build();
    let email = IndexModel::builder().keys(doc! { "email": 1 }).options(unique).build();
    users.create_index(email).await?;
    let trash = Trash::<User>::builder(users.clone(), deleted.clone())
        .expires_after(Duration::from_secs(30 * 24 * 60 * 60))
        .build()?;
    trash.ensure_indexes().await?;

    println!("# A deletion moves the document\n");
    users.insert_one(claire(1)).await?;
    recorder.clear();
    trash.delete(1).by("ann").await?;
    println!("On the wire: {}", recorder.names().join(", "));
    if let Some(entry) = deleted.clone_with_type::<Document>().find_one(doc! {}).await? {
        let fields: Vec<&str> = entry.keys().map(String::as_str).collect();
        println!("The entry has {}", fields.join(", "));
    }
    println!("users: {}\n", users.count_documents(doc! {}).await?);

    println!("# Her address is free\n");
    users.insert_one(claire(2)).await?;
    match trash.restore(1).await {
        Err(error) if error.kind() == ErrorKind::DuplicateKey => println!("user 1 is not restored: {error}"),
        restored => println!("{:?}", restored?),
    }
    let address = doc! { "$set": { "email": "claire2@example.com" } };
    users.update_one(doc! { "_id": 2 }, address).await?;
    trash.restore(1).await?;
    println!("user 1 is restored, users: {}\n", users.count_documents(doc! {}).await?);

    println!("# What was deleted, and by whom\n");
    for id in [1, 2] {
        trash.delete(id).by(doc! { "admin": id }).await?;
    }
    for entry in trash.list().newest_first().page().await?.items {
        let who = entry.deleted_by.map(|who| who.to_string()).unwrap_or_default();
        println!("{} {}, by {who}", entry.document.id, entry.document.email);
    }
    let last = trash.list().newest_first().limit(1).page().await?.items[0].deleted_at;
    let emptied = trash.delete_before(last).await?;
    println!("{} deleted for good", emptied.documents);
    Ok(())
}
