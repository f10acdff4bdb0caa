//! The documents that a command takes.

use mongodb::Collection;
use mongodb::bson::{Bson, Document};

use crate::Context;
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

/// The options that choose documents.
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
}

impl Selection {
    /// Returns the filter. The error does not quote it.
    pub(crate) fn filter(&self) -> Result<Option<Document>, Failure> {
        let Some(text) = &self.filter else {
            return Ok(None);
        };
        let filter = extended_json::document(text);
        filter
            .map(Some)
            .map_err(|problem| Failure::usage(format!("--where: {problem}")))
    }

    /// Returns the collection that lists the skipped documents.
    pub(crate) fn skipped(&self, context: &Context) -> Option<Collection<Document>> {
        let name = self.skip_invalid.as_ref()?;
        Some(context.database.collection(name))
    }

    /// Returns whether it chooses.
    pub(crate) fn is_given(&self) -> bool {
        self.filter.is_some() || self.skip_invalid.is_some()
    }

    /// Adds the filter, and the number of skipped documents by reason.
    pub(crate) fn rows<const N: usize>(&self, mut summary: Summary, reasons: [(&'static str, u64); N]) -> Summary {
        if let Some(filter) = &self.filter {
            summary = summary.row("where", filter.as_str());
        }
        let Some(list) = &self.skip_invalid else {
            return summary;
        };
        skipped_rows(summary, list, reasons)
    }
}

/// Adds the number of skipped documents by reason, and the collection that lists them.
fn skipped_rows<const N: usize>(summary: Summary, list: &str, reasons: [(&'static str, u64); N]) -> Summary {
    let total = reasons.iter().map(|(_, number)| number).sum::<u64>();
    let found = reasons.into_iter().filter(|(_, number)| *number > 0);
    let summary = found.fold(summary.row("skipped", total), |summary, (reason, number)| {
        summary.row(format!("skipped_{reason}"), number)
    });
    summary.row("skipped_list", list)
}
