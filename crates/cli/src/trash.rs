//! Deleted documents in a second collection.

use std::time::{Duration, SystemTime};

use mongo_patterns_archive::{Trash as Repository, TrashEntry, TrashToken};
use mongo_patterns_core::migration::Migration;
use mongodb::bson::{Bson, DateTime, Document};
use serde_json::json;

use crate::args::{Trash, TrashVerb};
use crate::confirm::{confirmed, deletion};
use crate::context::Context;
use crate::document_settings::TrashSettings;
use crate::failure::{Exit, Failure, Outcome};
use crate::findings::Check;
use crate::migrate::{COMMANDS, Migrate};
use crate::output::{Output, Record, Summary, printable, to_json};
use crate::selection::id;
use crate::settings::need;
use crate::{catalog, indexes, shell};

type Documents = Repository<Document>;

const PATTERN: &str = "trash";

pub(crate) async fn run(context: &Context, pattern: &Trash) -> Outcome {
    let settings = catalog::settings(context, &pattern.settings).await?;
    if !matches!(pattern.verb, TrashVerb::Setup(_)) {
        context.must_have([&settings.collection]).await?;
    }
    let trash = repository(context, &settings)?;
    match &pattern.verb {
        TrashVerb::List { limit, after } => list(context.output, &trash, *limit, after.as_deref()).await,
        TrashVerb::Restore { document } => {
            let restored = trash.restore(id(document)?).await?;
            let summary = Summary::of(&trash, "restore")
                .row("restored", u64::from(!restored.already_there))
                .row("already_there", restored.already_there);
            context.output.summary(&summary, Exit::Success)?;
            Ok(Exit::Success)
        }
        TrashVerb::Empty {
            older_than,
            pace,
            dry_run,
            confirmation,
        } => {
            let days = u64::from(older_than.older_than);
            let before = SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60);
            if !dry_run.dry_run {
                let consequence = deletion("entries", older_than.older_than);
                confirmed(context.output, *confirmation, &consequence).await?;
            }
            let mut delete = trash.delete_before(DateTime::from_system_time(before));
            pace.set(delete.options());
            let migrate = Migrate {
                verb: "empty",
                omits: &COMMANDS, // of the first chunk
                ..Migrate::new(context, &trash, dry_run.mode(), "documents")
            };
            migrate.execute(delete).await
        }
        TrashVerb::Verify(listing) => {
            let verify = |report| trash.verify().on_progress(report).stream();
            let check = Check::new(context, &trash, "verify", "entries");
            check.verify(*listing, verify).await
        }
        TrashVerb::Setup(setup) => indexes::set_up(context, &trash, setup).await,
    }
}

fn repository(context: &Context, settings: &TrashSettings) -> Result<Documents, Failure> {
    let collection = need(settings.collection.as_ref(), PATTERN, "collection")?;
    let trash = need(settings.trash.as_ref(), PATTERN, "trash")?;
    let client = context.database.client();
    let trash_db = settings.trash_db.as_deref().unwrap_or(context.database.name());
    let current = context.database.collection::<Document>(collection);
    let mut builder = Documents::builder(current, client.database(trash_db).collection::<Document>(trash));
    if let Some(time) = settings.expires_after_ms {
        builder = builder.expires_after(Duration::from_millis(time));
    }
    for related in settings.related.iter().flat_map(|related| related.chunks_exact(2)) {
        builder = builder.related(context.database.collection::<Document>(&related[0]), &related[1]);
    }
    Ok(builder.build()?)
}

/// Prints a page of the entries, the newest first.
async fn list(output: Output, trash: &Documents, limit: u32, after: Option<&str>) -> Outcome {
    let after = after.map(str::parse::<TrashToken>).transpose()?;
    let page = trash.list().newest_first().limit(limit).after(after).page().await?;
    let namespaces = mongo_patterns_core::Repository::namespaces(trash);
    for TrashEntry {
        document,
        deleted_at,
        deleted_by,
        ..
    } in &page.items
    {
        let at = deleted_at.try_to_rfc3339_string().unwrap_or_default();
        let by = deleted_by
            .as_ref()
            .map(|by| format!(" by {}", printable(&shell::pretty(by))));
        let without_id = if document.contains_key("_id") {
            ""
        } else {
            ", without an `_id`: `trash verify` names the entry"
        };
        output.record(Record {
            kind: "entry",
            collection: &namespaces[0].coll,
            id: document.get("_id").cloned(),
            text: format!("deleted at {at}{}{without_id}", by.unwrap_or_default()),
            fields: json!({
                "deleted_at": at,
                "deleted_by": deleted_by.as_ref().map(to_json),
                "document": to_json(&Bson::Document(document.clone())),
            }),
        })?;
    }
    let mut summary = Summary::of(trash, "list").row("entries", page.items.len());
    if let Some(next) = page.next {
        summary = summary.row("more_with_after", next.to_string());
    }
    output.summary(&summary, Exit::Success)?;
    Ok(Exit::Success)
}
