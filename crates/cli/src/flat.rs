//! The command of flat collections.

use std::sync::Arc;

use crate::Context;
use crate::args::FlatLoad;
use crate::failure::Outcome;
use crate::load::{self, DocumentShape, FlatDocuments};
use crate::settings::check_fields;

/// Loads documents into a flat collection.
pub(crate) async fn load(context: &Context, load: &FlatLoad) -> Outcome {
    check_fields(load.id.iter().map(|name| ("--id", name)))?;
    let shape = DocumentShape::new(load.id.as_deref());
    let documents = FlatDocuments(context.database.collection(&load.collection));
    load::run(context, &documents, Arc::new(shape), &load.options).await
}
