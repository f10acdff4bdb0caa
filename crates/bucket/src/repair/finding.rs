//! What `verify` and `repair` report.

/// A problem of a stored bucket. Its `related_id` is the key, as key fields store it, if the `_id` or the key field has one.
/// The `_id` can contain a key too.
pub type Finding = mongo_patterns_core::verify::Finding<Problem>;
/// The repair of one key, or of a bucket without one.
pub type Repaired = mongo_patterns_core::verify::Repaired<Problem, Unrepaired>;

mongo_patterns_core::problems! {
    /// The kind of a [`Finding`]. Its text says what to do, and contains no user value.
    #[serde(tag = "problem")]
    pub enum Problem {
        /// The `_id` is not the encoded key, `_`, and a second. Calls for the key miss the bucket, or report it.
        IdFormat = "the `_id` is not the encoded key, `_`, and a second: repair it",
        /// The second in the `_id` does not have ten digits, so the bucket is not at the position of its time.
        IdOrder =
            "the second in the `_id` does not have ten digits, so the bucket is not at the position of its time: repair it",
        /// The key field is missing.
        KeyMissing = "the key field is missing: repair it, which sets it from the `_id`",
        /// The key field does not contain a key of the repository's type, but for example the text `"123"` for the number 123.
        ///
        /// [`repair`](crate::BucketRepository::repair) changes no bucket of the key, because the items can be of two keys,
        /// and reports it as [`AmbiguousKey`](crate::Unrepaired::AmbiguousKey): set the key field by hand, and repair again.
        KeyType =
            "the key field has no key of the repository's type: find out whose items they are, and set the key field by hand, before anything of the key is repaired",
        /// The `_id` and the key field contain different keys.
        KeyMismatch =
            "the `_id` and the key field have different keys: find out whose items they are, and correct one by hand",
        /// The items are missing, or not an array.
        ItemsNotArray = "the items are missing, or not an array: correct them by hand",
        /// The count is not the number of items.
        Count {
            /// The count. `None` when it is missing, or no integer.
            count: Option<i64>,
            /// The number of items.
            items: u64,
        } = "the count is not {items}, the number of items: repair it",
        /// The [figures](crate::BucketRepositoryBuilder::sum) are not the figures of the items.
        ///
        /// Another program wrote the bucket, or an update of an item was interrupted. If the count of the figures differs,
        /// [`totals`](crate::BucketRepository::totals) takes the items.
        Figures = "the figures are not those of the items: repair it",
        /// The start of the [window](crate::BucketRepositoryBuilder::window) is missing, or does not fit the second in the
        /// `_id`. No append finds the bucket.
        Window = "the start of the window is missing, or is not that of the second in the `_id`: repair it",
        /// Items are not in the [window](crate::BucketRepositoryBuilder::window) of their bucket, by their time field. A
        /// range of time can miss them.
        ItemOutsideWindow {
            /// The number of such items.
            items: u64,
        } = "{items} items are not in the window of their bucket, by their times: repair it",
        /// The bucket has more items than a page.
        TooManyItems {
            /// The number of items.
            items: u64,
        } = "there are {items} items, more than a page has: repair it",
        /// The bucket has no items.
        Empty = "there are no items: repair it",
        /// The key, or a window of it, has several buckets that are not full, and this one is the newest.
        SeveralOpen {
            /// The number of such buckets.
            open: u64,
        } = "{open} buckets of the key are not full: repair it",
        /// The bucket is not full, and a newer one, of its window if there are windows, is not full either.
        ///
        /// A single bucket that is not full is correct at any position.
        NotFull {
            /// The number of items.
            items: u64,
        } = "there are {items} items, fewer than a page has, and a newer bucket is not full either: repair it",
        /// Items are `null`, which no item type but an `Option` accepts.
        ///
        /// [`repair`](crate::BucketRepository::repair) does not remove them, and reports
        /// [`UnreadableItems`](crate::Unrepaired::UnreadableItems): correct or remove them by hand. If the item type accepts
        /// `null`, ignore this finding.
        ItemNull {
            /// The number of such items.
            items: u64,
        } = "{items} items are null: correct or remove them by hand",
        /// Items have no BSON date in the repository's [time field](crate::BucketRepositoryBuilder::time_field). Types with
        /// such a field cannot read them, and no range of time contains them. So are items without a date that were appended
        /// [at](crate::action::Append::at) a given time.
        ///
        /// [`repair`](crate::BucketRepository::repair) does not guess a time, and reports
        /// [`UnreadableItems`](crate::Unrepaired::UnreadableItems): set the dates by hand.
        ItemTimeMissing {
            /// The number of such items.
            items: u64,
        } = "{items} items have no BSON date in the time field: set one by hand",
        /// Items have no valid value in a field with [figures](crate::BucketRepositoryBuilder::sum), which leave these items
        /// out.
        ///
        /// [`repair`](crate::BucketRepository::repair) does not guess a value, and reports
        /// [`UnreadableItems`](crate::Unrepaired::UnreadableItems): set the values by hand.
        ItemValueInvalid {
            /// The number of such items.
            items: u64,
        } = "{items} items have no valid value in a field with figures: set one by hand",
        /// Items have no id, or one of an unsupported type.
        ItemIdMissing {
            /// The number of such items.
            items: u64,
        } = "{items} items have no valid id: give them one by hand",
        /// Items have the id of an earlier item of the key.
        DuplicateItemId {
            /// The number of such items.
            items: u64,
        } = "{items} items have the id of another item of the key: repair it",
    }
}

