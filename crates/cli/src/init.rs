//! Writes a profile from a sample of a collection.

mod buckets;
mod children;
mod fields;
mod inspect;
mod overflow;
mod references;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use futures::TryStreamExt;
use mongo_patterns_core::index::list_indexes;
use mongodb::bson::{Document, doc};

use self::inspect::Inspection;
use crate::args::InitOptions;
use crate::catalog;
use crate::context::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::Summary;
use crate::profile::Profile;

/// The number of sampled documents.
const SAMPLE: i64 = 200;

pub(crate) async fn run(context: &Context, options: &InitOptions) -> Outcome {
    let collection = context.database.collection::<Document>(&options.collection);
    let namespace = collection.namespace();
    let sample = collection.aggregate([doc! { "$sample": { "size": SAMPLE } }]).await;
    let sample = sample.map_err(Failure::on(&namespace))?;
    let documents: Vec<Document> = sample.try_collect().await.map_err(Failure::on(&namespace))?;
    if documents.is_empty() {
        return Err(Failure::usage(format!(
            "{namespace} is empty or does not exist: name a collection with documents"
        )));
    }
    let stored = catalog::settings_of(context, &options.collection).await?;
    let (settings, patterns, notes) = match stored.patterns.is_empty() {
        false => (
            stored.profile,
            stored.patterns,
            vec!["the settings are those of the catalog".to_owned()],
        ),
        true => {
            let seen = suggest(context, &options.collection, &documents).await?;
            (seen.profile, seen.patterns, seen.notes)
        }
    };
    let mut profile = Profile {
        database: Some(context.database.name().to_owned()),
        ..settings
    };
    let is_printed = options.out.as_os_str() == "-";
    let is_added = !options.force && !is_printed && options.out.exists();
    let kept = match is_added {
        true => keep(&options.out, &mut profile, &patterns)?,
        false => Vec::new(),
    };
    let settings = toml::to_string(&profile).map_err(|error| Failure::usage(error.to_string()))?;
    let mut text = format!(
        "# Written by `mongo-patterns init` from {} documents of {namespace}:\n",
        documents.len()
    );
    for line in &notes {
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
    let added: Vec<&str> = patterns.into_iter().filter(|pattern| !kept.contains(pattern)).collect();
    let mut summary = Summary::new("init", namespace.to_string())
        .row("file", options.out.display().to_string())
        .row("patterns", added.join(", "));
    if !kept.is_empty() {
        summary = summary.row("kept", kept.join(", "));
    }
    context.output.summary(&summary, Exit::Success)?;
    Ok(Exit::Success)
}

/// Removes what the profile in the file has already, and returns the names of its patterns.
fn keep(file: &Path, profile: &mut Profile, patterns: &[&str]) -> Result<Vec<&'static str>, Failure> {
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
    if kept.len() == patterns.len() {
        return Err(refused(&format!("[{}] already", kept.join("], ["))));
    }
    Ok(kept)
}

/// Suggests settings from a sample, from indexes and from other collections.
async fn suggest(context: &Context, collection: &str, documents: &[Document]) -> Result<Inspection, Failure> {
    let indexes = list_indexes(&context.database.collection::<Document>(collection)).await?;
    let mut seen = inspect::inspect(collection, documents, &indexes);
    if let Some(array) = seen.array.clone() {
        children::of_array(&mut seen, collection, &array, documents);
    }
    if let Some(settings) = &mut seen.profile.outlier {
        overflow::find(context, settings, &mut seen.notes).await?;
    }
    if seen.is_flat
        && let Some(parents) = children::parents_of(context, collection, documents).await?
    {
        children::of_references(&mut seen, collection, documents, parents);
    }
    references::find(context, &mut seen, collection, documents).await?;
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
