//! The documents that a command takes.

use mongo_patterns_core::migration::MigrateOptions;
use mongodb::bson::{Bson, Document};
use serde_json::{Map, Value};

use crate::context::Context;
use crate::extended_json::{self, Problem};
use crate::failure::Failure;
use crate::output::Summary;

/// Parses an id. Text that is not JSON is a string.
pub(crate) fn id(text: &str) -> Result<Bson, Failure> {
    match extended_json::value(text) {
        Err(Problem::Syntax { .. }) => Ok(Bson::String(text.to_owned())),
        value => value.map_err(|problem| Failure::usage(format!("the id: {problem}"))),
    }
}

/// The options of a migration that choose documents, and its pace.
#[derive(Debug, clap::Args)]
pub(crate) struct Selection {
    /// Migrates only the source documents that match a filter, as MongoDB Extended JSON, such as {"year": 2025}. A
    /// migration that resumes needs the same one.
    #[arg(long = "where", value_name = "FILTER")]
    filter: Option<String>,
    /// Skips invalid source documents, and lists their _id and reason in this collection, which must be empty or the
    /// list of an earlier run.
    #[arg(long, value_name = "COLLECTION")]
    skip_invalid: Option<String>,
    /// The most documents, items or children per second, by pauses between chunks.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rate: Option<u64>,
}

impl Selection {
    /// Returns the filter, empty for all documents. The error does not quote it.
    pub(crate) fn filter(&self) -> Result<Document, Failure> {
        let Some(text) = &self.filter else {
            return Ok(Document::new());
        };
        extended_json::document(text).map_err(|problem| Failure::usage(format!("--where: {problem}")))
    }

    /// Sets the options of a migration.
    pub(crate) fn set(&self, context: &Context, options: &mut MigrateOptions) -> Result<(), Failure> {
        options.filter = self.filter()?;
        if let Some(name) = &self.skip_invalid {
            options.skipped = Some(context.database.collection(name));
        }
        options.rate = self.rate;
        Ok(())
    }

    /// Returns whether it chooses documents.
    pub(crate) fn is_given(&self) -> bool {
        self.filter.is_some() || self.skip_invalid.is_some()
    }

    /// Adds the filter, the number of skipped documents by reason, and the collection that lists them.
    pub(crate) fn rows(&self, mut summary: Summary, reasons: &Map<String, Value>) -> Summary {
        if let Some(filter) = &self.filter {
            summary = summary.row("where", filter.as_str());
        }
        let Some(list) = &self.skip_invalid else {
            return summary;
        };
        let total: u64 = reasons.values().filter_map(Value::as_u64).sum();
        let found = reasons.iter().filter(|(_, number)| **number != 0);
        let summary = found.fold(summary.row("skipped", total), |summary, (reason, number)| {
            summary.row(format!("skipped_{reason}"), number.clone())
        });
        summary.row("skipped_list", list.as_str())
    }
}
