//! A plan writes nothing, and lists the commands that a run sends.

use mongo_patterns_core::migration::MigrateOptions;
use mongodb::bson::{Bson, Document, RawDocumentBuf};

use super::for_each;
use super::model::Case;
use support::plans::essence;

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_plan_writes_nothing_and_lists_the_commands_of_a_run() {
    for_each(async |db, migration| {
        let (case, name) = (Case::new(db, migration), migration.name);
        let list = db.collection::<RawDocumentBuf>("skipped");
        // Also again, when there is nothing left to do.
        for (chunk, skips) in [(None, false), (Some(3), true)] {
            case.begin().await;
            let options = || MigrateOptions {
                chunk: chunk.filter(|_| migration.is_paced),
                concurrency: Some(1),
                skipped: (skips && (migration.selected)().is_some()).then(|| list.clone()),
                ..MigrateOptions::default()
            };
            for _ in 0..2 {
                let before = case.everything().await;
                let planned = case.plan(options()).await.unwrap();
                assert!(case.everything().await == before, "{name}");
                db.recorder().clear();
                let migrated = case.run(options()).await.unwrap();
                // What only the writes show is 0 in a plan.
                for (field, value) in &planned.migrated {
                    let is_known = *value != Bson::Int64(0);
                    assert!(
                        !is_known || migrated.get(field) == Some(value),
                        "{name}: {field} {migrated}"
                    );
                }
                if !migration.lists_all {
                    continue;
                }
                let commands = db.recorder().commands().into_iter();
                let sent = commands.filter(|sent| sent.name != "getMore");
                let sent: Vec<Document> = sent.map(|sent| essence(&sent.essence())).collect();
                let listed = planned.commands.iter().map(|planned| essence(&planned.command));
                let (sent, listed) = ((migration.in_order)(sent), (migration.in_order)(listed.collect()));
                for (sent, listed) in sent.iter().zip(&listed) {
                    assert_eq!(sent, listed, "{name}");
                }
                assert_eq!(sent.len(), listed.len(), "{name}: {sent:?}");
            }
        }
    })
    .await;
}
