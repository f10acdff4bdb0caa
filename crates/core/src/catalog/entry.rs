//! The entry of a managed collection.

use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::{FindOneOptions, FindOptions};
use mongodb::{Collection, Namespace};

use super::others::{Known, Others, Read, count_written};
use super::owned::{Owned, named};
use super::{COLLECTION, catalog_of};
use crate::conn::Conn;
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::migration::{Step, number};
use crate::value::same::same_value;

/// The version of the stored form.
const FORMAT: i32 = 1;
/// The field of an entry that its creator may still remove.
const UNCONFIRMED: &str = "unconfirmed";
/// How often an entry is stored while other clients remove it.
const ATTEMPTS: usize = 5;

/// The entry of a managed collection, with the settings of a repository.
#[doc(hidden)]
pub struct Entry {
    id: Document,
    namespace: String,
    catalog: Collection<RawDocumentBuf>,
    settings: Document,
    pub(crate) owns: Vec<Owned>,
    /// The collections and names of the indexes that the repository needs, and whether a longer index does as well.
    pub(crate) indexes: Vec<(Namespace, String, bool)>,
    /// The collections in which other repositories can own fields, and what remembers them.
    pub(crate) others: Vec<(Namespace, Known)>,
}

/// The settings in the catalog, before a migration that changes them.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredSettings {
    None,
    /// The settings of the repository.
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
            owns: Vec::new(),
            indexes: Vec::new(),
            others: Vec::new(),
        }
    }

    /// Compares the settings with the stored ones, and what it owns with other entries. Returns whether there are any. One round trip.
    ///
    /// # Errors
    /// [`SettingsMismatch`](ErrorKind::SettingsMismatch), also when another entry owns the same.
    /// [`Unsupported`](ErrorKind::Unsupported) when a later version of the library wrote the entry.
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
    pub async fn check_except(&self, conn: &mut Conn<'_>, changed: &[&str]) -> Result<StoredSettings> {
        self.check_or(conn, |stored| self.compare(stored, changed)).await
    }

    /// Does what [`check`](Self::check) does, for a migration that changes settings: the old ones are accepted too.
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

    /// Stores the settings if there are none, and what it owns. At most three round trips.
    pub async fn store(&self, conn: &mut Conn<'_>) -> Result<()> {
        self.store_with(true, conn).await
    }

    /// Does what [`store`](Self::store) does, for an entry with the same settings that does not say all that the repository
    /// owns or needs.
    pub(crate) async fn complete(&self, conn: &mut Conn<'_>) -> Result<()> {
        self.store_with(false, conn).await
    }

    async fn store_with(&self, keeps_owns: bool, conn: &mut Conn<'_>) -> Result<()> {
        let now = |field: &str| doc! { "$ifNull": [field, "$$NOW"] };
        let kept = |field: &str, value: Bson| doc! { "$ifNull": [field, { "$literal": value }] };
        let of_form = |field: &str, value: Bson| match keeps_owns {
            true => kept(field, value),
            false => doc! { "$literal": value },
        };
        let fields = doc! {
            "settings": kept("$settings", self.settings.clone().into()),
            "format": kept("$format", FORMAT.into()),
            "library": kept("$library", env!("CARGO_PKG_VERSION").into()),
            "created": now("$created"),
            "changed": now("$changed"),
            "owns": of_form("$owns", self.stored_owns()),
            "indexes": of_form("$indexes", self.stored_indexes()),
        };
        match self.write("store the settings in the catalog", fields, conn).await {
            Err(error) if error.kind() == ErrorKind::Unauthorized => Ok(()),
            stored => stored,
        }
    }

    /// Replaces the settings and what it owns, or stores them. At most three round trips.
    pub async fn replace(&self, conn: &mut Conn<'_>) -> Result<()> {
        let fields = doc! {
            "settings": { "$literal": self.settings.clone() },
            "format": FORMAT,
            "library": env!("CARGO_PKG_VERSION"),
            "created": { "$ifNull": ["$created", "$$NOW"] },
            "changed": "$$NOW",
            "owns": { "$literal": self.stored_owns() },
            "indexes": { "$literal": self.stored_indexes() },
        };
        self.write("change the settings in the catalog", fields, conn).await
    }

    /// Writes the entry, and then looks for other owners: of two clients that write at the same time, at most one succeeds.
    ///
    /// The client that creates an entry removes it if another entry owns the same. Until it has looked, the entry is not
    /// confirmed, and other clients that find it look themselves.
    async fn write(&self, purpose: &'static str, mut fields: Document, conn: &mut Conn<'_>) -> Result<()> {
        let is_new = doc! { "$eq": [{ "$type": "$settings" }, "missing"] };
        fields.insert(UNCONFIRMED, doc! { "$cond": [is_new, true, format!("${UNCONFIRMED}")] });
        for _ in 0..ATTEMPTS {
            let update = vec![doc! { "$set": fields.clone() }];
            let step = Step::upsert_one(purpose, &self.catalog, self.filter(), update);
            let reply = conn.write(step).await?;
            if reply.is_some() {
                count_written(self.owns.iter().map(Owned::namespace));
            }
            let is_created = reply.is_some_and(|reply| reply.matched == 0);
            let reads = self.begin_reads();
            let found = conn
                .read_written(self.find("look for other owners in the catalog"))
                .await?;
            if let Some(found) = found {
                let found = found.decoded()?;
                self.know(reads, &found);
                match self.select(found, "its settings were not stored") {
                    Ok(Some(stored)) => self.compare(&stored, &[])?,
                    Ok(None) => continue,
                    Err(error) => {
                        if is_created {
                            let mut filter = self.filter();
                            filter.insert(UNCONFIRMED, true);
                            conn.write(Step::delete_one("remove the entry", &self.catalog, filter))
                                .await?;
                            count_written(self.owns.iter().map(Owned::namespace));
                        }
                        return Err(error);
                    }
                }
            }
            let confirm = vec![doc! { "$unset": UNCONFIRMED }];
            let confirm = Step::update_one("confirm the entry", &self.catalog, self.filter(), confirm);
            if conn.write(confirm).await?.is_none_or(|reply| reply.matched > 0) {
                return Ok(());
            }
        }
        Err(Error::new(
            ErrorKind::Contention,
            "other clients store and remove the entry in the catalog: try again later",
        ))
    }

    /// Stores the time and the number of findings of a verification, and whether there can be more, if there is an entry.
    /// One round trip.
    pub async fn store_verified(&self, findings: u64, at_least: bool) -> Result<()> {
        let findings = i64::try_from(findings).unwrap_or(i64::MAX);
        let outcome = doc! { "verified.findings": findings, "verified.at_least": at_least };
        let verified = doc! { "$set": outcome, "$currentDate": { "verified.at": true } };
        let step = Step::update_one("store the outcome", &self.catalog, self.filter(), verified);
        match Conn::new().write(step).await.map_err(Error::from) {
            Err(error) if error.kind() == ErrorKind::Unauthorized => Ok(()),
            stored => stored.map(drop),
        }
    }

    fn stored_owns(&self) -> Bson {
        let database = &self.catalog.namespace().db;
        let owns = self.owns.iter().map(|owned| owned.stored_form(database));
        owns.collect::<Vec<_>>().into()
    }

    fn stored_indexes(&self) -> Bson {
        let database = &self.catalog.namespace().db;
        let indexes = self.indexes.iter().map(|(namespace, name, or_longer)| {
            let mut stored = named(namespace, database);
            stored.insert("name", name);
            if *or_longer {
                stored.insert("or_longer", true);
            }
            stored
        });
        indexes.collect::<Vec<_>>().into()
    }

    /// Returns whether the pattern has another entry with these settings. One round trip.
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

    /// Reads the entry, and checks that no other entry owns the same. `None` also when the user may not read the catalog.
    pub(crate) async fn read(&self, conn: &mut Conn<'_>) -> Result<Option<Document>> {
        self.check_collections()?;
        let found = self.read_all("read the settings in the catalog", conn).await?;
        self.select(found, "nothing was written")
    }

    /// Refuses the catalog as a collection of the repository.
    fn check_collections(&self) -> Result<()> {
        let mut owned = self.owns.iter().map(Owned::collection_name);
        if self.id.get_str("collection").is_ok_and(|name| name == COLLECTION) || owned.any(|name| name == COLLECTION) {
            let text =
                format!("`{COLLECTION}` is the catalog of this library, nothing was written: use another collection");
            return Err(Error::new(ErrorKind::SettingsMismatch, text).with_remedy(Remedy::CheckSettings));
        }
        Ok(())
    }

    /// Reads what others own, whatever the settings are. One round trip.
    pub(crate) async fn read_others(&self, conn: &mut Conn<'_>) -> Result<()> {
        let purpose = "look for other owners in the catalog";
        self.read_all(purpose, conn).await.map(drop)
    }

    /// Reads the entry, and the entries of others. None when the user may not read the catalog.
    async fn read_all(&self, purpose: &'static str, conn: &mut Conn<'_>) -> Result<Vec<Document>> {
        let reads = self.begin_reads();
        let found = match conn.read(self.find(purpose)).await.map_err(Error::from) {
            Ok(reply) => reply.decoded()?,
            Err(error) if error.kind() == ErrorKind::Unauthorized => Vec::new(),
            Err(error) => return Err(error),
        };
        self.know(reads, &found);
        Ok(found)
    }

    fn begin_reads(&self) -> Vec<Read> {
        let collections = self.others.iter().map(|(collection, _)| collection);
        collections.map(Read::begin).collect()
    }

    /// Remembers what others own, as a read has found it.
    fn know(&self, reads: Vec<Read>, found: &[Document]) {
        let is_other = |entry: &&Document| entry.get_document("_id").ok() != Some(&self.id);
        let database = &self.catalog.namespace().db;
        for ((_, known), read) in self.others.iter().zip(reads) {
            let own = self.owns.iter().filter_map(|owned| owned.field_in(&read.collection));
            let own: Vec<&str> = own.collect();
            let others = Others::of(found.iter().filter(is_other), &read.collection, &own, database);
            known.set(read, others);
        }
    }

    /// Finds the entry, and those that own something in the same collections.
    fn find(&self, purpose: &'static str) -> Step {
        let mut collections: Vec<&str> = self.owns.iter().map(Owned::collection_name).collect();
        for (collection, _) in &self.others {
            if !collections.contains(&collection.coll.as_str()) {
                collections.push(&collection.coll);
            }
        }
        let filter = doc! { "$or": [self.filter(), { "owns.collection": { "$in": collections } }] };
        Step::find(purpose, &self.catalog, filter, FindOptions::default())
    }

    /// Returns the entry, or refuses what another entry owns.
    fn select(&self, found: Vec<Document>, effect: &str) -> Result<Option<Document>> {
        let database = &self.catalog.namespace().db;
        let mut own = None;
        for entry in found {
            let Some(id) = entry.get_document("_id").ok().filter(|id| **id != self.id) else {
                own = Some(entry);
                continue;
            };
            let owns = entry.get_array("owns").into_iter().flatten();
            for other in owns.filter_map(Bson::as_document) {
                if let Some(owned) = self.owns.iter().find(|owned| owned.is_of(other, database)) {
                    return Err(owned.refused(id, other, effect));
                }
            }
        }
        Ok(own)
    }

    /// Returns whether an entry says what the repository owns and needs, and its creator does not remove it.
    pub(crate) fn is_confirmed(&self, stored: &Document) -> bool {
        stored.get("owns") == Some(&self.stored_owns())
            && stored.get("indexes") == Some(&self.stored_indexes())
            && !stored.contains_key(UNCONFIRMED)
    }

    pub(crate) fn compare(&self, stored: &Document, except: &[&str]) -> Result<()> {
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
