//! Which collections the patterns work on: plain ones, with the simple collation, that keep what is inserted.

use mongodb::bson::{Bson, Document, doc};
use mongodb::{Collection, Namespace};

use super::existing::{first_batch, run};
use super::{EnsuredIndexes, IndexPlan};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::{PlannedCommand, list_indexes as list_command};
use crate::session::Session;

impl IndexPlan {
    /// Does what [`ensure`](Self::ensure) does, for a pattern of two collections: the other one, which needs no index, is
    /// checked too. It takes the same round trips, and one more where the two are in two databases.
    ///
    /// # Errors
    /// Those of [`ensure`](Self::ensure), for either collection.
    #[doc(hidden)]
    pub async fn ensure_with<T: Send + Sync, U: Send + Sync>(
        &self,
        collection: &Collection<T>,
        other: &Collection<U>,
        mut session: Option<&mut Session<'_>>,
    ) -> Result<EnsuredIndexes> {
        check_both(collection, other, session.as_deref_mut()).await?;
        self.create_missing(collection, session).await
    }

    /// Lists what [`ensure_with`](Self::ensure_with) sends.
    ///
    /// # Errors
    /// Those of [`ensure_with`](Self::ensure_with), but for documents that violate an index.
    #[doc(hidden)]
    pub async fn ensure_commands_with<T: Send + Sync, U: Send + Sync>(
        &self,
        collection: &Collection<T>,
        other: &Collection<U>,
    ) -> Result<Vec<PlannedCommand>> {
        check_both(collection, other, None).await?;
        let options = if is_one_database(collection, other) {
            vec![command(&[collection.name(), other.name()])]
        } else {
            vec![command(&[collection.name()]), command(&[other.name()])]
        };
        self.commands_after(options, collection).await
    }

    /// The commands that follow the checks of the collections.
    pub(super) async fn commands_after<T: Send + Sync>(
        &self,
        checks: Vec<Document>,
        collection: &Collection<T>,
    ) -> Result<Vec<PlannedCommand>> {
        let missing = self.missing(collection).await?;
        let checks = checks
            .into_iter()
            .map(|check| PlannedCommand::read("check the collation", check));
        let mut commands: Vec<PlannedCommand> = checks.collect();
        commands.push(PlannedCommand::read(
            "look for the indexes",
            list_command(collection.name()),
        ));
        if !missing.is_empty() {
            commands.push(PlannedCommand::write("create indexes", self.create_command(&missing)));
        }
        Ok(commands)
    }
}

/// Refuses a collection that the patterns cannot work on. One that does not exist is fine.
pub(super) async fn check<T: Send + Sync>(collection: &Collection<T>, session: Option<&mut Session<'_>>) -> Result<()> {
    let database = collection.client().database(&collection.namespace().db);
    let reply = run(&database, command(&[collection.name()]), session).await?;
    first_batch(&reply).try_for_each(|info| check_info(&collection.namespace().db, info))
}

/// Does what [`check`] does for two collections, in one round trip where they are in one database.
async fn check_both<T: Send + Sync, U: Send + Sync>(
    one: &Collection<T>,
    other: &Collection<U>,
    mut session: Option<&mut Session<'_>>,
) -> Result<()> {
    if !is_one_database(one, other) {
        check(one, session.as_deref_mut()).await?;
        return check(other, session).await;
    }
    let database = one.client().database(&one.namespace().db);
    let reply = run(&database, command(&[one.name(), other.name()]), session).await?;
    first_batch(&reply).try_for_each(|info| check_info(&one.namespace().db, info))
}

fn is_one_database<T: Send + Sync, U: Send + Sync>(one: &Collection<T>, other: &Collection<U>) -> bool {
    one.namespace().db == other.namespace().db
}

/// The command that lists the options of collections of one database.
pub(super) fn command(names: &[&str]) -> Document {
    let name = match names {
        [name] => Bson::from(*name),
        names => doc! { "$in": names }.into(),
    };
    doc! { "listCollections": 1, "filter": { "name": name } }
}

