//! The migrations. The server does the work: only the ids of parents pass through the client.

mod check;
pub(crate) mod from_embedded;

use mongo_patterns_core::catalog::StoredSettings;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::index::{PlannedIndex, drop_old_index};
use mongo_patterns_core::migration::MigrationProgress;
use mongo_patterns_core::{Error, ErrorKind, FieldName, Result};

use crate::repair::rebuild::{count_orphans, discard_embedded, rebuild_chunks};
use crate::repository::Shared;
use crate::results::Migrated;

/// Migrates two existing collections.
pub(crate) async fn existing(
    shared: &Shared,
    discard: bool,
    conn: &mut Conn<'_>,
    progress: MigrationProgress<'_>,
) -> Result<Migrated> {
    let ensure = shared.ensure();
    let state = ensure.check_for_migration(conn).await?;
    let ensured = ensure.run_after(state, conn).await?;
    if discard {
        discard_embedded(shared, conn).await?;
    }
    let (documents, rebuilt_individually) = rebuild_chunks(shared, conn, false, !discard, progress).await?;
    Ok(Migrated {
        created_indexes: ensured.created,
        documents,
        rebuilt_individually,
        orphans: count_orphans(shared, conn).await?,
        ..Migrated::default()
    })
}

/// Migrates from another order, subset size or other embedded fields.
pub(crate) async fn layout(
    shared: &Shared,
    old: &Shared,
    conn: &mut Conn<'_>,
    progress: MigrationProgress<'_>,
) -> Result<Migrated> {
    check(shared, old)?;
    let ensure = shared.ensure();
    ensure.check_deployment(conn).await?;
    let old_settings = old.settings.stored_form(old.children.name());
    if ensure.entry.check_change(conn, &old_settings).await? == StoredSettings::None {
        return Err(ensure.entry.missing());
    }
    let ensured = ensure.replace(conn).await?;
    let dropped_index = match old_index(shared, old) {
        Some(index) => {
            let is_dropped = drop_old_index(conn, &shared.children, &index).await?;
            is_dropped.then_some(index.name)
        }
        None => None,
    };
    let has_other_order = shared.settings.first().order != old.settings.first().order;
    let (documents, rebuilt_individually) = rebuild_chunks(shared, conn, has_other_order, true, progress).await?;
    Ok(Migrated {
        created_indexes: ensured.created,
        dropped_index,
        documents,
        rebuilt_individually,
        ..Migrated::default()
    })
}

/// Returns the index of the old order, unless the new repository requires it.
fn old_index(shared: &Shared, old: &Shared) -> Option<PlannedIndex> {
    let required = shared.settings.indexes();
    let is_required = |name: &str| required.iter().any(|index| index.name == name);
    let is_of_order = |index: &PlannedIndex| index.name == old.settings.order_index && !is_required(&index.name);
    old.settings.indexes().into_iter().find(is_of_order)
}

fn check(shared: &Shared, old: &Shared) -> Result<()> {
    let names = |shared: &Shared| {
        let settings = &shared.settings;
        let fields = [
            &settings.first().field,
            &settings.version,
            &settings.parent,
            &settings.child_id,
        ]
        .map(FieldName::clone);
        (shared.parents.namespace(), shared.children.namespace(), fields)
    };
    if names(shared) == names(old) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidArgument,
        "the old and the new repository differ in their collections, or in the names of subset, version, parent or child id, nothing was changed: pass a repository with the same ones",
    ))
}
