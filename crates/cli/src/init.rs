//! Writes a profile: the settings of the catalog, or what a sample of a collection shows.
//!
//! # Design
//!
//! ## What is a setting, and what a comment?
//!
//! A command follows its settings, so a guess that is none does no harm. What the documents of the named collection show is a
//! setting; a second collection is one only in the form of its pattern, such as overflow documents with positions. All else that
//! could be is a comment with its evidence.

mod buckets;
mod lists;
mod others;
mod sample;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use self::sample::{Sample, Seen};
use crate::args::InitOptions;
use crate::catalog;
use crate::context::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Summary, counted};
use crate::profile::Profile;

pub(crate) async fn run(context: &Context, options: &InitOptions) -> Outcome {
    let (database, collection) = (context.database.name(), options.collection.as_deref());
    let name = collection.map_or_else(|| database.to_owned(), |collection| format!("{database}.{collection}"));
    let mut seen = Seen {
        profile: catalog::all(context, collection).await?,
        notes: vec!["the settings are those of the catalog".to_owned()],
    };
    if seen.profile.names().is_empty() {
        let collection = collection.ok_or_else(|| {
            Failure::usage(format!(
                "the catalog of {database} has no settings: name a collection, to read a sample of it"
            ))
        })?;
        seen = suggest(context, collection).await?;
    }
    seen.profile.database = Some(database.to_owned());
    let is_printed = options.out.as_os_str() == "-";
    let is_added = !options.force && !is_printed && options.out.exists();
    let kept = match is_added {
        true => keep(&options.out, &mut seen.profile)?,
        false => Vec::new(),
    };
    let settings = toml::to_string(&seen.profile).map_err(|error| Failure::usage(error.to_string()))?;
    let mut text = format!("# Written by `mongo-patterns init` for {name}:\n");
    for line in &seen.notes {
        text.push_str(&format!("# - {line}\n"));
    }
    text.push_str("# Check these settings. Options on the command line override them.\n\n");
    text.push_str(&settings);
    if is_printed {
        crate::output::line(text.trim_end())?;
        return Ok(Exit::Success);
    }
    if is_added {
        text.insert(0, '\n');
    }
    write(options, &text)?;
    let mut summary = Summary::new("init", name)
        .row("file", options.out.display().to_string())
        .row("settings", seen.profile.names().join(", "));
    if !kept.is_empty() {
        summary = summary.row("kept", kept.join(", "));
    }
    context.output.summary(&summary, Exit::Success)?;
    Ok(Exit::Success)
}

/// Removes what the profile in the file has already, and returns its names.
fn keep(file: &Path, profile: &mut Profile) -> Result<Vec<String>, Failure> {
    let existing = Profile::read(Some(file))?;
    let refused = |has: &str| {
        let name = file.display();
        Failure::usage(format!(
            "{name} has {has}: pass --force to replace the file, or another name with --out"
        ))
    };
    let database = profile.database.take();
    if existing.database.is_some() && existing.database != database {
        return Err(refused("another database"));
    }
    let kept = profile.remove(&existing);
    if profile.names().is_empty() && !kept.is_empty() {
        return Err(refused(&format!("settings of {} already", kept.join(", "))));
    }
    Ok(kept)
}

/// Suggests settings from a sample, from indexes and from other collections.
async fn suggest(context: &Context, collection: &str) -> Result<Seen, Failure> {
    let sample = Sample::read(context, collection).await?;
    if sample.documents.is_empty() {
        let database = context.database.name();
        return Err(Failure::usage(format!(
            "{database}.{collection} is empty or does not exist: name a collection with documents"
        )));
    }
    let mut seen = Seen::default();
    seen.note(format!(
        "the catalog has no settings of it: this is what a sample of {} shows",
        counted(sample.documents.len() as u64, "document")
    ));
    if others::revisions(&sample).is_some() {
        seen.note(
            "the indexes are those of the revisions of a history: name the collection of its current documents"
                .to_owned(),
        );
        return Ok(seen);
    }
    match sample.array() {
        Some(array) if buckets::recognize(&sample, array, &mut seen) => {}
        Some(array) => lists::of_array(&sample, array, &mut seen),
        None => buckets::of_items(&sample, &mut seen),
    }
    others::find(context, &sample, &mut seen).await?;
    Ok(seen)
}

/// Writes the file, or appends to it.
fn write(options: &InitOptions, text: &str) -> Result<(), Failure> {
    let mut open = OpenOptions::new();
    open.create(true);
    match options.force {
        true => open.write(true).truncate(true),
        false => open.append(true),
    };
    let failed = |error| Failure::usage(format!("--out {}: {error}", options.out.display()));
    let mut file = open.open(&options.out).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}