/// Checks what the server lists for a collection.
fn check_info(database: &str, info: &Document) -> Result<()> {
    let namespace = Namespace::new(database, info.get_str("name").unwrap_or_default());
    let kind = info.get_str("type").unwrap_or("collection");
    if kind != "collection" {
        return refused(format!(
            "`{namespace}` is a {kind}, and the pattern needs a plain collection: use another one"
        ));
    }
    let Ok(options) = info.get_document("options") else {
        return Ok(());
    };
    if options.get_bool("capped").unwrap_or(false) {
        return refused(format!(
            "the collection `{namespace}` is capped, so the server would delete documents of the pattern: use one that is not capped"
        ));
    }
    if options.contains_key("clusteredIndex") {
        return refused(is_clustered(&namespace));
    }
    match options.get_document("collation") {
        Ok(collation) if collation.get_str("locale").ok() != Some("simple") => Err(Error::new(
            ErrorKind::UnsupportedCollation,
            format!(
                "the collation of the collection `{namespace}` is {}, under which different ids can be equal and a key's documents are no range of the `_id` index: create the collection with the simple collation, which is the default",
                Bson::Document(collation.clone())
            ),
        )),
        _ => Ok(()),
    }
}

/// Refuses a clustered collection, which has no `_id` index beside its documents, by what the server lists as its indexes.
pub(super) fn check_indexes(namespace: &Namespace, present: &[Document]) -> Result<()> {
    let is_clustering = |index: &Document| index.get_bool("clustered").unwrap_or(false);
    match present.iter().any(is_clustering) {
        true => refused(is_clustered(namespace)),
        false => Ok(()),
    }
}

fn is_clustered(namespace: &Namespace) -> String {
    format!(
        "the collection `{namespace}` is clustered, so it has no `_id` index of its own, on which the pattern relies: use one without `clusteredIndex`"
    )
}

fn refused(message: String) -> Result<()> {
    Err(Error::new(ErrorKind::Configuration, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(info: &Document) -> Option<ErrorKind> {
        check_info("shop", info).err().map(|error| error.kind())
    }

    #[test]
    fn a_plain_collection_is_taken_and_others_are_refused() {
        let with = |options: Document| kind(&doc! { "name": "sales", "type": "collection", "options": options });
        assert_eq!(with(doc! {}), None);
        assert_eq!(
            with(doc! { "capped": false, "collation": { "locale": "simple" } }),
            None
        );
        assert_eq!(with(doc! { "validator": { "capped": true } }), None);
        assert_eq!(
            with(doc! { "capped": true, "size": 4096 }),
            Some(ErrorKind::Configuration)
        );
        let clustered = doc! { "clusteredIndex": { "v": 2, "key": { "_id": 1 }, "unique": true } };
        assert_eq!(with(clustered), Some(ErrorKind::Configuration));
        assert_eq!(
            with(doc! { "collation": { "locale": "en", "strength": 2 } }),
            Some(ErrorKind::UnsupportedCollation)
        );
        for other in ["view", "timeseries"] {
            assert_eq!(
                kind(&doc! { "name": "sales", "type": other, "options": {} }),
                Some(ErrorKind::Configuration)
            );
        }
        let error = check_info("shop", &doc! { "name": "sales", "type": "view" }).unwrap_err();
        assert!(error.to_string().starts_with("`shop.sales` is a view"), "{error}");
    }

    #[test]
    fn one_collection_is_looked_up_as_before_and_two_by_one_command() {
        assert_eq!(
            command(&["sales"]),
            doc! { "listCollections": 1, "filter": { "name": "sales" } }
        );
        assert_eq!(
            command(&["extra_sales", "sales"]),
            doc! { "listCollections": 1, "filter": { "name": { "$in": ["extra_sales", "sales"] } } }
        );
    }
}
