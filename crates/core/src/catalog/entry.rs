//! The entry of a managed collection.

use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::FindOneOptions;

use super::{COLLECTION, catalog_of};
use crate::conn::Conn;
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::migration::{Step, number};
use crate::value::same::same_value;

/// The version of the stored form.
const FORMAT: i32 = 1;

/// The entry of a managed collection, with the settings of a repository.
#[doc(hidden)]
pub struct Entry {
    id: Document,
    namespace: String,
    catalog: Collection<RawDocumentBuf>,
    settings: Document,
}

/// The settings in the catalog, before a migration that changes them.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredSettings {
    None,
    /// Those of the repository.
    Same,
    /// The old ones.
    Old,
}

crate::redacted_debug!(Entry, |entry| "id" = entry.id);

impl Entry {
    /// Creates the entry of a collection, or of one of its array fields. Sends nothing.
    pub fn new(
        pattern: &'static str,
        collection: &Collection<RawDocumentBuf>,
        field: Option<&str>,
        settings: Document,
    ) -> Self {
        let mut id = doc! { "kind": pattern, "collection": collection.name() };
        if let Some(field) = field {
            id.insert("field", field);
        }
        Self {
            id,
            namespace: collection.namespace().to_string(),
            catalog: catalog_of(collection, collection.write_concern().cloned()),
            settings,
        }
    }

    /// Compares the settings with the stored ones. Returns whether there are any. One round trip.
    ///
    /// # Errors
    /// [`SettingsMismatch`](ErrorKind::SettingsMismatch), and [`Unsupported`](ErrorKind::Unsupported) when a later
    /// version of the library wrote the entry.
    pub async fn check(&self, conn: &mut Conn<'_>) -> Result<bool> {
        match self.read(conn).await? {
            Some(stored) => self.compare(&stored, &[]).map(|()| true),
            None => Ok(false),
        }
    }

    /// Returns the error of a missing entry: [`SettingsMismatch`](ErrorKind::SettingsMismatch).
    pub fn missing(&self) -> Error {
        Error::new(
            ErrorKind::SettingsMismatch,
            format!(
                "`{}` has no entry in the catalog `{COLLECTION}`, so its settings are not known, nothing was written: call ensure_indexes(), which stores them if the documents fit; if it fails because of damaged documents, and the dry run of the repair is right, call ensure_indexes().replace_settings()",
                self.namespace
            ),
        )
        .with_remedy(Remedy::CheckSettings)
    }

    /// Does what [`check`](Self::check) does, for a migration that changes these settings.
    ///
    /// # Errors
    /// Those of [`check`](Self::check), for all other settings.
    pub async fn check_except(&self, conn: &mut Conn<'_>, changed: &[&str]) -> Result<StoredSettings> {
        self.check_or(conn, |stored| self.compare(stored, changed)).await
    }

    /// Does what [`check`](Self::check) does, for a migration that changes settings: the old ones are accepted too.
    ///
    /// # Errors
    /// Those of [`check`](Self::check), about the old settings.
    pub async fn check_change(&self, conn: &mut Conn<'_>, old: &Document) -> Result<StoredSettings> {
        self.check_or(conn, |stored| self.compare_with(old, stored, &[])).await
    }

    async fn check_or(
        &self,
        conn: &mut Conn<'_>,
        other: impl FnOnce(&Document) -> Result<()>,
    ) -> Result<StoredSettings> {
        match self.read(conn).await? {
            None => Ok(StoredSettings::None),
            Some(stored) if self.compare(&stored, &[]).is_ok() => Ok(StoredSettings::Same),
            Some(stored) => other(&stored).map(|()| StoredSettings::Old),
        }
    }

    /// Stores the settings if there are none. Two round trips where there is an entry.
    ///
    /// # Errors
    /// Those of [`check`](Self::check), for settings of another client. None when the user may not write the catalog.
    pub async fn store(&self, conn: &mut Conn<'_>) -> Result<()> {
        let now = |field: &str| doc! { "$ifNull": [field, "$$NOW"] };
        let kept = |field: &str, value: Bson| doc! { "$ifNull": [field, { "$literal": value }] };
        let update = doc! { "$set": {
            "settings": kept("$settings", self.settings.clone().into()),
            "format": kept("$format", FORMAT.into()),
            "library": kept("$library", env!("CARGO_PKG_VERSION").into()),
            "created": now("$created"),
            "changed": now("$changed"),
        } };
        let purpose = "store the settings in the catalog";
        let step = Step::upsert_one(purpose, &self.catalog, self.filter(), vec![update]);
        match conn.write(step).await.map_err(Error::from) {
            Err(error) if error.kind() == ErrorKind::Unauthorized => Ok(()),
            Err(error) => Err(error),
            Ok(Some(reply)) if reply.matched > 0 => self.check(conn).await.map(drop),
            Ok(_) => Ok(()),
        }
    }

