//! A process that follows the policies of the database in its arguments, for the tests that kill one. It prints a line
//! after each batch.

use mongo_patterns::history::HistoryRepository;
use mongodb::Client;
use mongodb::bson::Document;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = || arguments.next().ok_or("arguments: connection string, database, name");
    let (uri, database, name) = (argument()?, argument()?, argument()?);
    let database = Client::with_uri_str(uri).await?.database(&database);
    let (current, revisions) = (
        database.collection::<Document>("currentPolicies"),
        database.collection::<Document>("policyRevisions"),
    );
    let policies = HistoryRepository::<Document>::builder(current, revisions)
        .id_field("policyId")
        .revision_field("revision")
        .time_field("dateSet")
        .build()?;
    let mut changes = 0;
    let follow = policies.follow(name).on_progress(move |at| {
        if at.changes > changes {
            changes = at.changes;
            println!("{changes} changes");
        }
    });
    follow.await?;
    Ok(())
}
