//! Checks that the settings fit the stored documents, before they are verified, repaired or migrated.

use futures::future::BoxFuture;
use mongo_patterns_core::Result;
use mongo_patterns_core::catalog::{StoredSettings, implausible};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::index::Fits;
use mongo_patterns_core::migration::Step;
use mongodb::bson::doc;
use mongodb::options::FindOneOptions;

use crate::query;
use crate::repair::scan::check_databases;
use crate::repository::Shared;

/// Compares the settings with the catalog, where other limits are accepted, which a migration changes.
pub(crate) async fn check_migration(shared: &Shared, conn: &mut Conn<'_>) -> Result<()> {
    check_databases(shared)?;
    let ensure = shared.ensure();
    ensure.check_deployment(conn).await?;
    let stored = ensure
        .entry
        .check_except(conn, &["threshold", "max_extras_elements"])
        .await?;
    if stored == StoredSettings::None {
        return ensure.store_settings(conn).await;
    }
    ensure.check_own_fields(conn).await?;
    match stored {
        StoredSettings::Old => ensure.entry.replace(conn).await,
        _ => Ok(()),
    }
}

impl Fits for Shared {
    /// Checks that there is a flag where there are overflow documents, and none where there are none.
    fn check_documents<'a>(&'a self, has_overflow: bool, conn: &'a mut Conn<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(check_flag(self, has_overflow, conn))
    }
}

async fn check_flag(shared: &Shared, has_overflow: bool, conn: &mut Conn<'_>) -> Result<()> {
    let (main, overflow, settings) = shared.parts();
    let filter = match has_overflow {
        true => query::with_flag(settings),
        false => query::flagged(settings),
    };
    let options = FindOneOptions::builder().projection(doc! { "_id": 1 }).build();
    let found = conn
        .read(Step::find_one("look for the flag", main, filter, options))
        .await?;
    if found.documents.is_empty() != has_overflow {
        return Ok(());
    }
    let (main, flag, overflow) = (main.namespace(), &settings.flag, overflow.namespace());
    Err(implausible(match has_overflow {
        true => format!("`{overflow}` has overflow documents, and no document of `{main}` has the flag `{flag}`"),
        false => format!("documents of `{main}` have the flag `{flag}`, and `{overflow}` has no overflow documents"),
    }))
}
