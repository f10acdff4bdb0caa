//! What needs attention, with the command that does it.

use mongo_patterns_core::catalog::COLLECTION;
use mongodb::Namespace;
use mongodb::bson::DateTime;

use super::command::CREATE;
use super::entries::{Entry, Steps};
use super::state::Status;
use crate::command::of_program;
use crate::migrations::{resume, state};
use crate::output::counted;

/// How long after it has stored its position a follower counts as stopped, in milliseconds. Also without any change, one that runs
/// stores it every few seconds.
const STOPPED_AFTER_MILLIS: i64 = 10 * 60 * 1000;
/// How long a verification shows that copies without a follower are right, in milliseconds.
const VERIFIED_FOR_MILLIS: i64 = 24 * 60 * 60 * 1000;
const PROGRAM: &str = "start the service that uses it, which creates its indexes";
/// The most bytes of a document.
const MOST_BYTES: u64 = 16 * 1024 * 1024;

/// A problem, and what to do.
pub(super) struct Need {
    pub(super) collection: String,
    pub(super) text: String,
    pub(super) remedy: Remedy,
}

pub(super) enum Remedy {
    /// Commands of this program, in this order.
    Commands(Vec<String>),
    /// What a person or another program must do.
    Advice(String),
    /// What a person must do, or a command under the last condition of the text.
    Either(String, String),
}

pub(super) fn of(status: &Status) -> Vec<Need> {
    let mut needs = Vec::new();
    let mut need = |collection: &str, text: String, remedy: Remedy| {
        let collection = collection.to_owned();
        needs.push(Need {
            collection,
            text,
            remedy,
        });
    };
    let advice = |text: &str| Remedy::Advice(text.to_owned());
    let stopped = status.migrations.iter().filter(|record| state(record) == "stopped");
    for record in stopped {
        let setting = |name: &str| record.settings.get_str(name).unwrap_or("?");
        let (remedy, further) = match resume::command(record) {
            Some((command, further)) => (Remedy::Commands(vec![command.to_string()]), further),
            None => (advice("run it again by the program that began it"), ""),
        };
        let (pattern, source) = (setting("pattern"), setting("source"));
        let migrated = counted(record.migrated, "item");
        let text = format!("the {pattern} migration from {source} is unfinished, after {migrated}: resume it{further}");
        need(&record.collection, text, remedy);
    }
    for entry in &status.entries.managed {
        of_entry(status, entry, &mut |text, remedy| {
            need(&entry.collection.coll, text, remedy);
        });
    }
    for (one, other, what) in &status.entries.conflicts {
        let [one, other] = [one, other].map(|number| &status.entries.managed[*number]);
        let text = format!("the patterns {} and {} both own {what}", one.pattern, other.pattern);
        let delete = format!("delete the entry that no program uses in {COLLECTION}");
        let choose = format!("choose another name for one of them, or {delete}");
        need(&one.collection.coll, text, Remedy::Advice(choose));
    }
    for follower in &status.entries.followers {
        let is_stopped = |at: &DateTime| status.millis_since(*at) >= STOPPED_AFTER_MILLIS;
        let Some(updated) = follower.updated.filter(is_stopped) else {
            continue;
        };
        let at = updated.try_to_rfc3339_string().unwrap_or_default();
        let text = format!("the follower {} has stored no position since {at}", follower.name);
        let start = format!("start the program that follows, or delete its record in {COLLECTION}");
        need(&follower.watched.join(", "), text, Remedy::Advice(start));
    }
    for Steps { name, failed, .. } in &status.entries.steps {
        let Some(step) = failed else { continue };
        let text = format!("an instance failed in the step {step} of the list {name}, whose outcome is unknown");
        let mut mark = of_program("schema");
        let mark = mark.verb("mark");
        let again = format!("start the service again, which repeats it, or record by `{mark}` that it is applied");
        need(COLLECTION, text, Remedy::Advice(again));
    }
    needs
}

