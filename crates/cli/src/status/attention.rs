//! What needs attention, with the command that does it.

use mongo_patterns_core::catalog::COLLECTION;
use mongodb::Namespace;
use mongodb::bson::DateTime;

use super::entries::Entry;
use super::state::Status;
use crate::analyze::size;
use crate::migrations::resume;
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
    for entry in &status.entries.managed {
        let found = of_entry(status, entry).into_iter();
        needs.extend(found.map(|(text, remedy)| Need {
            collection: entry.collection.coll.clone(),
            text,
            remedy,
        }));
    }
    let mut advise = |collection: &str, text: String, advice: String| {
        needs.push(Need {
            collection: collection.to_owned(),
            text,
            remedy: Remedy::Advice(advice),
        });
    };
    for (one, other, what) in &status.entries.conflicts {
        let [one, other] = [one, other].map(|number| &status.entries.managed[*number]);
        let text = format!("the patterns {} and {} both own {what}", one.pattern, other.pattern);
        let delete = format!("delete the entry that no program uses in {COLLECTION}");
        advise(
            &one.collection.coll,
            text,
            format!("choose another name for one of them, or {delete}"),
        );
    }
    for follower in &status.entries.followers {
        let is_stopped = |at: &DateTime| status.millis_since(*at) >= STOPPED_AFTER_MILLIS;
        let Some(updated) = follower.updated.filter(is_stopped) else {
            continue;
        };
        let at = updated.try_to_rfc3339_string().unwrap_or_default();
        let text = format!("the follower {} has stored no position since {at}", follower.name);
        let advice = format!("start the program that follows, or delete its record in {COLLECTION}");
        advise(&follower.watched.join(", "), text, advice);
    }
    for steps in &status.entries.steps {
        if let Some(step) = &steps.failed {
            let text = format!(
                "an instance failed in the step {step} of the list {}, whose outcome is unknown",
                steps.name
            );
            advise(
                COLLECTION,
                text,
                "start the service again, which repeats it, or record by `mongo-patterns schema mark` that it is applied".to_owned(),
            );
        }
    }
    let stopped = status
        .migrations
        .iter()
        .filter(|record| record.finished.is_none() && !record.is_running);
    for record in stopped {
        let pattern = record.settings.get_str("pattern").unwrap_or("?");
        let source = record
            .settings
            .get_str("source")
            .map(|source| format!(" from {source}"));
        let (command, further) = match resume::command(record) {
            Some((command, further)) => (Remedy::Commands(vec![command.to_string()]), further),
            None => (
                Remedy::Advice("run it again by the program that began it".to_owned()),
                "",
            ),
        };
        needs.push(Need {
            collection: record.collection.clone(),
            text: format!(
                "the {pattern} migration{} is unfinished, after {}: resume it{further}",
                source.unwrap_or_default(),
                counted(record.migrated, "item")
            ),
            remedy: command,
        });
    }
    needs
}

/// Returns what an entry and its collections need.
fn of_entry(status: &Status, entry: &Entry) -> Vec<(String, Remedy)> {
    let pattern = &entry.pattern;
    let program = || format!("start a program that sets up its {pattern} repository by ensure_indexes()");
    let commands = |verbs: &[&str]| {
        let commands: Option<Vec<_>> = verbs.iter().map(|verb| entry.command(verb)).collect();
        commands.map(|commands| Remedy::Commands(commands.iter().map(ToString::to_string).collect()))
    };
    let set_up = || commands(&["indexes --create"]).unwrap_or_else(|| Remedy::Advice(program()));
    let by_program = || {
        Remedy::Advice(format!(
            "verify and repair it by the program of its {pattern} repository"
        ))
    };
    let repair = || match pattern.as_str() {
        "embedded" | "trash" => commands(&["verify"]),
        _ => commands(&["repair", "verify"]),
    };
    let mut needs = Vec::new();
    let missing: Vec<&(Namespace, String)> = status.missing_of(entry).collect();
    let Some(of_main) = status.facts.get(&entry.collection).filter(|facts| facts.size.is_some()) else {
        if !entry.indexes.is_empty() {
            let create = entry
                .command("indexes --create")
                .map_or_else(program, |command| command.to_string());
            let text = format!("the collection of the {pattern} pattern does not exist");
            let delete = format!("if no program uses it, delete its entry in {COLLECTION}");
            needs.push((
                text,
                Remedy::Advice(format!("restore it; to begin with a new one, {create}; {delete}")),
            ));
        }
        return needs;
    };
    if !missing.is_empty() {
        let names = missing
            .iter()
            .map(|(namespace, name)| format!("{name} of {}", namespace.coll));
        let names = names.collect::<Vec<_>>().join(", ");
        needs.push((format!("the {pattern} pattern lacks indexes: {names}"), set_up()));
    } else if !entry.is_complete {
        needs.push(("the entry in the catalog is not complete".to_owned(), set_up()));
    }
    if let Some((array, most)) = entry.bound()
        && of_main.longest(array) > most
    {
        let elements = counted(of_main.longest(array), "element");
        let remedy = match pattern.as_str() {
            "outlier" => commands(&["migrate"]),
            _ => repair(),
        };
        let text = format!("`{array}` of a document has {elements}, and the settings allow {most}");
        needs.push((text, remedy.unwrap_or_else(by_program)));
    }
    for namespace in entry.collections() {
        let Some(size_of) = status.size_of(namespace).filter(|of| of.largest > MOST_BYTES / 2) else {
            continue;
        };
        #[allow(clippy::cast_precision_loss)]
        let bytes = size(size_of.largest as f64);
        let text = format!(
            "a document of {} has {bytes}, and the server stores at most 16 MiB",
            namespace.coll
        );
        let analyze = entry
            .command("analyze")
            .map(|command| format!(": {command} helps to choose it"));
        needs.push((
            text,
            Remedy::Advice(format!("use a smaller size{}", analyze.unwrap_or_default())),
        ));
    }
    let has_documents = of_main.size.is_some_and(|size| size.documents > 0);
    if let (Some(age), true, None, true) = (entry.setting("age"), has_documents, of_main.oldest, missing.is_empty()) {
        let text = format!("no document has a date in the field `{age}`, so none is ever archived");
        needs.push((
            text,
            Remedy::Advice("set up the archive with the field that has the time".to_owned()),
        ));
    }
    if let Some(expired) = entry
        .related
        .iter()
        .find_map(|second| status.facts.get(second)?.expired)
    {
        let text = format!(
            "{} of the trash are past their time, and not deleted",
            counted(expired, "document")
        );
        let advice =
            "check that the index on expiresAt has expireAfterSeconds, and the server the parameter ttlMonitorEnabled";
        needs.push((text, Remedy::Advice(advice.to_owned())));
    }
    let verified = entry.verified.as_ref();
    if let Some(found) = verified.filter(|verified| verified.findings > 0) {
        let text = format!("the last verify has {}", counted(found.findings, "finding"));
        needs.push((text, repair().unwrap_or_else(by_program)));
    } else if let Some(failed) = &entry.failed {
        needs.push((
            format!("verify failed: {failed}"),
            commands(&["verify"]).unwrap_or_else(by_program),
        ));
    }
    let is_verified = verified.is_some_and(|of| of.findings == 0 && status.millis_since(of.at) < VERIFIED_FOR_MILLIS);
    if entry.needs_follower() && status.entries.follower_of(entry).is_none() && !is_verified {
        let text = "the copies have no follower, and no verify of the last day shows that they are right";
        needs.push((
            text.to_owned(),
            commands(&["repair", "verify"]).unwrap_or_else(by_program),
        ));
    }
    needs
}
