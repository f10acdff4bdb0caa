//! The kinds of errors.

/// Defines the kinds, each with its class and its code.
macro_rules! kinds {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident { $($(#[$of_kind:meta])* $kind:ident: $class:ident = $code:literal,)+ }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[$of_kind])* $kind,)+ }

        impl $name {
            /// Returns the code, by which logs, metrics and other programs name the kind. It stays the same in later versions.
            ///
            /// ```
            /// # use mongo_patterns::ErrorKind;
            /// assert_eq!(ErrorKind::AlreadyExists.code(), "already-exists");
            /// ```
            pub fn code(self) -> &'static str {
                match self {
                    $(Self::$kind => $code,)+
                }
            }

            pub(super) fn class(self) -> Class {
                match self {
                    $(Self::$kind => Class::$class,)+
                }
            }
        }

        #[cfg(test)]
        const KINDS: &[$name] = &[$($name::$kind),+];
    };
}

kinds! {
    /// The kind of an error, for a program to act on.
    ///
    #[doc = include_str!("kinds.md")]
    ///
    /// [`code`]: Self::code
    /// [`is_invalid_input`]: crate::Error::is_invalid_input
    /// [`is_transient`]: crate::Error::is_transient
    /// [`is_outcome_unknown`]: crate::Error::is_outcome_unknown
    /// [`is_setup_error`]: crate::Error::is_setup_error
    /// [`stored_count`]: crate::Error::stored_count
    pub enum ErrorKind {
        /// A builder got an invalid setting, such as a page size of 0 or a field name with a dot. Or the call does not work
        /// on the collection, such as a view.
        Configuration: Input = "configuration",
        /// A call got an invalid argument, such as page 0.
        InvalidArgument: Input = "invalid-argument",
        /// The key cannot be encoded: an integer out of range, or a text that is too long.
        InvalidKey: Input = "invalid-key",
        /// The item has no valid time: its time field is missing or not a date, or the time is out of range.
        InvalidTime: Input = "invalid-time",
        /// The item has no valid id: its id field is missing, or has a type that an id cannot have.
        InvalidItemId: Input = "invalid-item-id",
        /// The item cannot be encoded as BSON.
        Encode: Input = "encode",
        /// There is no document with this `_id`, or the key has no item with this id.
        NotFound: State = "not-found",
        /// The document would exceed MongoDB's limit of 16 MiB.
        TooLarge: Input = "too-large",
        /// A validator of the collection refused the document.
        ValidationFailed: Input = "validation-failed",
        /// A stored item cannot be decoded as the item type of the repository.
        Decode: Operator = "decode",
        /// An index that the call relies on does not exist.
        IndexMissing: Setup = "index-missing",
        /// An index of a planned name has another definition, or an equal index has another name.
        IndexMismatch: Setup = "index-mismatch",
        /// The settings of the repository contradict those in the [catalog](crate::catalog), or do not fit the stored data.
        SettingsMismatch: Setup = "settings-mismatch",
        /// The collation of the collection is not the simple one, so ranges of `_id` would not be index bounds.
        UnsupportedCollation: Setup = "unsupported-collation",
        /// A collection is sharded by a key under which the pattern does not work, or a unique index excludes suitable keys.
        UnsuitableShardKey: Setup = "unsuitable-shard-key",
        /// A unique index that is not the pattern's refused the write.
        DuplicateKey: State = "duplicate-key",
        /// A stored document violates an invariant of the pattern.
        Corrupt: Operator = "corrupt",
        /// The deployment does not support the call: a standalone has no transactions, the server is too old, or the strict
        /// Stable API does not have a command of the call.
        Unsupported: Operator = "unsupported",
        /// The target of a migration has documents already.
        TargetNotEmpty: Operator = "target-not-empty",
        /// After a migration, the target does not match the source.
        CountMismatch: Operator = "count-mismatch",
        /// Documents are stored in an earlier form, in which the call would lose or miss data: migrate them first.
        NotMigrated: Operator = "not-migrated",
        /// There is a document with this `_id` already, or the parent has a child with this id.
        AlreadyExists: State = "already-exists",
        /// The change stream cannot resume, because the oplog no longer has its position.
        HistoryLost: Operator = "history-lost",
        /// A collection was dropped or renamed while it was followed.
        CollectionDropped: Operator = "collection-dropped",
        /// The store of an archive's files failed: it is full, read-only or not reachable.
        FileStore: Operator = "file-store",
        /// The call needs pre-images, which are disabled on the collection.
        PreImagesDisabled: Setup = "pre-images-disabled",
        /// The parent has no child with this id.
        ChildNotFound: State = "child-not-found",
        /// The child has no element with this id in the list.
        GrandchildNotFound: State = "grandchild-not-found",
        /// The parent has as many children as it may.
        LimitReached: State = "limit-reached",
        /// The listed ids are not the ids of all children of the parent.
        ChildSetMismatch: State = "child-set-mismatch",
        /// The document is at another revision than the call expects, or begins at another time.
        RevisionMismatch: State = "revision-mismatch",
        /// The document has a form that this program does not know: a newer schema version of a later release, or an
        /// unfinished migration to another pattern.
        NewerVersion: State = "newer-version",
        /// Other documents refer to the document.
        Referenced: State = "referenced",
        /// Conflicts with concurrent writers exhausted the retry policy, or occurred once in the caller's transaction.
        Contention: Transient = "contention",
        /// Authentication failed, or the user lacks a privilege for a command, which had no effect.
        Unauthorized: Operator = "unauthorized",
        /// No suitable server was found. Nothing was sent.
        ServerSelection: Transient = "server-selection",
        /// The connection broke. The command may or may not have taken effect.
        Network: Unknown = "network",
        /// The write took effect on the primary, but its write concern was not satisfied.
        WriteConcern: Unknown = "write-concern",
        /// Any other error of the driver or the server.
        Driver: ByDriver = "driver",
    }
}

/// The rows of `kinds.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Input,
    State,
    Transient,
    Unknown,
    Setup,
    Operator,
    /// The driver's error decides whether it is transient, of unknown outcome, or neither.
    ByDriver,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ErrorKind::*;

    use super::*;
    use crate::Error;

    #[test]
    fn each_kind_is_of_the_class_that_the_docs_say() {
        let rows: Vec<&str> = include_str!("kinds.md")
            .lines()
            .filter(|line| line.contains("| `"))
            .collect();
        for &kind in KINDS {
            let class = kind.class();
            let has = |row: &&&str| row.contains(&format!("`{kind:?}`"));
            let of_kind: Vec<&&str> = rows.iter().filter(has).collect();
            assert_eq!(of_kind, [&rows[class as usize]], "{kind:?}");
            // Both are in the same position of their lists, so no two kinds have one code.
            let position = |column: usize, name: &str| {
                let list = rows[class as usize].split('|').nth(column).unwrap().split(',');
                list.map(|item| item.trim().trim_matches('`'))
                    .position(|item| item == name)
            };
            let of_code = position(4, kind.code());
            assert!(
                of_code.is_some() && of_code == position(3, &format!("{kind:?}")),
                "{kind:?}"
            );
            let error = Error::new(kind, "");
            assert_eq!(error.is_invalid_input(), class == Class::Input, "{kind:?}");
            assert_eq!(error.is_transient(), class == Class::Transient, "{kind:?}");
            assert_eq!(error.is_outcome_unknown(), class == Class::Unknown, "{kind:?}");
            assert_eq!(error.is_setup_error(), class == Class::Setup, "{kind:?}");
        }
    }

    #[test]
    fn every_kind_has_an_http_status() {
        let mut codes = BTreeMap::<u16, Vec<&str>>::new();
        for kind in KINDS {
            let status = Error::new(*kind, "").http_status();
            codes.entry(status).or_default().push(kind.code());
        }
        let with = |status| codes[&status].join(" ");
        assert_eq!(
            with(400),
            "invalid-argument invalid-key invalid-time invalid-item-id encode validation-failed"
        );
        assert_eq!(with(404), "not-found child-not-found grandchild-not-found");
        assert_eq!(
            with(409),
            "duplicate-key already-exists limit-reached child-set-mismatch referenced"
        );
        assert_eq!((with(412), with(413)), ("revision-mismatch".into(), "too-large".into()));
        assert_eq!(
            with(503),
            "newer-version contention server-selection network write-concern"
        );
        assert_eq!(codes.len(), 7, "and 500");
        let partly = Error::new(TooLarge, "").with_stored(1);
        assert_eq!(partly.http_status(), 503, "the client repeats it, with the same ids");
    }

    #[test]
    fn every_kind_survives_the_conversion_into_a_driver_error_and_back() {
        for &kind in KINDS {
            let caused = Error::from_driver(kind, "text", mongodb::error::Error::custom("cause"));
            for error in [Error::new(kind, "text"), caused] {
                let back = Error::from(mongodb::error::Error::from(error));
                assert_eq!((back.kind(), back.to_string().as_str()), (kind, "text"));
            }
        }
    }

    #[test]
    fn a_partly_stored_batch_is_neither_transient_nor_invalid_input() {
        let error = Error::new(Contention, "");
        assert!(error.clone().with_stored(0).is_transient());
        assert!(!error.with_stored(1).is_transient());
        let error = Error::new(TooLarge, "");
        assert!(error.clone().with_stored(0).is_invalid_input());
        assert!(!error.with_stored(1).is_invalid_input());
    }
}
