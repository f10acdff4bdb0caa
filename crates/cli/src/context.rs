//! What all commands share.

use std::sync::OnceLock;

use mongodb::Database;
use mongodb::bson::{Document, doc};

use crate::failure::Failure;
use crate::output::Output;
use crate::profile::Profile;

/// The context in which a command runs.
pub(crate) struct Context {
    pub(crate) database: Database,
    pub(crate) output: Output,
    pub(crate) profile: Profile,
    /// The collection of the command, if it has no entry of the pattern in the catalog, and a text about what the catalog has.
    pub(crate) known: OnceLock<(Option<String>, String)>,
}

impl Context {
    /// Returns an error for a collection that does not exist. Names are easily mistyped, and an empty collection has no
    /// findings.
    pub(crate) async fn must_exist(&self, collection: &str) -> Result<(), Failure> {
        if !self.exists(collection).await? {
            let database = self.database.name();
            let missing = Failure::usage(format!(
                "there is no collection {database}.{collection}: check --db, and the names in the options and the profile"
            ));
            return Err(Failure {
                is_missing: self
                    .known
                    .get()
                    .is_some_and(|(name, _)| name.as_deref() == Some(collection)),
                ..missing
            });
        }
        Ok(())
    }

    /// Does what [`must_exist`](Self::must_exist) does for each collection that the settings name.
    pub(crate) async fn must_have<'s>(
        &self,
        names: impl IntoIterator<Item = &'s Option<String>>,
    ) -> Result<(), Failure> {
        for name in names.into_iter().flatten() {
            self.must_exist(name).await?;
        }
        Ok(())
    }

    pub(crate) async fn exists(&self, collection: &str) -> Result<bool, Failure> {
        self.has(doc! { "name": collection }).await
    }

    pub(crate) async fn is_view(&self, collection: &str) -> Result<bool, Failure> {
        self.has(doc! { "name": collection, "type": "view" }).await
    }

    /// Returns whether the database has a collection that the server lists so.
    async fn has(&self, listed: Document) -> Result<bool, Failure> {
        let named = self.database.list_collection_names().filter(listed);
        let named = named
            .await
            .map_err(Failure::on(format!("`listCollections` on {}", self.database.name())))?;
        Ok(!named.is_empty())
    }
}
