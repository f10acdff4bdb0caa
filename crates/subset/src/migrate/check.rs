//! The checks of the migration from embedded children. They precede all writes.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::Remedy;
use mongo_patterns_core::migration::{Step, exceeds_memory, number, refuse};
use mongo_patterns_core::{ErrorKind, InvalidDocuments, Result};
use mongodb::bson::Document;

use crate::query::from_embedded::{EmbeddedChildren, any_child};
use crate::repository::Shared;

/// The reasons why parents cannot be migrated, in the order in which they are checked.
pub(super) const REASONS: [&str; 7] = [
    "no_array",
    "no_parent_id",
    "no_document",
    "no_id",
    "twice",
    "other_parent",
    "array_in_order",
];

/// Checks all embedded children. Returns their numbers, and the parents to skip.
pub(super) async fn check_embedded(
    shared: &Shared,
    conn: &mut Conn<'_>,
    commands: &EmbeddedChildren<'_>,
) -> Result<(Document, InvalidDocuments)> {
    let inspection = match commands.options.skipped {
        Some(_) => commands.inspection_of_invalid(None),
        None => commands.inspection().to_vec(),
    };
    let inspect = Step::aggregate("check the parents", &shared.parents, inspection);
    let found = conn.read(inspect).await?.first()?;
    if commands.options.skipped.is_some() {
        check_ids(shared, conn, commands, &found).await?;
        let skipped = InvalidDocuments::of(&found, &REASONS);
        return Ok((found, skipped));
    }
    let subset = shared.settings.first().field.as_str();
    let check = |name, kind, what| {
        let refused = refuse(&found, name, kind, subset, what);
        refused.map_err(|error| error.with_remedy(Remedy::SkipInvalid))
    };
    check(
        "no_parent_id",
        ErrorKind::InvalidArgument,
        "parents with embedded children have null or `Timestamp(0, 0)` as their `_id`, by which no child can refer to them",
    )?;
    let what = "parents have a value in the field of the subset that is not an array";
    check("no_array", ErrorKind::Corrupt, what)?;
    check(
        "no_document",
        ErrorKind::Corrupt,
        "parents embed values that are not documents",
    )?;
    let what = "parents embed children without an id, or with an id of an invalid type";
    check("no_id", ErrorKind::InvalidItemId, what)?;
    let what = "parents embed several children with the same id";
    check("twice", ErrorKind::InvalidItemId, what)?;
    let what =
        "parents embed children whose parent field has another value: repair them, or use another name for the field";
    check("other_parent", ErrorKind::InvalidArgument, what)?;
    let what = "parents embed children with an array in a field of the order or of a figure, by which they cannot be ordered or counted";
    check("array_in_order", ErrorKind::InvalidArgument, what)?;
    check_ids(shared, conn, commands, &found).await?;
    Ok((found, InvalidDocuments::default()))
}

async fn check_ids(
    shared: &Shared,
    conn: &mut Conn<'_>,
    commands: &EmbeddedChildren<'_>,
    found: &Document,
) -> Result<()> {
    if number(found, "with_ids") == 0 {
        return Ok(());
    }
    let purpose = "check the ids of the embedded children";
    let ids = Step::aggregate(purpose, &shared.parents, commands.unusable_ids());
    let ids = conn.read(ids).await?.first()?;
    let what = "`_id`s of embedded children are shared by several of them, or have a type that no `_id` can have";
    refuse(
        &ids,
        "n",
        ErrorKind::InvalidItemId,
        shared.settings.first().field.as_str(),
        what,
    )
}

/// Refuses to skip everything, which a wrong setting causes.
pub(super) fn check_any_valid(parents: u64, skipped: &InvalidDocuments) -> Result<()> {
    skipped.check_any_valid(parents, || {
        let reasons = skipped.iter().filter(|(_, parents)| *parents > 0);
        let reasons: Vec<String> = reasons
            .map(|(reason, parents)| format!("{reason}: {parents}"))
            .collect();
        format!(
            "all parents with embedded children are invalid ({}), nothing was migrated: check the names of the fields",
            reasons.join(", ")
        )
    })
}

/// Checks the children that are stored already.
pub(super) async fn check_stored(
    shared: &Shared,
    conn: &mut Conn<'_>,
    commands: &EmbeddedChildren<'_>,
    allow_non_empty_target: bool,
) -> Result<()> {
    let any = Step::aggregate("look for stored children", &shared.children, any_child());
    let any = conn.read(any).await?.first()?;
    if number(&any, "n") == 0 {
        return Ok(());
    }
    if !allow_non_empty_target {
        let what = "or more documents are in the collection of the children already: empty it, or call allow_non_empty_target() if they are children too";
        let refused = refuse(&any, "n", ErrorKind::TargetNotEmpty, "", what);
        refused.map_err(|error| error.with_remedy(Remedy::AllowNonEmptyTarget))?;
    }
    let purpose = "compare embedded and stored children";
    let compare = |stages| Step::aggregate(purpose, &shared.parents, stages);
    let conflicts = match conn.read(compare(commands.conflicts())).await {
        Err(error) if exceeds_memory(&error) => conn.read(compare(commands.conflicts_one_by_one())).await,
        compared => compared,
    };
    let conflicts = conflicts?.first()?;
    let what = "parents embed children that are stored with other content: repair either";
    let subset = shared.settings.first().field.as_str();
    refuse(&conflicts, "n", ErrorKind::TargetNotEmpty, subset, what)
}
