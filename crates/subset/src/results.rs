//! The results of calls.

use mongo_patterns_core::InvalidDocuments;
use serde::Serialize;

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
    /// # async fn f(messages: mongo_patterns::subset::SubsetRepository<i32, i32>) -> mongo_patterns::Result<()> {
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

/// The result of a migration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Migrated {
    /// The number of parents whose subsets are correct now.
    pub parents: u64,
    /// The number of embedded children that this call migrated into their collection.
    pub children: u64,
    /// The number of parents that other clients wrote concurrently, so that they were rebuilt one by one.
    pub rebuilt_individually: u64,
    /// The number of children whose parent does not exist, or who have none, as
    /// [`migrate_existing`](crate::SubsetRepository::migrate_existing) counts them.
    /// [`verify`](crate::SubsetRepository::verify) reports the ids of the parents.
    pub orphans: u64,
    /// The parents that were [skipped](crate::action::MigrateFromEmbedded::skip_invalid) because they, or children that they
    /// embed, are invalid.
    pub skipped: InvalidDocuments,
    /// The names of the created indexes.
    pub created_indexes: Vec<String>,
    /// The name of the index of the old order, if this call dropped it.
    pub dropped_index: Option<String>,
    /// Whether this call resumed the migration of an earlier call.
    pub resumed: bool,
}