/// Finds what an entry and its collections need.
fn of_entry(status: &Status, entry: &Entry, need: &mut dyn FnMut(String, Remedy)) {
    let pattern = entry.pattern.as_str();
    let advice = |text: &str| Remedy::Advice(text.to_owned());
    let commands = |verbs: &[&str], otherwise: &str| {
        let commands = verbs.iter().map(|verb| Some(entry.command(verb)?.to_string()));
        commands
            .collect::<Option<_>>()
            .map_or_else(|| advice(otherwise), Remedy::Commands)
    };
    let set_up = || commands(&[CREATE], PROGRAM);
    let verify = || commands(&["verify"], "verify it by the service that uses it");
    let repair = || match pattern {
        "embedded" | "trash" => verify(),
        _ => commands(&["repair", "verify"], "repair it by the service that uses it"),
    };
    if let Some(failed) = &entry.failed {
        need(format!("verify failed: {failed}"), verify());
    }
    let lost = entry.collections().filter(|one| status.size_of(one).is_none());
    let lost: Vec<&Namespace> = lost.collect();
    for namespace in &lost {
        let (text, remedy) = of_lost(status, entry, namespace);
        need(text, remedy);
    }
    if entry.is_later {
        let text = "a later version of the library wrote the entry in the catalog, so not all of it is known";
        need(text.to_owned(), advice("use this program of that version"));
    }
    let Some(facts) = status.facts.get(&entry.collection).filter(|_| lost.is_empty()) else {
        return;
    };
    let missing = status.missing_of(entry);
    let missing: Vec<_> = missing
        .map(|index| format!("{} of {}", index.name, index.namespace.coll))
        .collect();
    if !missing.is_empty() {
        need(
            format!("the {pattern} pattern lacks indexes: {}", missing.join(", ")),
            set_up(),
        );
    } else if !entry.is_complete {
        let set_up = match pattern {
            "reference" | "subset" => advice(PROGRAM),
            _ => set_up(),
        };
        need("the entry in the catalog is not complete".to_owned(), set_up);
    }
    let is_settled = !status.is_being_migrated(entry);
    if let Some((array, most)) = entry.bound().filter(|_| is_settled)
        && let elements @ 1.. = facts.longest(array).saturating_sub(most)
    {
        let elements = counted(elements + most, "element");
        let text = format!("`{array}` of a document has {elements}, and the settings allow {most}");
        need(
            text,
            if pattern == "outlier" {
                commands(&["migrate"], PROGRAM)
            } else {
                repair()
            },
        );
    }
    for Namespace { coll, .. } in entry.collections().filter(|one| status.largest(one) > MOST_BYTES / 2) {
        let smaller = "store smaller documents";
        let text = format!("a document of {coll} has more than half of the 16 MiB that the server stores");
        need(
            text,
            match pattern {
                "archive" | "trash" => advice(smaller),
                _ => commands(&["analyze"], smaller),
            },
        );
    }
    let is_empty = facts.size.is_none_or(|size| size.documents == 0);
    if let (Some(age), None, false, true) = (entry.setting("age"), facts.oldest, is_empty, missing.is_empty()) {
        let text = format!("no document has a date in the field `{age}`, so none is ever archived");
        need(text, advice("set up the archive with the field that has the time"));
    }
    if let Some(expired) = status.expired(entry) {
        let text = format!(
            "{} of the trash are past their time, and not deleted",
            counted(expired, "document")
        );
        let check =
            "check that the index on expiresAt has expireAfterSeconds, and the server the parameter ttlMonitorEnabled";
        need(text, advice(check));
    }
    let verified = entry.verified.as_ref();
    if let Some(found) = verified.filter(|verified| verified.findings > 0 && is_settled) {
        let at_least = if found.at_least { "at least " } else { "" };
        let findings = counted(found.findings, "finding");
        need(format!("the last verify has {at_least}{findings}"), repair());
    }
    let is_verified = verified.is_some_and(|of| of.findings == 0 && status.millis_since(of.at) < VERIFIED_FOR_MILLIS);
    if is_settled && entry.needs_follower() && status.entries.follower_of(entry).is_none() && !is_verified {
        let text = "the copies have no follower, and no verify of the last day shows that they are right";
        need(text.to_owned(), repair());
    }
}

/// Returns what a missing collection needs. No command for its indexes, which would hide the loss.
fn of_lost(status: &Status, entry: &Entry, namespace: &Namespace) -> (String, Remedy) {
    let (pattern, is_main) = (entry.pattern.as_str(), *namespace == entry.collection);
    let name = match namespace.db == entry.collection.db {
        true => namespace.coll.clone(),
        false => namespace.to_string(),
    };
    if status.is_view(namespace) {
        let text = format!("{name} is a view, and the {pattern} pattern needs a plain collection");
        let restore = "rename or drop it, and restore the collection";
        return (text, Remedy::Advice(restore.to_owned()));
    }
    let text = format!("the collection {name} of the {pattern} pattern does not exist");
    let delete = format!("; if no program uses it, delete its entry in {COLLECTION}");
    let delete = if is_main { delete.as_str() } else { "" };
    let restore = format!("restore it{delete}; if it never had documents");
    // The commands of these two check the documents first.
    let is_checked = is_main && ["archive", "schema"].contains(&pattern);
    let remedy = if !entry.indexes.iter().any(|index| index.namespace == *namespace) && entry.is_complete {
        Remedy::Advice(format!("{restore}, its first one creates it"))
    } else if let Some(create) = entry.command(CREATE).filter(|_| !is_checked && entry.is_complete) {
        Remedy::Either(restore, create.to_string())
    } else {
        Remedy::Advice(format!("{restore}, {PROGRAM}"))
    };
    (text, remedy)
}
