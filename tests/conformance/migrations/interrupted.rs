//! A migration that fails or is dropped at one of its commands resumes to the same result. It fails and is dropped by turns, at
//! every fourth command: both leave what the commands before have written. The long form of the
//! table of faults has all commands.

use mongo_patterns_core::migration::MigrateOptions;
use mongo_patterns_testkit::FailPoint;
use mongodb::bson::Document;

use super::for_each;
use super::model::Case;
use support::common::{dropped_commands, end_transactions};

/// `Interrupted`, which the driver does not retry.
const INTERRUPTED: i32 = 11_601;

impl Case<'_> {
    /// In small chunks, with invalid documents where the migration has them.
    fn options(&self) -> MigrateOptions {
        let has_invalid = (self.migration.selected)().is_some();
        MigrateOptions {
            chunk: self.migration.is_paced.then_some(7),
            concurrency: Some(1),
            skipped: has_invalid.then(|| self.db.collection("skipped")),
            ..MigrateOptions::default()
        }
    }

    async fn begin_with_invalid(&self) {
        self.begin().await;
        if let Some(selected) = (self.migration.selected)() {
            let source = self.db.plain_collection::<Document>(selected.source);
            let invalid = selected.invalid.iter().map(|(document, _)| document);
            source.insert_many(invalid).await.unwrap();
        }
    }

    /// Returns all documents, and the names of the indexes.
    async fn stored(&self) -> Vec<String> {
        let mut stored = self.documents().await;
        for (name, _, indexes) in self.collections().await {
            stored.extend(indexes.into_iter().map(|index| format!("{name} has {index}")));
        }
        stored.sort_unstable();
        stored
    }

    /// Checks that the documents and indexes are these.
    async fn assert_stored(&self, expected: &[String], context: &str) {
        let found = self.stored().await;
        let missing: Vec<_> = expected.iter().filter(|one| !found.contains(one)).collect();
        let others: Vec<_> = found.iter().filter(|one| !expected.contains(one)).collect();
        assert!(found == expected, "{context}: {missing:#?} are not {others:#?}");
    }

    /// Returns the commands of an undisturbed run, and the documents and indexes after it. On a slow server, a move to another
    /// cluster can give up a transaction and begin again.
    async fn commands(&self) -> (Vec<String>, Vec<String>) {
        for _ in 0..5 {
            self.begin_with_invalid().await;
            self.run(self.options()).await.unwrap();
            let commands = self.db.recorder().names();
            if !commands.iter().any(|name| name == "abortTransaction") {
                return (commands, self.stored().await);
            }
        }
        panic!("{}: the server is too slow for this test", self.migration.name);
    }
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_migration_that_fails_or_is_dropped_at_a_command_resumes() {
    for_each(async |db, migration| {
        let (case, name) = (Case::new(db, migration), migration.name);
        let (commands, expected) = case.commands().await;
        let mut names: Vec<&str> = commands.iter().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        let mut failed = 0;
        for (turn, command) in (1..commands.len()).step_by(4).enumerate() {
            let context = format!("{name}, command {command} of {commands:?}");
            case.begin_with_invalid().await;
            if turn % 2 == 0 {
                // All after it fail too.
                let fault = FailPoint::on(&names).error_code(INTERRUPTED).plan(db, command);
                failed += usize::from(case.run(case.options()).await.is_err());
                fault.end();
            } else {
                // With several documents in flight.
                let concurrency = None;
                let several = MigrateOptions {
                    concurrency,
                    ..case.options()
                };
                let sent = db.recorder().sent(command + 1);
                tokio::select! {
                    biased;
                    () = sent => {}
                    _ = case.run(several) => {}
                }
                dropped_commands(db).await;
            }
            end_transactions(db).await;
            let resumed = case.run(case.options()).await;
            resumed.unwrap_or_else(|error| panic!("{context}: {error:?}"));
            case.assert_stored(&expected, &context).await;
        }
        assert!(failed * 12 > commands.len(), "{name}: {failed} of {commands:?}");
    })
    .await;
}
