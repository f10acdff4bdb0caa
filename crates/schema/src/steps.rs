//! The steps that convert a document from one version to the next.

use mongo_patterns_core::Result;
use mongo_patterns_core::settings::configuration;
use mongo_patterns_core::versions::{self, Convert};
use mongodb::bson::Document;

/// The stages that the server accepts in an update.
const STAGES: [&str; 6] = [
    "$set",
    "$addFields",
    "$unset",
    "$project",
    "$replaceWith",
    "$replaceRoot",
];

/// What a step does.
#[derive(Clone)]
pub(crate) enum Work {
    /// A function of the client.
    Typed(Convert),
    /// The stages of an update on the server.
    Stages(Vec<Document>),
}

/// The steps of a program.
pub(crate) type Steps = versions::Steps<Work>;

/// Checks the steps. The newest version is the one after the last step, or the given one.
pub(crate) fn check(given: Vec<(u32, Work)>, newest: Option<u32>) -> Result<Steps> {
    for (_, work) in &given {
        check_stages(work)?;
    }
    Steps::new(given, newest)
}

/// Returns the end of the typed steps that begin with a version.
pub(crate) fn end_of_typed(steps: &Steps, from: u32) -> u32 {
    let is_typed = |version: &u32| matches!(steps.from(*version), Some(Work::Typed(_)));
    (from..).find(|version| !is_typed(version)).unwrap_or(from)
}

/// Returns whether the server can do all steps.
pub(crate) fn are_on_server(steps: &Steps) -> bool {
    steps.all().iter().all(|work| matches!(work, Work::Stages(_)))
}

fn check_stages(work: &Work) -> Result<()> {
    let Work::Stages(stages) = work else { return Ok(()) };
    let is_stage = |stage: &Document| {
        let mut names = stage.keys();
        names.next().is_some_and(|name| STAGES.contains(&name.as_str())) && names.next().is_none()
    };
    match stages.iter().all(is_stage) {
        true => Ok(()),
        false => Err(configuration(format!(
            "a stage of a step on the server is not one of those of an update: use {}",
            STAGES.join(", ")
        ))),
    }
}
