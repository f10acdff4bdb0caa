//! The collections that the patterns work on: plain ones, with the simple collation, that keep what is inserted.

use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::{Collection, Namespace};

use crate::conn::Conn;
use crate::error::{Error, ErrorKind, Result};
use crate::send::Step;

type Raw = Collection<RawDocumentBuf>;

/// Refuses collections that the patterns cannot work on. One that does not exist is fine. One round trip for each database.
pub(super) async fn check(conn: &mut Conn<'_>, collections: &[&Raw]) -> Result<()> {
    let mut rest = collections.to_vec();
    while let Some(first) = rest.first().copied() {
        let database = first.namespace().db;
        let is_here = |other: &&Raw| other.namespace().db == database;
        let (here, elsewhere): (Vec<&Raw>, Vec<&Raw>) = rest.into_iter().partition(is_here);
        let names: Vec<&str> = here.into_iter().map(Collection::name).collect();
        let list = Step::list("check the collation", first, command(&names));
        let infos = conn.read(list).await?.decoded()?;
        infos.iter().try_for_each(|info| check_info(&database, info))?;
        rest = elsewhere;
    }
    Ok(())
}

/// Returns whether a collection exists. One round trip.
pub(super) async fn exists(conn: &mut Conn<'_>, collection: &Raw) -> Result<bool> {
    let list = Step::list("look for the collection", collection, command(&[collection.name()]));
    Ok(!conn.read(list).await?.documents.is_empty())
}

/// The command that lists the options of collections of one database.
fn command(names: &[&str]) -> Document {
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
        let (configuration, collation) = (Some(ErrorKind::Configuration), Some(ErrorKind::UnsupportedCollation));
        let clustered = doc! { "v": 2, "key": { "_id": 1 }, "unique": true };
        for (options, expected) in [
            (doc! {}, None),
            (doc! { "capped": false, "collation": { "locale": "simple" } }, None),
            (doc! { "validator": { "capped": true } }, None),
            (doc! { "capped": true, "size": 4096 }, configuration),
            (doc! { "clusteredIndex": clustered }, configuration),
            (doc! { "collation": { "locale": "en", "strength": 2 } }, collation),
        ] {
            assert_eq!(with(options.clone()), expected, "{options}");
        }
        for other in ["view", "timeseries"] {
            let info = doc! { "name": "sales", "type": other, "options": {} };
            assert_eq!(kind(&info), configuration, "{other}");
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
