//! Checks of the settings that all builders share.

use std::borrow::Cow;

use mongodb::Collection;
use mongodb::options::Acknowledgment;

use crate::error::{Error, ErrorKind, Result};

/// The name of the collection of the [catalog](crate::catalog).
pub const COLLECTION: &str = "mongo_patterns";

/// Creates a [`Configuration`](ErrorKind::Configuration) error.
pub fn configuration(message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Configuration, message)
}

/// Returns a required setting.
///
/// # Errors
/// - [`Configuration`](ErrorKind::Configuration): it is missing.
pub fn required<T>(setting: Option<T>, method: &str) -> Result<T> {
    setting.ok_or_else(|| {
        configuration(format!(
            "a required setting is missing: call {method}(..) on the builder"
        ))
    })
}

/// Checks a number that is stored as an int32.
pub fn check_bound(name: &str, number: u32) -> Result<()> {
    if number == 0 || i32::try_from(number).is_err() {
        return Err(configuration(format!("the {name} must be from 1 to 2,147,483,647")));
    }
    Ok(())
}

/// Checks that the writes of a collection are acknowledged.
pub fn check_acknowledged<T: Send + Sync>(collection: &Collection<T>) -> Result<()> {
    if is_unacknowledged(collection) {
        return Err(configuration(format!(
            "the write concern of the collection `{}` is w: 0, under which no write is confirmed: use another one",
            collection.namespace()
        )));
    }
    Ok(())
}

/// Returns whether the write concern of a collection is `w: 0`.
pub fn is_unacknowledged<T: Send + Sync>(collection: &Collection<T>) -> bool {
    let acknowledgment = collection.write_concern().and_then(|concern| concern.w.as_ref());
    acknowledgment == Some(&Acknowledgment::Nodes(0))
}
