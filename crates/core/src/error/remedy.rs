//! What to do about an error, as data.

use serde::Serialize;

/// What to do about an error; returned by [`Error::remedy`](crate::Error::remedy).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Remedy {
    /// Retry the call later.
    Retry,
    /// Create the indexes, by `ensure_indexes()`.
    EnsureIndexes,
    /// Use the settings in the catalog, or replace them by `ensure_indexes()` with `replace_settings()`.
    CheckSettings,
    /// Find the documents at fault by `verify()`, and correct or repair them. A repair needs settings in the catalog, which
    /// `ensure_indexes().replace_settings()` stores also where documents prevent an index.
    Verify,
    /// Correct the source documents, or migrate the others by `skip_invalid(..)`.
    SkipInvalid,
    /// Empty the target, or keep its documents by `allow_non_empty_target()`.
    AllowNonEmptyTarget,
    /// Migrate the embedded children by `migrate_from_embedded()`, or allow their loss by `discard_embedded()`.
    DiscardEmbedded,
    /// Check that the server runs, and its address and the TLS settings in the connection string.
    CheckAddress,
    /// Check user, password and `authSource` in the connection string.
    CheckCredentials,
    /// Grant the user a role.
    GrantRole,
    /// Use valid names of the database and of the collections.
    CheckNames,
}
