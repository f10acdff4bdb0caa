//! What is refused before anything is written.

use mongo_patterns_core::moves::{number, refuse};
use mongo_patterns_core::{ErrorKind, Result};
use mongodb::bson::{Document, doc};

use crate::query::from_embedded::FromEmbedded;
use crate::repair::rebuild::look;
use crate::repository::Shared;

/// All embedded children that are to be moved. Returns what was counted.
pub(crate) async fn check_embedded(shared: &Shared, form: &FromEmbedded<'_>) -> Result<Document> {
    let Shared { parents, settings, .. } = shared;
    let found = look(parents, form.inspection()).await?;
    let subset = settings.subset.as_str();
    let findings = [
        (
            "no_parent_id",
            ErrorKind::InvalidArgument,
            "parents with embedded children have null or `Timestamp(0, 0)` as their `_id`, by which no child can refer to them",
        ),
        (
            "no_array",
            ErrorKind::Corrupt,
            "parents have something else than an array where their children are",
        ),
        (
            "no_document",
            ErrorKind::Corrupt,
            "parents have embedded what is no document",
        ),
        (
            "no_id",
            ErrorKind::InvalidItemId,
            "parents have embedded children without an id, or with one of a type that it cannot have",
        ),
        (
            "twice",
            ErrorKind::InvalidItemId,
            "parents have several embedded children with the same id",
        ),
        (
            "other_parent",
            ErrorKind::InvalidArgument,
            "parents have embedded children whose parent field has another value: mend them, or use another name for the field",
        ),
        (
            "array_in_order",
            ErrorKind::InvalidArgument,
            "parents have embedded children with an array in a field of the order, which has no place there",
        ),
    ];
    for (name, kind, what) in findings {
        refuse(&found, name, kind, subset, what)?;
    }
    if number(&found, "with_ids") > 0 {
        let ids = look(parents, form.unusable_ids()).await?;
        let what = "`_id`s of embedded children are those of several, or of a type that no document's can have";
        refuse(&ids, "n", ErrorKind::InvalidItemId, subset, what)?;
    }
    Ok(found)
}

/// Counts the children that are there already, up to one.
pub(crate) fn any_child() -> [Document; 2] {
    [doc! { "$limit": 1 }, doc! { "$count": "n" }]
}

/// What the collection of the children has already. Returns whether it has any.
pub(crate) async fn check_children(
    shared: &Shared,
    form: &FromEmbedded<'_>,
    allow_non_empty_target: bool,
) -> Result<bool> {
    let one = look(&shared.children, any_child()).await?;
    if number(&one, "n") == 0 {
        return Ok(false);
    }
    if !allow_non_empty_target {
        let what = "or more documents are in the collection of the children already: empty it, or call allow_non_empty_target() when they are children, too";
        refuse(&one, "n", ErrorKind::TargetNotEmpty, "", what)?;
    }
    let found = look(&shared.parents, form.conflicts()).await?;
    let what = "parents have embedded children whose ids are those of their children in the collection, with another content: mend either";
    refuse(
        &found,
        "n",
        ErrorKind::TargetNotEmpty,
        shared.settings.subset.as_str(),
        what,
    )?;
    Ok(true)
}
