//! The source documents that a migration refuses or skips.

use std::io;

use mongodb::bson::{Bson, Document};
use serde_json::json;

use crate::output::{Output, counted, grouped, to_json, wrapped};
use crate::shell;

/// A collection of at most this many documents is checked as a whole, not by the sample.
pub(crate) const FEW: u64 = 100_000;

/// The invalid documents of a collection.
pub(crate) struct Invalid {
    pub(crate) collection: String,
    /// The number of documents that were checked.
    pub(crate) checked: u64,
    pub(crate) is_sample: bool,
    pub(crate) reasons: Vec<Reason>,
    /// A filter that finds all of them.
    pub(crate) filter: Document,
}

/// A reason why documents are invalid.
pub(crate) struct Reason {
    pub(crate) name: &'static str,
    pub(crate) field: String,
    pub(crate) text: &'static str,
    pub(crate) documents: u64,
}

impl Invalid {
    pub(crate) fn total(&self) -> u64 {
        self.reasons.iter().map(|reason| reason.documents).sum()
    }

    pub(super) fn print(&self, output: Output) -> io::Result<()> {
        let of = if self.is_sample {
            "sampled documents"
        } else {
            "documents"
        };
        let total = self.total();
        output.heading("Documents that migrate refuses, or skips with --skip-invalid")?;
        output.text(&format!("{} of {} {of}", grouped(total), grouped(self.checked)))?;
        for reason in self.reasons.iter().filter(|reason| reason.documents > 0) {
            let Reason {
                name,
                field,
                text,
                documents,
            } = reason;
            let line = format!(
                "{name}: {} with {text}, in the field `{field}`",
                counted(*documents, "document")
            );
            output.text(&format!("- {}", wrapped(&line, 2).trim_start()))?;
            output.object(&json!({ "type": "invalid", "reason": name, "field": field, "documents": documents }))?;
        }
        if total == 0 && !self.is_sample {
            return Ok(());
        }
        let collection = serde_json::to_string(&self.collection).unwrap_or_default();
        let filter = Bson::Document(self.filter.clone());
        let query = format!("db.getCollection({collection}).find({})", shell::pretty(&filter));
        output.text(&format!("To find them in mongosh:\n{query}"))?;
        output.object(&json!({
            "type": "invalid_query",
            "collection": self.collection,
            "filter": to_json(&filter),
            "shell": query,
        }))
    }
}
