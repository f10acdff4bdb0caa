//! The kinds of errors.

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A builder got an invalid setting, such as a page size of 0 or a field name with a dot, or a collection is a view or
    /// of another kind that the call does not work on.
    Configuration,
    /// A call got an invalid argument, such as page 0.
    InvalidArgument,
    /// The key cannot be encoded: an integer out of range, or a text that is too long.
    InvalidKey,
    /// The item has no valid time: its time field is missing or not a date, or the time is out of range.
    InvalidTime,
    /// The item has no valid id: its id field is missing, or has a type that an id cannot have.
    InvalidItemId,
    /// The item cannot be encoded as BSON.
    Encode,
    /// There is no document with this `_id`, or the key has no item with this id.
    NotFound,
    /// The document would exceed MongoDB's limit of 16 MiB.
    TooLarge,
    /// A validator of the collection refused the document.
    ValidationFailed,
    /// A stored item cannot be decoded as the item type of the repository.
    Decode,
    /// An index that the call relies on does not exist.
    IndexMissing,
    /// An index of a planned name has another definition, or an equal index has another name.
    IndexMismatch,
    /// The settings of the repository contradict those in the [catalog](crate::catalog), or do not fit the stored data.
    SettingsMismatch,
    /// The collation of the collection is not the simple one, so ranges of `_id` would not be index bounds.
    UnsupportedCollation,
    /// A collection is sharded by a key under which the pattern does not work, or a unique index excludes the keys under
    /// which it does.
    UnsuitableShardKey,
    /// A unique index that is not the pattern's refused the write.
    DuplicateKey,
    /// A stored document violates an invariant of the pattern.
    Corrupt,
    /// The deployment does not support the call: a standalone has no transactions, the server is too old, in general or
    /// for the shard key of a collection, or the strict Stable API does not have a command of the call.
    Unsupported,
    /// The target of a migration has documents already.
    TargetNotEmpty,
    /// After a migration, the target does not match the source.
    CountMismatch,
    /// Documents are stored in an earlier form, in which the call would lose or miss data: migrate them first.
    NotMigrated,
    /// There is a document with this `_id` already, or the parent has a child with this id.
    AlreadyExists,
    /// The change stream cannot resume, because the oplog no longer has its position.
    HistoryLost,
    /// A collection was dropped or renamed while it was followed.
    CollectionDropped,
    /// The store of an archive's files failed: it is full, read-only or not reachable.
    FileStore,
    /// The call needs pre-images, which are disabled on the collection.
    PreImagesDisabled,
    /// The parent has no child with this id.
    ChildNotFound,
    /// The child has no element with this id in the list.
    GrandchildNotFound,
    /// The parent has as many children as it may.
    LimitReached,
    /// The listed ids are not those of the parent's children.
    ChildSetMismatch,
    /// The document is at another revision than the call expects, or begins at another time.
    RevisionMismatch,
    /// The document has a schema version that this program does not know: a later release has written it.
    NewerVersion,
    /// Other documents refer to the document.
    Referenced,
    /// Conflicts with concurrent writers exhausted the retry policy, or occurred once in the caller's transaction.
    Contention,
    /// Authentication failed, or the user lacks a privilege for a command, which had no effect.
    Unauthorized,
    /// No suitable server was found. Nothing was sent.
    ServerSelection,
    /// The connection broke. The command may or may not have taken effect.
    Network,
    /// The write took effect on the primary, but its write concern was not satisfied.
    WriteConcern,
    /// Any other error of the driver or the server.
    Driver,
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

