//! Migrations: a plain step and one in a transaction.

use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns::schema::Migrations;
use mongodb::bson::{Document, doc};
use mongodb::{Collection, Database};

use super::operation::Promise::{Reads, Steps};
use super::operation::{Call, Model, Of, Operations, UNREAD, calls, retry_policy};

/// An instance of a service.
pub(super) struct Instance {
    database: Database,
    trace: Collection<Document>,
}

impl Instance {
    fn migrations(&self) -> Migrations {
        // The next call waits so long for the lease of a call that failed.
        let list = Migrations::new(&self.database).time_to_live(Duration::from_secs(2));
        list.retry(retry_policy())
            .step("a", async |database| {
                let trace = database.collection::<Document>("trace");
                let set = doc! { "$set": { "step": "a" } };
                // In a task, so that the driver receives the reply when the step is dropped.
                let update = async move { trace.update_one(doc! { "_id": 1 }, set).upsert(true).await };
                tokio::spawn(update).await.unwrap()?;
                Ok(())
            })
            .step_in_transaction("b", async |database, session| {
                let trace = database.collection::<Document>("trace");
                trace.insert_one(doc! { "step": "b" }).session(session).await?;
                Ok(())
            })
    }

    async fn recorded(&self) -> Vec<String> {
        let status = self.migrations().status().await.unwrap();
        let applied = status.applied.iter().map(|step| format!("recorded {}", step.name));
        applied.collect()
    }
}

impl Model for Instance {
    const PATTERN: &'static str = "schema";
    const COLLECTIONS: &'static [&'static str] = &["trace", "mongo_patterns"];

    fn new(of: Of<'_>) -> Self {
        Self {
            database: of.database.clone(),
            trace: of.collection("trace"),
        }
    }

    async fn fill(&self) {}

    async fn facts(&self) -> Vec<String> {
        let found: Vec<Document> = self.trace.find(doc! {}).await.unwrap().try_collect().await.unwrap();
        let mut facts = self.recorded().await;
        facts.extend(
            found
                .iter()
                .map(|found| format!("{UNREAD}{}", found.get_str("step").unwrap())),
        );
        facts
    }

    async fn read(&self) -> Option<Vec<String>> {
        Some(self.recorded().await)
    }

    /// A step that is recorded and has left no trace.
    async fn damage(&self) -> Vec<String> {
        let facts = self.facts().await;
        let is_missing =
            |step: &&str| facts.contains(&format!("recorded {step}")) && !facts.contains(&format!("{UNREAD}{step}"));
        let missing = ["a", "b"].into_iter().filter(is_missing);
        missing.map(str::to_owned).collect()
    }
}

impl Operations for Instance {
    fn operations() -> Vec<Call<Self>> {
        calls! { Instance;
            Steps, "Migrations::run", "", |m| m.migrations().run().await;
            Steps, "Migrations::mark", "", |m| m.migrations().mark("a", "ann").await.map(drop)
                => prepare(|m| m.trace.insert_one(doc! { "step": "a" }).await.map(drop).unwrap());
            Steps, "Migrations::unmark", "", |m| m.migrations().unmark("b", "ann").await.map(drop)
                => prepare(|m| m.migrations().run().await.map(drop).unwrap());
            Steps, "Migrations::release_lease", "", |m| m.migrations().release_lease("ann").await.map(drop);
            Reads, "Migrations::status", "", |m| m.migrations().status().await;
        }
    }
}
