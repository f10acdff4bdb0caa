//! Updates of a whole document: operators, or a pipeline.

use mongodb::bson::{Bson, Document};
use mongodb::options::UpdateModifications;

use super::operator::refused;
use super::{Fixed, Operators, check_path, stage_paths};
use crate::error::Result;

/// An update of a document, checked.
#[derive(Clone, PartialEq)]
pub enum DocumentUpdate {
    /// Update operators.
    Operators(Document),
    /// Stages of `$set` and `$unset`.
    Pipeline(Vec<Document>),
}

crate::redacted_debug!(DocumentUpdate);

impl DocumentUpdate {
    /// Checks an update, which must not change the fixed fields.
    pub fn new(update: UpdateModifications, fixed: &[Fixed<'_>]) -> Result<Self> {
        let stages = match update {
            UpdateModifications::Document(update) => {
                return Ok(Self::Operators(Operators::new(update, fixed)?.under("")));
            }
            UpdateModifications::Pipeline(stages) => stages,
            _ => {
                return Err(refused(
                    "the update is neither a document of operators nor a pipeline, nothing was sent: pass one of them",
                ));
            }
        };
        let mut fields = 0;
        for stage in &stages {
            for path in stage_paths(stage)? {
                check_path(path, fixed)?;
                fields += 1;
            }
        }
        match fields {
            0 => Err(refused(
                "the update names no field, nothing was sent: name a field to change",
            )),
            _ => Ok(Self::Pipeline(stages)),
        }
    }
}

/// Adds a field to those that an operator changes.
pub fn add(update: &mut Document, operator: &str, field: &str, value: impl Into<Bson>) {
    match update.get_document_mut(operator) {
        Ok(fields) => drop(fields.insert(field, value)),
        Err(_) => drop(update.insert(operator, mongodb::bson::doc! { field: value })),
    }
}
