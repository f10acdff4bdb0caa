//! A migration that fails or is dropped at one of its commands resumes to the same result. It fails at every second command,
//! and is dropped after each of the others: both leave what the commands before have written. The table of faults has all.

use mongo_patterns_core::migration::MigrateOptions;
use mongo_patterns_testkit::FailPoint;
use mongodb::bson::Document;

use super::for_each;
use super::model::Case;
use crate::common::support::{dropped_commands, end_transactions};

/// `Interrupted`, which the driver does not retry.
const INTERRUPTED: i32 = 11_601;

impl Case<'_> {
    /// In small chunks, with invalid documents where the migration has them.
    fn options(&self) -> MigrateOptions {
        let has_invalid = self.migration.selected().is_some();
        MigrateOptions {
            chunk: self.migration.is_paced().then_some(7),
            concurrency: Some(1),
            skipped: has_invalid.then(|| self.db.collection("skipped")),
            ..MigrateOptions::default()
        }
    }

    async fn begin_with_invalid(&self) {
        self.begin().await;
        if let Some(selected) = self.migration.selected() {
            let source = self.db.plain_collection::<Document>(selected.source);
            let invalid = selected.invalid.iter().map(|(document, _)| document);
            source.insert_many(invalid).await.unwrap();
        }
    }

    /// Checks that the documents are these.
    async fn assert_documents(&self, expected: &[String], context: &str) {
        let found = self.documents().await;
        let missing: Vec<_> = expected.iter().filter(|one| !found.contains(one)).collect();
        let others: Vec<_> = found.iter().filter(|one| !expected.contains(one)).collect();
        assert!(found == expected, "{context}: {missing:#?} are not {others:#?}");
    }

    /// Returns the commands of an undisturbed run, and the documents then.
    async fn commands(&self) -> (Vec<String>, Vec<String>) {
        self.begin_with_invalid().await;
        self.run(self.options()).await.unwrap();
        (self.db.recorder().names(), self.documents().await)
    }
}

#[tokio::test]
async fn a_migration_that_fails_at_a_command_resumes() {
    for_each(async |db, migration| {
        let (case, name) = (Case { db, migration }, migration.name());
        let (commands, expected) = case.commands().await;
        let mut names: Vec<&str> = commands.iter().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        let mut failed = 0;
        for command in (1..commands.len()).step_by(2) {
            case.begin_with_invalid().await;
            let skip = u32::try_from(command).unwrap();
            let fault = FailPoint::on(&names).times(1).skip(skip).error_code(INTERRUPTED);
            let fault = fault.enable(db).await;
            let first = case.run(case.options()).await;
            fault.disable().await;
            end_transactions(db).await;
            failed += usize::from(first.is_err());
            case.run(case.options())
                .await
                .unwrap_or_else(|error| panic!("{name}, command {command} of {commands:?}: {error:?}"));
            case.assert_documents(&expected, &format!("{name}, command {command} of {commands:?}"))
                .await;
        }
        assert!(failed * 3 > commands.len(), "{name}: {failed} of {commands:?}");
    })
    .await;
}

#[tokio::test]
async fn a_migration_that_is_dropped_after_a_command_resumes() {
    for_each(async |db, migration| {
        let (case, name) = (Case { db, migration }, migration.name());
        let (commands, expected) = case.commands().await;
        for command in (0..commands.len()).step_by(2) {
            case.begin_with_invalid().await;
            let sent = db.recorder().sent(command + 1);
            tokio::select! {
                biased;
                () = sent => {}
                _ = case.run(case.options()) => {}
            }
            dropped_commands(db).await;
            end_transactions(db).await;
            case.run(case.options())
                .await
                .unwrap_or_else(|error| panic!("{name}, command {command} of {commands:?}: {error:?}"));
            case.assert_documents(&expected, &format!("{name}, command {command} of {commands:?}"))
                .await;
        }
    })
    .await;
}
