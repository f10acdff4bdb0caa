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

/// Returns the positions of the steps that are to be run, in the order of the list.
pub(crate) fn pending(names: &[&str], applied: &[AppliedStep], is_any_order: bool) -> Result<Vec<usize>> {
    let is_applied: HashSet<&str> = applied.iter().map(|step| step.name.as_str()).collect();
    let pending: Vec<usize> = (0..names.len()).filter(|at| !is_applied.contains(names[*at])).collect();
    let Some(first) = pending.first() else {
        return Ok(pending);
    };
    let is_before_applied = names[*first..].iter().any(|name| is_applied.contains(name));
    if is_before_applied && !is_any_order {
        let text = "a step that has not been applied stands before one that has, nothing was run: move it to the end of the list, or call allow_out_of_order(), which applies it now";
        return Err(Error::new(ErrorKind::SettingsMismatch, text).with_step(names[*first]));
    }
    if let Some(last) = applied.last()
        && !names.contains(&last.name.as_str())
    {
        let text = "the list has a step that has not been applied, but not the last one that has, nothing was run: run a release that has both, the new one later; if another service has applied the other steps, give this list a name by list(..)";
        return Err(Error::new(ErrorKind::SettingsMismatch, text).with_step(names[*first]));
    }
    Ok(pending)
}

/// Returns the applied steps that the list does not have.
pub(crate) fn unknown(names: &[&str], applied: &[AppliedStep]) -> Vec<String> {
    let known: HashSet<&str> = names.iter().copied().collect();
    let applied = applied.iter().map(|step| &step.name);
    applied.filter(|name| !known.contains(name.as_str())).cloned().collect()
}
