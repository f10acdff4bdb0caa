//! The commands of the subset pattern.
//!
//! Its `plan` and `migrate` go here, over the moves of `mongo_patterns_subset`.

use futures::TryStreamExt;
use mongo_patterns_subset::{Direction, Finding, SubsetRepository};
use mongodb::bson::Document;
use serde_json::json;

use crate::analyze::{self, Question};
use crate::args::{Subset, SubsetVerb};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Output, Record, Summary, variant};
use crate::profile::overlay;
use crate::progress::Progress;
use crate::settings::{SubsetSettings, need};
use crate::{Context, indexes};

const PATTERN: &str = "subset";

type Parents = SubsetRepository<Document, Document>;

pub(crate) async fn run(context: &Context, pattern: &Subset) -> Outcome {
    let settings = overlay(context.profile.subset.as_ref(), &pattern.settings)?;
    let output = context.output;
    if let SubsetVerb::Analyze(sample) = &pattern.verb {
        let source = Question::Groups {
            collection: need(settings.children_collection.as_ref(), PATTERN, "children_collection")?,
            field: need(settings.parent.as_ref(), PATTERN, "parent")?,
        };
        return analyze::run(context, PATTERN, &source, *sample).await;
    }
    let parents = repository(context, &settings)?;
    if !matches!(pattern.verb, SubsetVerb::Indexes(_)) {
        context.must_exist(parents.collection().name()).await?;
        context.must_exist(parents.children_collection().name()).await?;
    }
    match &pattern.verb {
        SubsetVerb::Verify => verify(output, &parents).await,
        SubsetVerb::Repair(dry_run) => repair(output, &parents, dry_run.dry_run).await,
        SubsetVerb::Indexes(create) if create.create => {
            let ensured = parents.ensure_indexes().await?;
            let namespace = parents.children_collection().namespace().to_string();
            indexes::created(output, "subset indexes", namespace, &ensured)
        }
        SubsetVerb::Indexes(_) | SubsetVerb::Analyze(_) => {
            let (plan, collection) = (parents.indexes(), parents.children_collection());
            indexes::show(output, "subset indexes", &plan, collection).await
        }
    }
}

fn repository(context: &Context, settings: &SubsetSettings) -> Result<Parents, Failure> {
    let database = &context.database;
    let collection = need(settings.collection.as_ref(), PATTERN, "collection")?;
    let children = need(settings.children_collection.as_ref(), PATTERN, "children_collection")?;
    let parents = database.collection::<Document>(collection);
    let mut builder = Parents::builder(parents, database.collection::<Document>(children))
        .subset_field(need(settings.subset.as_ref(), PATTERN, "subset")?)
        .parent_field(need(settings.parent.as_ref(), PATTERN, "parent")?)
        .child_id_field(need(settings.child_id.as_ref(), PATTERN, "child_id")?)
        .size(settings.size.unwrap_or(10));
    let order = settings.order.as_deref().unwrap_or_default();
    if order.is_empty() {
        need(None, PATTERN, "order")?;
    }
    for field in order {
        builder = match field.strip_prefix('-') {
            Some(field) => builder.order_by(field, Direction::Descending),
            None => builder.order_by(field, Direction::Ascending),
        };
    }
    if let Some(fields) = &settings.embed {
        builder = builder.embed(fields.iter().cloned());
    }
    if let Some(field) = &settings.version {
        builder = builder.version_field(field);
    }
    Ok(builder.build()?)
}

async fn verify(output: Output, parents: &Parents) -> Outcome {
    let mut progress = Progress::new(output, "verify", "findings", None);
    let mut findings = parents.verify().stream();
    let mut found = 0;
    while let Some(finding) = findings.try_next().await? {
        found += 1;
        progress.suspend(|| print(output, parents, &finding))?;
        progress.at(found, 0);
    }
    progress.end();
    let exit = Exit::of_findings(found);
    let summary = Summary::new("subset verify", parents.collection().namespace().to_string()).row("findings", found);
    output.summary(&summary, exit)?;
    Ok(exit)
}

async fn repair(output: Output, parents: &Parents, dry_run: bool) -> Outcome {
    let mut progress = Progress::new(output, "repair", "parents", None);
    let mut repair = parents.repair();
    if dry_run {
        repair = repair.dry_run();
    }
    let (mut seen, mut left) = (0, 0);
    let mut repaired = repair.stream();
    while let Some(parent) = repaired.try_next().await? {
        seen += 1;
        left += u64::from(parent.left.is_some());
        let text = match (&parent.left, dry_run) {
            (Some(left), _) => format!("left: {left}"),
            (None, true) => "would make the subset anew".to_owned(),
            (None, false) => "the subset was made anew".to_owned(),
        };
        progress.suspend(|| {
            print(output, parents, &parent.finding)?;
            output.record(Record {
                kind: "repaired",
                collection: parents.collection().name(),
                id: Some(parent.finding.parent_id.clone()),
                text,
                fields: vec![("left", json!(parent.left.as_ref().map(variant)))],
            })
        })?;
        progress.at(seen, 0);
    }
    progress.end();
    let exit = Exit::of_findings(if dry_run { seen } else { left });
    let command = if dry_run {
        "subset repair --dry-run"
    } else {
        "subset repair"
    };
    let name = if dry_run { "parents_to_mend" } else { "parents" };
    let summary = Summary::new(command, parents.collection().namespace().to_string())
        .row(name, seen)
        .row("left", left);
    output.summary(&summary, exit)?;
    Ok(exit)
}

fn print(output: Output, parents: &Parents, finding: &Finding) -> std::io::Result<()> {
    output.record(Record {
        kind: "finding",
        collection: parents.collection().name(),
        id: Some(finding.parent_id.clone()),
        text: finding.problem.to_string(),
        fields: vec![("problem", json!(variant(&finding.problem)))],
    })
}
