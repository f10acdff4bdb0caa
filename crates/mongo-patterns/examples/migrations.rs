//! Three instances of a service start at once, and apply the migrations of their release once. Then a newer release starts,
//! and an instance of the older one again.
//!
//! `cargo run --example migrations`

mod support;

use anyhow::Result;
use mongo_patterns::mongodb::bson::{Document, doc};
use mongo_patterns::mongodb::{Database, IndexModel};
use mongo_patterns::schema::Migrations;

/// The migrations of the first release.
fn first_release(database: &Database) -> Migrations {
    Migrations::new(database)
        // Idempotent, because it can run twice if its process dies.
        .step("2026-11-25 email index", async |database| {
            let index = IndexModel::builder().keys(doc! { "email": 1 }).build();
            database.collection::<Document>("users").create_index(index).await?;
            Ok(())
        })
        // In one transaction with its record: exactly once.
        .step_in_transaction("2026-12-01 welcome bonus", async |database, session| {
            let users = database.collection::<Document>("users");
            users
                .update_many(doc! {}, doc! { "$inc": { "points": 100 } })
                .session(session)
                .await?;
            Ok(())
        })
}

/// New steps are added at the end.
fn second_release(database: &Database) -> Migrations {
    first_release(database).step("2027-01-15 status", async |database| {
        let without = doc! { "status": { "$exists": false } };
        let users = database.collection::<Document>("users");
        users
            .update_many(without, doc! { "$set": { "status": "active" } })
            .await?;
        Ok(())
    })
}

#[tokio::main]
async fn main() -> Result<()> {
    let (database, recorder) = support::open_recorded("migrations").await?;
    let users = database.collection::<Document>("users");
    users.insert_one(doc! { "_id": 1, "email": "ann@example.com" }).await?;

    let start = async || first_release(&database).run().await;
    let (a, b, c) = tokio::join!(start(), start(), start());
    let mut ran: Vec<usize> = [a?, b?, c?].iter().map(|applied| applied.steps.len()).collect();
    ran.sort_unstable();
    println!("Steps that three instances ran: {ran:?}");

    let status = second_release(&database).status().await?;
    println!("Pending in the second release: {:?}", status.pending);
    println!(
        "The second release runs: {:?}",
        second_release(&database).run().await?.steps
    );

    recorder.clear();
    let older = first_release(&database).run().await?;
    println!(
        "The first release starts again: runs {:?}, does not know {:?}, sends {:?}",
        older.steps,
        older.unknown,
        recorder.names()
    );
    println!("{}", users.find_one(doc! {}).await?.unwrap_or_default());
    Ok(())
}
