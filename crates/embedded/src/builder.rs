use std::borrow::Cow;
use std::marker::PhantomData;

use mongo_patterns_core::{Error, ErrorKind, FieldName, Result, RetryPolicy};
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;
use mongodb::options::Acknowledgment;

use crate::EmbeddedRepository;
use crate::settings::Settings;

/// Builds an [`EmbeddedRepository`]: names, the bound and the retry.
///
/// ```no_run
/// # use mongo_patterns_core::RetryPolicy;
/// # use mongo_patterns_embedded::EmbeddedRepository;
/// # use mongodb::{Collection, bson::Document};
/// # use std::time::Duration;
/// # async fn f(
/// #     patrons: EmbeddedRepository<Document, Document>,
/// #     patron: Collection<Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let patrons = EmbeddedRepository::<Document, Document>::builder(patron)
///     .children_field("addresses")
///     .child_id_field("id")
///     .max_children(20)
///     .retry(RetryPolicy::default().with_max_elapsed(Duration::from_secs(5)))
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until build() is called"]
pub struct EmbeddedRepositoryBuilder<P, C> {
    collection: Collection<RawDocumentBuf>,
    children: Option<String>,
    child_id: String,
    max_children: u32,
    retry: RetryPolicy,
    types: PhantomData<fn() -> (P, C)>,
}

mongo_patterns_core::redacted_debug!(EmbeddedRepositoryBuilder<P, C>, |this| "collection" = this.collection.namespace());

impl<P, C> EmbeddedRepositoryBuilder<P, C> {
    pub(crate) fn new(collection: Collection<RawDocumentBuf>) -> Self {
        Self {
            collection,
            children: None,
            child_id: "_id".to_owned(),
            max_children: 100,
            retry: RetryPolicy::default(),
            types: PhantomData,
        }
    }

    /// The array field of a parent that holds its children, such as `addresses`. Required.
    pub fn children_field(mut self, name: impl Into<String>) -> Self {
        self.children = Some(name.into());
        self
    }

    /// The field of a child that identifies it among the children of its parent; `_id` by default, as it is in a
    /// collection of their own.
    ///
    /// Every child must have it: a string, a number that is no decimal128, a boolean, an ObjectId, binary data such as
    /// a UUID, a date, a timestamp, or a document.
    pub fn child_id_field(mut self, name: impl Into<String>) -> Self {
        self.child_id = name.into();
        self
    }

    /// How many children a parent may have; 100 by default.
    ///
    /// The bound is what makes the pattern one: a parent is read and written as a whole, and MongoDB's limit of a
    /// document is 16 MiB. Where there can be more, use another pattern; see the [crate](crate).
    pub fn max_children(mut self, children: u32) -> Self {
        self.max_children = children;
        self
    }

    /// How long a write goes on trying when it found no place, and a look at the parent finds nothing in its way. Only
    /// other writers that add and remove all the time can make it end.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// The repository. Sends nothing.
    ///
    /// # Errors
    /// [`Configuration`](ErrorKind::Configuration), when the name of the array is missing, a name is not that of a plain
    /// field, that of the child's id is a number, which in a path would be a place in the array, the bound is 0 or above
    /// `i32::MAX`, or the collection's write concern is `w: 0`, under which no write could be confirmed.
    pub fn build(self) -> Result<EmbeddedRepository<P, C>> {
        let children = self
            .children
            .ok_or_else(|| configuration("call children_field(..) on the builder"))?;
        let settings = Settings {
            children: FieldName::new(children)?,
            child_id: FieldName::in_array(self.child_id)?,
            max_children: self.max_children,
            retry: self.retry,
        };
        if settings.max_children == 0 || i32::try_from(settings.max_children).is_err() {
            return Err(configuration(
                "the number of children must be bounded by 1 to 2,147,483,647",
            ));
        }
        let acknowledgment = self.collection.write_concern().and_then(|concern| concern.w.as_ref());
        if acknowledgment == Some(&Acknowledgment::Nodes(0)) {
            return Err(configuration("the collection's write concern must not be w: 0"));
        }
        Ok(EmbeddedRepository::new(self.collection, settings))
    }
}

// Not derived: that would need `Clone` and `Debug` of the types.
impl<P, C> Clone for EmbeddedRepositoryBuilder<P, C> {
    fn clone(&self) -> Self {
        Self {
            collection: self.collection.clone(),
            children: self.children.clone(),
            child_id: self.child_id.clone(),
            max_children: self.max_children,
            retry: self.retry.clone(),
            types: PhantomData,
        }
    }
}

fn configuration(message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Configuration, message)
}
