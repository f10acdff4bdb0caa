//! The paths of an update.

use super::operator::refused;
use crate::error::Result;

/// A field that cannot be changed, with the reason.
pub type Fixed<'a> = (&'a str, &'static str);

/// A path of plain field names and array indexes.
pub(super) struct Path<'a>(&'a str);

impl<'a> Path<'a> {
    pub(super) fn new(path: &'a str) -> Result<Self> {
        let is_positional = |name: &str| name == "$" || name.starts_with("$[");
        if path.split('.').any(is_positional) {
            return Err(refused(
                "a path of the update has a positional operator, $, $[] or $[name], which is not supported, nothing was sent: name an element by its position, as in `locations.0.n`, or set the whole array",
            ));
        }
        let is_plain = |name: &str| !name.is_empty() && !name.starts_with('$') && !name.contains('\0');
        match path.split('.').all(is_plain) {
            true => Ok(Self(path)),
            false => Err(refused(
                "a path of the update has a name that is empty, starts with $ or contains NUL, nothing was sent: use plain field names",
            )),
        }
    }

    /// Refuses a fixed field, and any path in it.
    pub(super) fn check(&self, fixed: &[Fixed<'_>]) -> Result<()> {
        let field = self.0.split('.').next();
        match fixed.iter().find(|(name, _)| field == Some(*name)) {
            Some((_, reason)) => Err(refused(reason)),
            None => Ok(()),
        }
    }
}

/// Refuses two equal paths, and a path that contains another path.
pub(super) fn check_conflicts<'a>(paths: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut paths: Vec<Vec<&str>> = paths.map(|path| path.split('.').collect()).collect();
    // Sorted by names, all paths in a field directly follow it.
    paths.sort_unstable();
    let conflict = |pair: &[Vec<&str>]| pair[1].starts_with(&pair[0]);
    match paths.windows(2).any(conflict) {
        true => Err(refused(
            "a field is changed twice, or as a whole and in part, nothing was sent: change each field once",
        )),
        false => Ok(()),
    }
}