impl Problem {
    /// Returns whether it concerns items that only their owner can correct. The rest of the key is repaired.
    pub(crate) fn is_of_items(&self) -> bool {
        matches!(
            self,
            Self::ItemNull { .. }
                | Self::ItemTimeMissing { .. }
                | Self::ItemValueInvalid { .. }
                | Self::ItemIdMissing { .. }
        )
    }
}

mongo_patterns_core::problems! {
    /// The reason why something was not repaired. Its text says what to do, and contains no user value.
    pub enum Unrepaired {
        /// The key of a bucket is ambiguous: its `_id` and its key field have different keys, or no key, or the key field
        /// has a value of another type. Nothing of the key was changed.
        AmbiguousKey =
            "the key of the items is ambiguous: set the key field of the bucket that belongs to another key or has another type, or its `_id`, by hand",
        /// The items of a bucket are not an array. Nothing of the key was changed.
        ItemsNotArray = "the items of a bucket are not an array: correct them by hand",
        /// The position of a bucket is unknown: its `_id` has no second before the year 2286, and its first item has no
        /// time. Nothing of the key was changed.
        UnknownPosition =
            "the position of a bucket is unknown: set the second at which it was opened in its `_id`, by hand",
        /// Different items of the key have the same id. Nothing of the key was changed.
        ItemsDiffer = "different items have the same id: change an id, or remove an item, by hand",
        /// Items have no id. All else of the key was repaired.
        NoItemId = "items have no valid id: give them one by hand",
        /// Items are `null`, or have no date in the time field, or no valid value in a field with figures. All else of the
        /// key was repaired.
        UnreadableItems =
            "items are null, or have no BSON date in the time field, or no valid value in a field with figures: correct or remove them by hand",
        /// A bucket that would be removed has fields of your own. Nothing of the key was changed.
        OwnFields =
            "a bucket that would be removed has fields that are not of the pattern: move them to another bucket of the key, or remove them",
        /// A page of the items would exceed 16 MiB. Nothing of the key was changed.
        TooLarge = "a page of these items would exceed 16 MiB: use a smaller page size",
        /// A second would need more than 1,000,000 buckets. Nothing of the key was changed.
        SuffixesExhausted = "a second of the key has 1,000,000 buckets, which is the limit: use a larger page size",
    }
}
