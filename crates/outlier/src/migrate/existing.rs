//! What adopting would send, document by document.

use std::pin::Pin;

use futures::future::ready;
use futures::stream::{iter, once};
use futures::{Stream, StreamExt, TryStreamExt};
use mongo_patterns_core::plan::update;
use mongo_patterns_core::transaction::hold_commands;
use mongo_patterns_core::{PlannedCommand, Result};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};

use crate::query;
use crate::query::repair as mend_query;
use crate::repair::fix::Mending;
use crate::repair::rewrite::Work;
use crate::repair::scan::{looks, names};
use crate::repository::Shared;

/// A stream of commands; made by [`MigrateExisting::plan`](crate::action::MigrateExisting::plan).
pub type CommandStream<'a> = Pin<Box<dyn Stream<Item = Result<PlannedCommand>> + Send + 'a>>;

/// All that [`migrate_existing`](crate::OutlierRepository::migrate_existing) would send.
pub(crate) fn adopting(shared: &Shared) -> CommandStream<'_> {
    let settings = &shared.settings;
    let look = doc! {
        "aggregate": shared.main.name(),
        "pipeline": mend_query::looks(settings, names(shared)),
        "cursor": {},
        "allowDiskUse": true,
    };
    let look = PlannedCommand::read("look for documents that are not in form", look);
    let of_documents = looks(shared)
        .try_filter(move |look| ready(!look.is_in_form(settings)))
        .and_then(move |look| async move { of_document(shared, &look.id).await })
        .map_ok(|commands| iter(commands.into_iter().map(Ok)))
        .try_flatten();
    Box::pin(once(ready(Ok(look))).chain(of_documents))
}

/// The transaction that writes one document anew.
async fn of_document(shared: &Shared, id: &Bson) -> Result<Vec<PlannedCommand>> {
    let Shared {
        main,
        overflow,
        settings,
        ..
    } = shared;
    let (main, overflow) = (main.name(), overflow.name());
    let mending = Work::new(shared, id, false).look(None).await?;
    let find = |collection: &str, filter: Document, projection: Document| {
        let mut find = doc! { "find": collection, "filter": filter };
        if !projection.is_empty() {
            find.insert("projection", projection);
        }
        find
    };
    let parts = find(main, query::by_id(id), mend_query::main_parts(settings));
    let extras = find(overflow, query::extras_of(settings, id), Document::new());
    let mut commands = vec![
        PlannedCommand::read("read a document", parts),
        PlannedCommand::read("read its extras", extras),
    ];
    if !mending.is_empty() {
        commands.append(&mut writes(shared, id, &mending)?);
        let sizes = find(main, query::by_id(id), mend_query::main_sizes(settings));
        let extras = mend_query::true_extras_of(settings, id);
        let extras = find(overflow, extras, mend_query::extras_sizes(settings));
        commands.push(PlannedCommand::read("look at the document again", sizes));
        commands.push(PlannedCommand::read("look at its extras again", extras));
    }
    in_transaction(&mut commands);
    let commit = doc! { "commitTransaction": 1, "autocommit": false };
    let commit = match mending.is_empty() {
        true => PlannedCommand::read("end the transaction", commit),
        false => PlannedCommand::write("commit the transaction", commit),
    };
    commands.push(commit.on_admin());
    if mending.clears_flag {
        let extras = query::extras_of(settings, id);
        let mut find = find(overflow, extras, doc! { "_id": 1 });
        find.insert("limit", 1);
        commands.push(PlannedCommand::read("look whether there are extras again", find));
    }
    Ok(commands)
}

/// What a transaction writes, in its order.
fn writes(shared: &Shared, id: &Bson, mending: &Mending) -> Result<Vec<PlannedCommand>> {
    let Shared {
        main,
        overflow,
        settings,
        ..
    } = shared;
    let overflow = overflow.name();
    let mut commands = Vec::new();
    let mut write = |purpose, command| commands.push(PlannedCommand::write(purpose, command));
    if !mending.main.is_empty() {
        let change = vec![doc! { "$set": mending.main.clone() }];
        write(
            "write the document",
            update(main.name(), doc! { "q": query::by_id(id), "u": change }),
        );
    } else if mending.found {
        for hold in hold_commands(main.name(), &query::by_id(id)) {
            write("hold the document", hold);
        }
    }
    if let Some(place) = mending.claim {
        let claim = ObjectId::new();
        let document = doc! {
            "_id": claim,
            settings.parent.as_str(): id,
            settings.seq.as_str(): place,
            settings.count.as_str(): 0,
            settings.extras.as_str(): [],
        };
        write("claim the place after its extras", insert(overflow, vec![document]));
        let mut filter = query::extras_of(settings, id);
        filter.insert("_id", claim);
        write("give the place back", delete(overflow, filter, 1));
    }
    for filter in mending.changes.deletions() {
        write("remove extras", delete(overflow, filter, 0));
    }
    if !mending.changes.written.is_empty() {
        let documents = mending.changes.written.iter().map(decoded);
        let documents = documents.collect::<mongodb::error::Result<_>>()?;
        write("write extras", insert(overflow, documents));
    }
    Ok(commands)
}

fn decoded(document: &RawDocumentBuf) -> mongodb::error::Result<Document> {
    Ok(Document::try_from(document)?)
}

fn insert(collection: &str, documents: Vec<Document>) -> Document {
    doc! { "insert": collection, "ordered": true, "documents": documents }
}

fn delete(collection: &str, filter: Document, limit: i32) -> Document {
    doc! { "delete": collection, "ordered": true, "deletes": [{ "q": filter, "limit": limit }] }
}

/// All belong to one. The session's id and the number of the transaction are the driver's.
fn in_transaction(commands: &mut [PlannedCommand]) {
    for (number, planned) in commands.iter_mut().enumerate() {
        if number == 0 {
            planned.command.insert("readConcern", doc! { "level": "snapshot" });
            planned.command.insert("startTransaction", true);
        }
        planned.command.insert("autocommit", false);
    }
}
