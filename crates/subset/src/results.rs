//! The results of calls.

use mongo_patterns_core::PlannedCommand;
use mongo_patterns_core::migration::number;
use mongodb::bson::Document;

use crate::form::token::ChildToken;

/// A page of children.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ChildPage<C> {
    /// The children, in their order, also on a page [before](crate::action::Children::before) a position.
    pub children: Vec<C>,
    /// The position to continue [after](crate::action::Children::after); `None` if there are no more children. The next
    /// page may be empty.
    pub next: Option<ChildToken>,
    /// The position to continue [before](crate::action::Children::before); `None` if there are no earlier children. The
    /// previous page may be empty.
    pub previous: Option<ChildToken>,
    /// The position of the first child of this page. Always present, to poll the start of the children for new ones
    /// that are ordered [before](crate::action::Children::before) it: see [`last_token`](Self::last_token).
    pub first_token: ChildToken,
    /// The position of the last child of this page. Always present, to poll the end of the children for new ones that
    /// are ordered [after](crate::action::Children::after) it. On an empty page it is the position that the page was
    /// read from, or the position before all children.
    ///
    /// Poll the side on which new children appear: the end if an ascending time orders them, as here. If the newest are
    /// first, poll the start with `first_token` and `before`.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn f(messages: mongo_patterns_subset::SubsetRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// let mut token = None;
    /// loop {
    ///     let page = messages.children(1).limit(50).after(token).await?;
    ///     for message in &page.children {
    ///         println!("{message}");
    ///     }
    ///     if page.next.is_none() {
    ///         tokio::time::sleep(Duration::from_secs(1)).await;
    ///     }
    ///     token = Some(page.last_token);
    /// }
    /// # }
    /// ```
    ///
    /// A poller misses a child that is stored on the other side of its position. An example is a child with an earlier
    /// time, because its program read the clock before it stored the child, or because the clock is late. A poller sees
    /// a child again if an update moves it past the position, and it sees no deletes. A change stream of the children
    /// reports all of these.
    pub last_token: ChildToken,
}

/// The result of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inserted {
    /// Whether the child is in a subset of its parent.
    pub in_subset: bool,
}

/// The result of an insert of several children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InsertedMany {
    /// The number of inserted children.
    pub children: u64,
    /// The number of their parents.
    pub parents: u64,
}

/// The result of an update or a replacement of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpdatedChild {
    /// Whether it changed the child. Always `true` after a [`replace`](crate::SubsetRepository::replace) by a child
    /// without `_id`, unless a field name starts with `$`: the server does not compare such a child.
    pub modified: bool,
    /// Whether the child is now in a subset of its parent.
    pub in_subset: bool,
}

/// The result of a deletion of a parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeletedParent {
    /// Whether the parent existed.
    pub found: bool,
    /// The number of deleted children.
    pub children: u64,
}

/// The result of a rebuild of one subset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rebuilt {
    /// The number of children that are now embedded; a child in several subsets counts in each.
    pub embedded: u64,
}

/// The result of a rebuild of all subsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RebuiltAll {
    /// The number of parents that other clients wrote concurrently, and that were still stale after a second
    /// aggregation, so that they were rebuilt one by one.
    pub rebuilt_individually: u64,
}

/// The result of a migration from embedded children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migrated {
    /// The number of parents whose embedded children this call migrated.
    pub parents: u64,
    /// The number of migrated children.
    pub children: u64,
    /// Whether this call resumed the migration of an earlier call.
    pub resumed: bool,
    /// The parents that were not migrated because they, or children that they embed, are invalid.
    pub skipped: InvalidParents,
}