    /// Replaces the settings, or stores them.
    ///
    /// # Errors
    /// Those of the driver.
    pub async fn replace(&self, conn: &mut Conn<'_>) -> Result<()> {
        let update = doc! { "$set": {
            "settings": { "$literal": self.settings.clone() },
            "format": FORMAT,
            "library": env!("CARGO_PKG_VERSION"),
            "created": { "$ifNull": ["$created", "$$NOW"] },
            "changed": "$$NOW",
        } };
        let purpose = "change the settings in the catalog";
        let step = Step::upsert_one(purpose, &self.catalog, self.filter(), vec![update]);
        conn.write(step).await?;
        Ok(())
    }

    /// Returns whether the pattern has another entry with these settings. One round trip.
    ///
    /// # Errors
    /// Those of the driver. None when the user may not read the catalog.
    pub async fn has_another(&self, conn: &mut Conn<'_>, settings: &Document) -> Result<bool> {
        let mut filter = doc! { "_id": { "$ne": &self.id }, "_id.kind": self.id.get("kind") };
        filter.extend(
            settings
                .iter()
                .map(|(name, value)| (format!("settings.{name}"), value.clone())),
        );
        let purpose = "look for another repository in the catalog";
        let find = Step::find_one(purpose, &self.catalog, filter, FindOneOptions::default());
        match conn.read(find).await.map_err(Error::from) {
            Ok(reply) => Ok(!reply.documents.is_empty()),
            Err(error) if error.kind() == ErrorKind::Unauthorized => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the filter that finds it in the catalog.
    pub fn filter(&self) -> Document {
        doc! { "_id": self.id.clone() }
    }

    /// Reads the entry. `None` also when the user may not read the catalog.
    async fn read(&self, conn: &mut Conn<'_>) -> Result<Option<Document>> {
        let find = Step::find_one(
            "read the settings in the catalog",
            &self.catalog,
            self.filter(),
            FindOneOptions::default(),
        );
        match conn.read(find).await.map_err(Error::from) {
            Ok(reply) => Ok(reply.decoded()?.pop()),
            Err(error) if error.kind() == ErrorKind::Unauthorized => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn compare(&self, stored: &Document, except: &[&str]) -> Result<()> {
        self.compare_with(&self.settings, stored, except)
    }

    fn compare_with(&self, settings: &Document, stored: &Document, except: &[&str]) -> Result<()> {
        let format = number(stored, "format");
        if format > u64::from(FORMAT.unsigned_abs()) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "a later version of the library wrote the settings of `{}`, with the format {format}: use that version",
                    self.namespace
                ),
            ));
        }
        let stored = &settings_of(stored);
        let names = settings.keys().chain(stored.keys());
        for name in names.filter(|name| !except.contains(&name.as_str())) {
            let [stored, given] = [stored, settings].map(|settings| settings.get(name).unwrap_or(&Bson::Null));
            if !same_value(stored, given) {
                return Err(self.mismatch(name, stored, given));
            }
        }
        Ok(())
    }

    fn mismatch(&self, name: &str, stored: &Bson, given: &Bson) -> Error {
        Error::new(
            ErrorKind::SettingsMismatch,
            format!(
                "the setting `{name}` of `{}` is {stored} in the catalog `{COLLECTION}`, and {given} here: use the stored settings, change them with a migration, or call ensure_indexes().replace_settings() if the stored ones are wrong",
                self.namespace
            ),
        )
        .with_remedy(Remedy::CheckSettings)
    }
}

fn settings_of(entry: &Document) -> Document {
    entry.get_document("settings").cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offline;

    fn entry(settings: Document) -> Entry {
        Entry::new("bucket", &offline::collection("trades"), None, settings)
    }

    #[test]
    fn the_error_names_the_setting_and_both_values() {
        let entry = entry(doc! { "key": "customer", "page_size": 10, "time": null });
        let compare = |settings: Document| entry.compare(&doc! { "settings": settings }, &[]);
        assert!(compare(doc! { "key": "customer", "page_size": 10_i64 }).is_ok());
        let error = compare(doc! { "key": "customer", "page_size": 50, "time": null }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SettingsMismatch);
        let start = "the setting `page_size` of `shop.trades` is 50 in the catalog `mongo_patterns`, and 10 here";
        assert!(error.to_string().starts_with(start), "{error}");
        let missing = compare(doc! { "page_size": 10 }).unwrap_err();
        assert!(
            missing.to_string().contains("`key` of `shop.trades` is null"),
            "{missing}"
        );
        let unknown = compare(doc! { "key": "customer", "page_size": 10, "figures": { "qty": "sum" } }).unwrap_err();
        assert!(unknown.to_string().contains("`figures`"), "{unknown}");
    }

    #[test]
    fn an_entry_of_a_later_format_is_refused() {
        let entry = entry(doc! {});
        let error = entry.compare(&doc! { "settings": {}, "format": 2 }, &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}
