//! Which steps of a list are to be run.

use std::collections::HashSet;

use mongo_patterns_core::settings::configuration;
use mongo_patterns_core::{Error, ErrorKind, Result};

use super::results::AppliedStep;

/// Refuses empty and equal names.
pub(crate) fn check_names(names: &[&str]) -> Result<()> {
    let mut seen = HashSet::new();
    for name in names {
        if name.is_empty() {
            return Err(configuration(
                "a step has an empty name, nothing was run: give each step a name",
            ));
        }
        if !seen.insert(name) {
            let text = "two steps have this name, nothing was run: give each step a name of its own";
            return Err(configuration(text).with_step(*name));
        }
    }
    Ok(())
}

/// Returns the position of the first step that is to be run. All later ones are, too.
pub(crate) fn first_pending(names: &[&str], applied: &[AppliedStep]) -> Result<usize> {
    let is_applied: HashSet<&str> = applied.iter().map(|step| step.name.as_str()).collect();
    let first = names.iter().rposition(|name| is_applied.contains(name));
    let first = first.map_or(0, |last| last + 1);
    if let Some(skipped) = names[..first].iter().find(|name| !is_applied.contains(*name)) {
        let text = "a step that has not been applied stands before one that has, nothing was run: move it to the end of the list";
        return Err(Error::new(ErrorKind::SettingsMismatch, text).with_step(*skipped));
    }
    if let (Some(next), Some(last)) = (names.get(first), applied.last())
        && !names.contains(&last.name.as_str())
    {
        let text = "the list has a step that has not been applied, but not the last one that has, nothing was run: run a release that has both, the new one later; if another service has applied the other steps, give this list a name by list(..)";
        return Err(Error::new(ErrorKind::SettingsMismatch, text).with_step(*next));
    }
    Ok(first)
}

/// Returns the applied steps that the list does not have.
pub(crate) fn unknown(names: &[&str], applied: &[AppliedStep]) -> Vec<String> {
    let known: HashSet<&str> = names.iter().copied().collect();
    let applied = applied.iter().map(|step| &step.name);
    applied.filter(|name| !known.contains(name.as_str())).cloned().collect()
}
