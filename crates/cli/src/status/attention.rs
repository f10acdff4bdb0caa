//! What needs attention, with the command that does it.

use mongo_patterns_core::catalog::COLLECTION;
use mongodb::Namespace;
use mongodb::bson::DateTime;

use super::entries::{Entry, Steps};
use super::state::Status;
use crate::migrations::{resume, state};
use crate::output::counted;

/// How long after it has stored its position a follower counts as stopped, in milliseconds. Also without any change, one that runs
/// stores it every few seconds.
const STOPPED_AFTER_MILLIS: i64 = 10 * 60 * 1000;
/// How long a verification shows that copies without a follower are right, in milliseconds.
const VERIFIED_FOR_MILLIS: i64 = 24 * 60 * 60 * 1000;
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
        let again =
            "start the service again, which repeats it, or record by `mongo-patterns schema mark` that it is applied";
        need(COLLECTION, text, advice(again));
    }
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
    let program = "start the service that uses it, which creates its indexes";
    let set_up = || commands(&["indexes --create"], program);
    let verify = || commands(&["verify"], "verify it by the service that uses it");
    let repair = || match pattern {
        "embedded" | "trash" => verify(),
        _ => commands(&["repair", "verify"], "repair it by the service that uses it"),
    };
    let Some(facts) = status.facts.get(&entry.collection).filter(|facts| facts.size.is_some()) else {
        if !entry.indexes.is_empty() {
            let create = entry.command("indexes --create").map(|command| command.to_string());
            let create = create.unwrap_or_else(|| program.to_owned());
            let delete = format!("if no program uses it, delete its entry in {COLLECTION}");
            let restore = format!("restore it; to begin with a new one, {create}; {delete}");
            need(
                format!("the collection of the {pattern} pattern does not exist"),
                Remedy::Advice(restore),
            );
        }
        return;
    };
    let missing = status.missing_of(entry);
    let missing: Vec<_> = missing
        .map(|(namespace, name)| format!("{name} of {}", namespace.coll))
        .collect();
    if !missing.is_empty() {
        need(
            format!("the {pattern} pattern lacks indexes: {}", missing.join(", ")),
            set_up(),
        );
    } else if !entry.is_complete {
        need("the entry in the catalog is not complete".to_owned(), set_up());
    }
    if let Some((array, most)) = entry.bound()
        && let elements @ 1.. = facts.longest(array).saturating_sub(most)
    {
        let elements = counted(elements + most, "element");
        let text = format!("`{array}` of a document has {elements}, and the settings allow {most}");
        need(
            text,
            if pattern == "outlier" {
                commands(&["migrate"], program)
            } else {
                repair()
            },
        );
    }
    for Namespace { coll, .. } in entry.collections().filter(|one| status.largest(one) > MOST_BYTES / 2) {
        let analyze = commands(&["analyze"], "");
        let text = format!("a document of {coll} has more than half of the 16 MiB that the server stores");
        need(
            text,
            match pattern {
                "archive" | "trash" => advice("store smaller documents"),
                _ => analyze,
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
    if let Some(found) = verified.filter(|verified| verified.findings > 0) {
        need(
            format!("the last verify has {}", counted(found.findings, "finding")),
            repair(),
        );
    } else if let Some(failed) = &entry.failed {
        need(format!("verify failed: {failed}"), verify());
    }
    let is_verified = verified.is_some_and(|of| of.findings == 0 && status.millis_since(of.at) < VERIFIED_FOR_MILLIS);
    if entry.needs_follower() && status.entries.follower_of(entry).is_none() && !is_verified {
        let text = "the copies have no follower, and no verify of the last day shows that they are right";
        need(text.to_owned(), repair());
    }
}
