//! Checks that the settings fit the stored buckets, before they are verified or repaired.

use mongo_patterns_core::catalog::{Tally, check_fields};
use mongo_patterns_core::migration::Steps;
use mongo_patterns_core::{Key, Result, send};

use crate::repair::scan::Scan;
use crate::repository::Shared;

/// Compares the settings with the catalog.
pub(crate) async fn check_settings(shared: &Shared) -> Result<()> {
    shared.entry().check(&mut Steps::run()).await.map(drop)
}

/// Compares the settings with the catalog. A repair of a collection without an entry also compares them with the
/// buckets.
pub(crate) async fn check_repair<K: Key>(shared: &Shared, all_keys: bool, is_repair: bool) -> Result<()> {
    if shared.entry().check(&mut Steps::run()).await? || !is_repair {
        return Ok(());
    }
    let (collection, settings) = shared.parts();
    let plan = shared.index_plan().only_one_of(settings.index_family());
    plan.missing(collection).await?;
    let in_items = |field: &str| format!("{}.{field}", settings.items);
    let time = settings.time.as_ref().map(|field| in_items(field.as_str()));
    let item_id = settings.item_id_path();
    let mut fields = settings.fields();
    fields.extend(time.as_deref().map(|path| ("time", path)));
    fields.extend(item_id.as_deref().map(|path| ("item_id", path)));
    check_fields(&mut Steps::run(), collection, &fields).await?;
    if all_keys {
        let mut tally = Tally::of(send::estimated_count(collection).await?);
        let mut scan = Scan::<K>::new(shared, None, None);
        while let Some(suspect) = scan.next().await? {
            for finding in &suspect.findings {
                tally.add(&finding.problem)?;
            }
        }
    }
    Ok(())
}
