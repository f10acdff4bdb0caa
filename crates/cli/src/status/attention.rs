//! What needs attention, with the command that does it.

use mongo_patterns_core::catalog::COLLECTION;

use super::entries::Entry;
use super::state::Status;
use crate::output::counted;

/// How long after it has stored its position a follower counts as stopped, in milliseconds. Also without any change, one that runs
/// stores it every few seconds.
const STOPPED_AFTER_MILLIS: i64 = 10 * 60 * 1000;

/// The patterns whose settings the command line reads in the catalog.
const WITH_COMMANDS: [&str; 6] = ["bucket", "outlier", "subset", "embedded", "history", "reference"];

/// A problem, and what to do.
pub(super) struct Need {
    pub(super) collection: String,
    pub(super) text: String,
    /// A command of this program, or what another one must call.
    pub(super) remedy: String,
}

pub(super) fn of(status: &Status) -> Vec<Need> {
    let mut needs = Vec::new();
    for entry in &status.entries.managed {
        let main = &entry.collection;
        let mut need = |text: String, remedy: String| {
            needs.push(Need {
                collection: main.coll.clone(),
                text,
                remedy,
            });
        };
        if status.size_of(main).is_none() {
            let text = format!(
                "the {} pattern has an entry, and the collection does not exist",
                entry.pattern
            );
            let delete = format!("if no program uses it, delete its entry in the collection {COLLECTION}");
            need(text, format!("{}; {delete}", set_up(entry)));
            continue;
        }
        let missing = status.missing_of(entry);
        let missing: Vec<String> = missing
            .map(|(namespace, name)| format!("{name} of {}", namespace.coll))
            .collect();
        if !missing.is_empty() {
            need(
                format!("the {} pattern lacks indexes: {}", entry.pattern, missing.join(", ")),
                set_up(entry),
            );
        } else if !entry.is_complete {
            need("the entry in the catalog is not complete".to_owned(), set_up(entry));
        }
    }
    for (one, other, what) in &status.entries.conflicts {
        let [one, other] = [one, other].map(|number| &status.entries.managed[*number]);
        needs.push(Need {
            collection: one.collection.coll.clone(),
            text: format!("the patterns {} and {} both own {what}", one.pattern, other.pattern),
            remedy: format!(
                "choose another name for one of them, or delete the entry that no program uses in {COLLECTION}"
            ),
        });
    }
    for record in &status.migrations {
        if record.finished.is_some() || record.is_running {
            continue;
        }
        let setting = |name: &str| record.settings.get_str(name).ok();
        let (pattern, source) = (setting("pattern").unwrap_or("?"), setting("source"));
        let from = source.map(|source| format!(" from {source}")).unwrap_or_default();
        let migrated = counted(record.migrated, "item");
        let option = match (pattern, source) {
            ("bucket", Some(source)) => format!(" --flat {source}"),
            _ => String::new(),
        };
        needs.push(Need {
            collection: record.collection.clone(),
            text: format!("the {pattern} migration{from} is unfinished, after {migrated}"),
            remedy: format!(
                "mongo-patterns {pattern} --collection {}{option} migrate",
                record.collection
            ),
        });
    }
    for follower in &status.entries.followers {
        let Some(updated) = follower.updated else { continue };
        if status.now.timestamp_millis() - updated.timestamp_millis() < STOPPED_AFTER_MILLIS {
            continue;
        }
        let at = updated.try_to_rfc3339_string().unwrap_or_default();
        needs.push(Need {
            collection: follower.watched.join(", "),
            text: format!("the follower {} has stored no position since {at}", follower.name),
            remedy: format!("start the program that follows, or delete its record in {COLLECTION}"),
        });
    }
    needs
}

/// Returns the command that creates the indexes and completes the entry.
fn set_up(entry: &Entry) -> String {
    let pattern = &entry.pattern;
    if !WITH_COMMANDS.contains(&pattern.as_str()) {
        return format!("start a program that sets up its {pattern} repository by ensure_indexes()");
    }
    let field = entry.field.as_ref().map(|field| {
        let option = match pattern.as_str() {
            "outlier" => "array",
            "subset" => "subset",
            "embedded" => "children",
            _ => "reference",
        };
        format!(" --{option} {field}")
    });
    let field = field.unwrap_or_default();
    format!(
        "mongo-patterns {pattern} --collection {}{field} indexes --create",
        entry.collection.coll
    )
}
