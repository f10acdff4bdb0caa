//! Applies three steps. Its arguments are the connection string, the database, the time to live in milliseconds, and the step
//! in which it prints a line and then waits for a line.

use std::time::Duration;

use anyhow::Result;
use mongo_patterns::schema::Migrations;
use mongodb::Client;
use mongodb::bson::{Document, doc};

use super::arguments::argument;

#[tokio::main(flavor = "current_thread")]
pub(super) async fn main() -> Result<()> {
    let (uri, database, time_to_live, waits) = (argument()?, argument()?, argument()?.parse()?, argument()?);
    let database = Client::with_uri_str(uri).await?.database(&database);
    let gate = async move |step: &str| {
        if step == waits {
            println!("in {step}");
            // Not in this thread, which renews the lease.
            let line = || std::io::stdin().read_line(&mut String::new());
            let _ = tokio::task::spawn_blocking(line).await;
        }
    };
    let gates = (gate.clone(), gate.clone(), gate);
    let applied = Migrations::new(&database)
        .time_to_live(Duration::from_millis(time_to_live))
        .step("one", async move |database| {
            let trace = database.collection::<Document>("trace");
            trace.insert_one(doc! { "step": "one" }).await?;
            gates.0("one").await;
            Ok(())
        })
        .step_in_transaction("two", async move |database, session| {
            let trace = database.collection::<Document>("trace");
            trace.insert_one(doc! { "step": "two" }).session(session).await?;
            gates.1("two").await;
            Ok(())
        })
        .step("three", async move |database| {
            let trace = database.collection::<Document>("trace");
            trace.insert_one(doc! { "step": "three" }).await?;
            gates.2("three").await;
            Ok(())
        })
        .run()
        .await;
    match applied {
        Ok(applied) => println!("applied {}", applied.steps.join(" ")),
        Err(error) => println!("{} in {}", error.kind().code(), error.step().unwrap_or("no step")),
    }
    Ok(())
}
