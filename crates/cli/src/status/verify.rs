//! Verifies the collections of an entry by the command of its pattern.

use std::sync::OnceLock;

use mongo_patterns_core::{Error, ErrorKind};
use mongodb::bson::DateTime;

use super::entries::{Entry, Verified};
use crate::args::{
    Archive, ArchiveVerb, Bucket, BucketVerb, Embedded, EmbeddedVerb, History, HistoryVerb, Listing, Outlier,
    OutlierVerb, Reference, ReferenceVerb, Subset, SubsetVerb, Trash, TrashVerb,
};
use crate::catalog::Managed;
use crate::context::Context;
use crate::failure::Failure;
use crate::profile::Profile;
use crate::{archive, bucket, embedded, history, outlier, reference, subset, trash};

fn is_of_connection(error: &Error) -> bool {
    [ErrorKind::ServerSelection, ErrorKind::Network].contains(&error.kind())
}

/// Verifies an entry whose pattern has a command, and counts up to this number of findings.
pub(super) async fn verify(context: &Context, entry: &mut Entry, most: u64) -> Result<(), Failure> {
    if entry.command("verify").is_none() {
        return Ok(());
    }
    let context = Context {
        database: context.database.clone(),
        output: context.output.counting(most),
        profile: Profile::default(),
        known: OnceLock::new(),
    };
    macro_rules! verify {
        ($module:ident, $command:ident, $verb:ident) => {
            verify!($module, $command, $verb, (Listing { all: true }))
        };
        ($module:ident, $command:ident, $verb:ident, $($listing:tt)?) => {{
            let settings = Managed::of_entry(&entry.id, &entry.settings);
            let verb = $verb::Verify $($listing)?;
            Box::pin($module::run(&context, &$command { settings, verb })).await
        }};
    }
    let outcome = match entry.pattern.as_str() {
        "bucket" => verify!(bucket, Bucket, BucketVerb),
        "outlier" => verify!(outlier, Outlier, OutlierVerb),
        "subset" => verify!(subset, Subset, SubsetVerb),
        "embedded" => verify!(embedded, Embedded, EmbeddedVerb),
        "history" => verify!(history, History, HistoryVerb),
        "reference" => verify!(reference, Reference, ReferenceVerb),
        "archive" => verify!(archive, Archive, ArchiveVerb,),
        "trash" => verify!(trash, Trash, TrashVerb),
        _ => return Ok(()),
    };
    match outcome {
        Ok(exit) => {
            let findings = exit.findings();
            entry.verified = Some(Verified {
                at: DateTime::now(),
                findings,
                at_least: findings >= most,
            });
        }
        Err(failure) if failure.error.as_ref().is_some_and(is_of_connection) => return Err(failure),
        Err(failure) => entry.failed = Some(failure.text),
    }
    Ok(())
}
