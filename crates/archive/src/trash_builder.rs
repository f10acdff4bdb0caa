//! The construction of a trash.

use std::time::Duration;

use mongo_patterns_core::lanes::Lanes;
use mongo_patterns_core::settings::configuration;

use crate::builder::check_collections;
use crate::prelude::*;
use crate::trash::{Shared, Trash};

mongo_patterns_core::builder! {
    /// Builds a [`Trash`].
    pub struct TrashBuilder<D> over current: Raw, trash: Raw {
        expires_after: Option<Duration>,
    }
    with retry, max_time;

    /// Sets the time after which the server deletes an entry, from its deletion by the clock of the client; by default
    /// never. Another time concerns later deletions.
    expires_after(time: Duration) => expires_after = Some(time);
}

impl<D> Trash<D> {
    /// Starts to build a trash of a collection in a second one, with their read preferences, read concerns and write concerns.
    /// Both are of one client. They can be in two databases. The second one has only entries of this trash.
    ///
    /// Build one trash for the two collections, and clone it: calls of one document wait in the client, and not on the server.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use mongo_patterns::archive::Trash;
    /// # use mongo_patterns::mongodb::{Database, bson::Document};
    /// # fn f(database: Database) -> mongo_patterns::Result<()> {
    /// let (users, deleted_users) = (database.collection::<Document>("users"), database.collection::<Document>("deleted_users"));
    /// let trash = Trash::<Document>::builder(users, deleted_users)
    ///     .expires_after(Duration::from_secs(30 * 24 * 60 * 60))
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::needless_pass_by_value)] // the builder keeps the collections, as ones of another type
    pub fn builder<A: Send + Sync, B: Send + Sync>(collection: Collection<A>, trash: Collection<B>) -> TrashBuilder<D> {
        TrashBuilder::over(collection.clone_with_type(), trash.clone_with_type())
    }
}

impl<D> TrashBuilder<D> {
    /// Checks the settings and returns the trash. Sends nothing.
    ///
    /// # Errors
    /// [`Configuration`](ErrorKind::Configuration) when entries would expire at once, both collections are the same, or one of
    /// them has the write concern `w: 0`, which confirms no write.
    pub fn build(self) -> Result<Trash<D>> {
        if self.expires_after.is_some_and(|time| time.is_zero()) {
            return Err(configuration(
                "the entries of the trash would expire at once: set a longer time, or leave it out",
            ));
        }
        check_collections(&self.current, &self.trash)?;
        Ok(Trash::of(Shared {
            lanes: Lanes::new(&self.current),
            current: self.current,
            trash: self.trash,
            expires_after: self.expires_after,
            retry: self.retry,
            max_time: self.max_time,
        }))
    }
}