impl ErrorKind {
    /// Returns the code, by which logs, metrics and other programs name the kind. It stays the same in later versions.
    ///
    /// ```
    /// # use mongo_patterns::ErrorKind;
    /// assert_eq!(ErrorKind::AlreadyExists.code(), "already-exists");
    /// ```
    pub fn code(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::InvalidArgument => "invalid-argument",
            Self::InvalidKey => "invalid-key",
            Self::InvalidTime => "invalid-time",
            Self::InvalidItemId => "invalid-item-id",
            Self::Encode => "encode",
            Self::NotFound => "not-found",
            Self::TooLarge => "too-large",
            Self::ValidationFailed => "validation-failed",
            Self::Decode => "decode",
            Self::IndexMissing => "index-missing",
            Self::IndexMismatch => "index-mismatch",
            Self::SettingsMismatch => "settings-mismatch",
            Self::UnsupportedCollation => "unsupported-collation",
            Self::UnsuitableShardKey => "unsuitable-shard-key",
            Self::DuplicateKey => "duplicate-key",
            Self::Corrupt => "corrupt",
            Self::Unsupported => "unsupported",
            Self::TargetNotEmpty => "target-not-empty",
            Self::CountMismatch => "count-mismatch",
            Self::NotMigrated => "not-migrated",
            Self::AlreadyExists => "already-exists",
            Self::HistoryLost => "history-lost",
            Self::CollectionDropped => "collection-dropped",
            Self::FileStore => "file-store",
            Self::PreImagesDisabled => "pre-images-disabled",
            Self::ChildNotFound => "child-not-found",
            Self::GrandchildNotFound => "grandchild-not-found",
            Self::LimitReached => "limit-reached",
            Self::ChildSetMismatch => "child-set-mismatch",
            Self::RevisionMismatch => "revision-mismatch",
            Self::NewerVersion => "newer-version",
            Self::Referenced => "referenced",
            Self::Contention => "contention",
            Self::Unauthorized => "unauthorized",
            Self::ServerSelection => "server-selection",
            Self::Network => "network",
            Self::WriteConcern => "write-concern",
            Self::Driver => "driver",
        }
    }

    pub(super) fn class(self) -> Class {
        match self {
            Self::Configuration
            | Self::InvalidArgument
            | Self::InvalidKey
            | Self::InvalidTime
            | Self::InvalidItemId
            | Self::Encode
            | Self::TooLarge
            | Self::ValidationFailed => Class::Input,
            Self::NotFound
            | Self::AlreadyExists
            | Self::ChildNotFound
            | Self::GrandchildNotFound
            | Self::LimitReached
            | Self::ChildSetMismatch
            | Self::RevisionMismatch
            | Self::NewerVersion
            | Self::Referenced
            | Self::DuplicateKey => Class::State,
            Self::Contention | Self::ServerSelection => Class::Transient,
            Self::Network | Self::WriteConcern => Class::Unknown,
            Self::IndexMissing
            | Self::IndexMismatch
            | Self::SettingsMismatch
            | Self::UnsupportedCollation
            | Self::UnsuitableShardKey
            | Self::PreImagesDisabled => Class::Setup,
            Self::Decode
            | Self::Corrupt
            | Self::Unsupported
            | Self::TargetNotEmpty
            | Self::CountMismatch
            | Self::NotMigrated
            | Self::HistoryLost
            | Self::Unauthorized
            | Self::CollectionDropped
            | Self::FileStore => Class::Operator,
            Self::Driver => Class::ByDriver,
        }
    }
}

#[cfg(test)]
mod tests {
    use ErrorKind::*;

    use super::*;
    use crate::Error;

    const KINDS: [ErrorKind; 38] = [
        Configuration,
        InvalidArgument,
        InvalidKey,
        InvalidTime,
        InvalidItemId,
        Encode,
        NotFound,
        TooLarge,
        ValidationFailed,
        Decode,
        IndexMissing,
        IndexMismatch,
        SettingsMismatch,
        UnsupportedCollation,
        UnsuitableShardKey,
        DuplicateKey,
        Corrupt,
        Unsupported,
        TargetNotEmpty,
        CountMismatch,
        NotMigrated,
        AlreadyExists,
        HistoryLost,
        CollectionDropped,
        FileStore,
        PreImagesDisabled,
        ChildNotFound,
        GrandchildNotFound,
        LimitReached,
        ChildSetMismatch,
        RevisionMismatch,
        NewerVersion,
        Referenced,
        Contention,
        Unauthorized,
        ServerSelection,
        Network,
        WriteConcern,
    ];

    #[test]
    fn each_kind_is_of_the_class_that_the_docs_say() {
        assert_eq!(
            KINDS.len(),
            Driver as usize,
            "all kinds but the last, which is `Driver`"
        );
        let rows: Vec<&str> = include_str!("kinds.md")
            .lines()
            .filter(|line| line.contains("| `"))
            .collect();
        for (number, kind) in KINDS.into_iter().chain([Driver]).enumerate() {
            assert_eq!(kind as usize, number, "{kind:?}");
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
    fn every_kind_survives_the_conversion_into_a_driver_error_and_back() {
        for kind in KINDS.into_iter().chain([Driver]) {
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