/// How many parents cannot be migrated from embedded children, by the first reason that applies to each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidParents {
    /// The number of parents with another value than an array in the field of the subset; listed as `no_array`.
    pub no_array: u64,
    /// The number of parents with an `_id` by which no child can refer to them; listed as `no_parent_id`.
    pub no_parent_id: u64,
    /// The number of parents that embed values that are not documents; listed as `no_document`.
    pub no_document: u64,
    /// The number of parents that embed children without a valid id; listed as `no_id`.
    pub no_id: u64,
    /// The number of parents that embed several children with the same id; listed as `twice`.
    pub twice: u64,
    /// The number of parents that embed children of another parent; listed as `other_parent`.
    pub other_parent: u64,
    /// The number of parents that embed children with an array in a field of the order or of a computed
    /// field; listed as `array_in_order`.
    pub array_in_order: u64,
}

impl InvalidParents {
    /// Returns the number of all invalid parents.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_reason().iter().map(|(_, parents)| parents).sum()
    }

    /// Returns the reasons as they are listed, with the numbers of parents.
    #[must_use]
    pub fn by_reason(&self) -> [(&'static str, u64); 7] {
        [
            ("no_array", self.no_array),
            ("no_parent_id", self.no_parent_id),
            ("no_document", self.no_document),
            ("no_id", self.no_id),
            ("twice", self.twice),
            ("other_parent", self.other_parent),
            ("array_in_order", self.array_in_order),
        ]
    }

    pub(crate) fn of(found: &Document) -> Self {
        Self {
            no_array: number(found, "no_array"),
            no_parent_id: number(found, "no_parent_id"),
            no_document: number(found, "no_document"),
            no_id: number(found, "no_id"),
            twice: number(found, "twice"),
            other_parent: number(found, "other_parent"),
            array_in_order: number(found, "array_in_order"),
        }
    }
}

/// The parents that cannot be migrated from embedded children; returned by
/// [`MigrateFromEmbedded::find_invalid`](crate::action::MigrateFromEmbedded::find_invalid).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FoundInvalid {
    /// The number of parents that were checked: those with embedded children that are not migrated.
    pub checked: u64,
    /// How many of them are invalid.
    pub invalid: InvalidParents,
    /// A filter that finds all invalid parents of the collection.
    pub filter: Document,
}

/// The result of a migration of two existing collections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigratedExisting {
    /// The names of the created indexes.
    pub created_indexes: Vec<String>,
    /// The number of parents. Their subsets are correct.
    pub parents: u64,
    /// The number of parents that other clients wrote concurrently, so that they were rebuilt one by one.
    pub rebuilt_individually: u64,
    /// The number of children whose parent does not exist, or who have none.
    /// [`verify`](crate::SubsetRepository::verify) reports the ids of the parents.
    pub orphans: u64,
}

/// The result of a migration from another layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigratedLayout {
    /// The names of the created indexes.
    pub created_indexes: Vec<String>,
    /// The name of the index of the old order, if this call dropped it.
    pub dropped_index: Option<String>,
    /// The number of parents. Their subsets are correct.
    pub parents: u64,
    /// The number of parents that other clients wrote concurrently, so that they were rebuilt one by one.
    pub rebuilt_individually: u64,
}

/// The plan of a migration: what it would do, and every command that it would send.
///
/// See [`MigrateFromEmbedded::plan`](crate::action::MigrateFromEmbedded::plan),
/// [`MigrateExisting::plan`](crate::action::MigrateExisting::plan) and
/// [`MigrateLayoutFrom::plan`](crate::action::MigrateLayoutFrom::plan).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct MigrationPlan {
    /// The number of parents that the migration would read.
    pub parents: u64,
    /// The number of embedded children that it would migrate.
    pub children: u64,
    /// The parents that it would skip because they, or children that they embed, are invalid.
    pub skipped: InvalidParents,
    /// The commands, in order, for the database of both collections.
    ///
    /// Two things are unknown in advance. A migration ends with a scan for stale subsets, and sends further commands
    /// for parents that other clients wrote concurrently, and for children without a parent. And the driver reads each
    /// cursor to its end by `getMore`.
    pub commands: Vec<PlannedCommand>,
}
