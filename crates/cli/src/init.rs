//! Writes a profile by looking at a collection.

mod children;
mod look;

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use clap::Args;
use futures::TryStreamExt;
use mongodb::bson::{Document, doc};

use crate::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::Summary;
use crate::profile::{FILE, Profile};

/// How many documents are looked at.
const SAMPLE: i64 = 200;

/// Which collection, and where the profile goes.
#[derive(Args, Debug)]
pub(crate) struct InitOptions {
    /// The collection to look at.
    #[arg(value_name = "COLLECTION")]
    collection: String,
    /// The file that is written; - is standard output.
    #[arg(long, value_name = "FILE", default_value = FILE)]
    out: PathBuf,
    /// Replaces the file, if there is one.
    #[arg(long)]
    force: bool,
}

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
    let mut seen = look::look(&options.collection, &documents);
    if let Some(array) = seen.array.clone() {
        children::of_array(&mut seen, &options.collection, &array, &documents);
    }
    if seen.is_flat
        && let Some(parents) = children::parents_of(context, &options.collection, &documents).await?
    {
        children::of_references(&mut seen, &options.collection, &documents, parents);
    }
    let profile = Profile {
        database: Some(context.database.name().to_owned()),
        ..seen.profile
    };
    let settings = toml::to_string(&profile).map_err(|error| Failure::usage(error.to_string()))?;
    let mut text = format!(
        "# What `mongo-patterns init` saw in {} documents of {namespace}:\n",
        documents.len()
    );
    for line in &seen.notes {
        text.push_str(&format!("# - {line}\n"));
    }
    text.push_str("# Look it over. Options on the command line go over it.\n\n");
    text.push_str(&settings);
    if options.out.as_os_str() == "-" {
        crate::output::line(text.trim_end())?;
        return Ok(Exit::Well);
    }
    write(options, &text)?;
    let summary = Summary::new("init", namespace.to_string())
        .row("file", options.out.display().to_string())
        .row("patterns", seen.patterns.join(", "));
    context.output.summary(&summary, Exit::Well)?;
    Ok(Exit::Well)
}

fn write(options: &InitOptions, text: &str) -> Result<(), Failure> {
    let mut open = OpenOptions::new();
    if options.force {
        open.write(true).create(true).truncate(true);
    } else {
        open.write(true).create_new(true);
    }
    let name = options.out.display();
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Failure::usage(format!("{name} is there already: pass --force to replace it, or --out"))
        }
        _ => Failure::usage(format!("--out {name}: {error}")),
    };
    let mut file = open.open(&options.out).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}
