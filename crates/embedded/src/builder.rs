use mongo_patterns_core::settings::{check_acknowledged, check_bound, required};
use mongo_patterns_core::{FieldName, Result};
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;

use crate::repository::EmbeddedRepository;
use crate::settings::Settings;

mongo_patterns_core::builder! {
    /// Builds an [`EmbeddedRepository`].
    pub struct EmbeddedRepositoryBuilder<P, C> over collection: Collection<RawDocumentBuf> {
        children: Option<String>,
        child_id: String = "_id".to_owned(),
        max_children: u32 = 100,
    }
    with retry "A write is retried if it was refused and the reason is gone when the repository reads the document. \
        Only other writers that keep adding and removing children can exhaust it.", max_time;

    /// Sets the array field of a parent that holds its children, such as `addresses`. Required.
    children_field(name: impl Into<String>) => children = Some(name.into());

    /// Sets the field that identifies a child among the children of its parent; `_id` by default.
    ///
    /// Every child must have it: a string, a number other than decimal128, a boolean, an ObjectId, binary data such as a
    /// UUID, a date, a timestamp, or a document.
    child_id_field(name: impl Into<String>) => child_id = name.into();

    /// Sets the most children that a parent may have. 100 by default.
    ///
    /// The bound is needed, because a parent is read and written as a whole and MongoDB limits a document to 16 MiB. The
    /// [crate documentation](crate#when-not-to-use-it) names the patterns for longer lists.
    max_children(children: u32) => max_children = children;
}

impl<P, C> EmbeddedRepository<P, C> {
    /// Starts to build a repository over a collection, with its read preference, read concern and write concern.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use mongo_patterns::RetryPolicy;
    /// # use mongo_patterns::embedded::EmbeddedRepository;
    /// # use mongo_patterns::mongodb::{Database, bson::Document};
    /// # struct Patron;
    /// # struct Address;
    /// # fn f(database: Database) -> mongo_patterns::Result<()> {
    /// let patrons = EmbeddedRepository::<Patron, Address>::builder(database.collection::<Document>("patron"))
    ///     .children_field("addresses")
    ///     .child_id_field("id")
    ///     .max_children(20)
    ///     .retry(RetryPolicy::default().with_max_elapsed(Duration::from_secs(5)))
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::needless_pass_by_value)] // the builder keeps the collection, as one of another type
    pub fn builder<D: Send + Sync>(collection: Collection<D>) -> EmbeddedRepositoryBuilder<P, C> {
        EmbeddedRepositoryBuilder::over(collection.clone_with_type())
    }
}

impl<P, C> EmbeddedRepositoryBuilder<P, C> {
    /// Checks the settings and returns the repository. Sends nothing.
    ///
    /// # Errors
    /// [`Configuration`](mongo_patterns_core::ErrorKind::Configuration) in these cases:
    ///
    /// - The array's name is missing, or a name is not the name of a plain field.
    /// - The name of the child's id is a number, which a path would take for a position in the array.
    /// - The bound is 0 or above `i32::MAX`.
    /// - The collection's write concern is `w: 0`, which confirms no write.
    pub fn build(self) -> Result<EmbeddedRepository<P, C>> {
        let settings = Settings {
            children: FieldName::new(required(self.children, "children_field")?)?,
            child_id: FieldName::in_array(self.child_id)?,
            max_children: self.max_children,
            retry: self.retry,
            max_time: self.max_time,
        };
        check_bound("number of children", settings.max_children)?;
        check_acknowledged(&self.collection)?;
        Ok(EmbeddedRepository::new(self.collection, settings))
    }
}
