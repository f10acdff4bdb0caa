use std::marker::PhantomData;

use mongo_patterns_core::{Error, ErrorKind, FieldName, Result, RetryPolicy};
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;
use mongodb::options::Acknowledgment;

use crate::settings::Settings;
use crate::{Consistency, Direction, SubsetRepository};

/// Builds a [`SubsetRepository`]: names, order, size and consistency.
///
/// ```no_run
/// # use mongo_patterns_core::RetryPolicy;
/// # use mongo_patterns_subset::{Consistency, Direction, SubsetRepository};
/// # use mongodb::{Collection, bson::Document};
/// # use std::time::Duration;
/// # async fn f(
/// #     products: SubsetRepository<Document, Document>,
/// #     product: Collection<Document>,
/// #     review: Collection<Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let reviews = SubsetRepository::<Document, Document>::builder(product, review)
///     .subset_field("reviews")
///     .version_field("reviews_version")
///     .total_field("review_count")
///     .parent_field("product_id")
///     .child_id_field("review_id")
///     .order_by("published_date", Direction::Descending)
///     .subset_size(10)
///     .embedded_fields(["review_author", "review_text", "published_date"])
///     .consistency(Consistency::Transactional)
///     .retry(RetryPolicy::default().with_max_elapsed(Duration::from_secs(5)))
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until build() is called"]
pub struct SubsetRepositoryBuilder<P, C> {
    parents: Collection<RawDocumentBuf>,
    children: Collection<RawDocumentBuf>,
    subset: Option<String>,
    version: Option<String>,
    total: Option<String>,
    parent: Option<String>,
    child_id: Option<String>,
    order: Vec<(String, Direction)>,
    size: u32,
    embed: Option<Vec<String>>,
    consistency: Option<Consistency>,
    retry: RetryPolicy,
    types: PhantomData<fn() -> (P, C)>,
}

mongo_patterns_core::redacted_debug!(SubsetRepositoryBuilder<P, C>, |this| "collection" = this.parents.namespace());

impl<P, C> SubsetRepositoryBuilder<P, C> {
    pub(crate) fn new(parents: Collection<RawDocumentBuf>, children: Collection<RawDocumentBuf>) -> Self {
        Self {
            parents,
            children,
            subset: None,
            version: None,
            total: None,
            parent: None,
            child_id: None,
            order: Vec::new(),
            size: 10,
            embed: None,
            consistency: None,
            retry: RetryPolicy::default(),
            types: PhantomData,
        }
    }

    /// The array field of the parent, such as `reviews`. Required. Only this repository writes it.
    pub fn subset_field(mut self, name: impl Into<String>) -> Self {
        self.subset = Some(name.into());
        self
    }

    /// The field of a child that holds the `_id` of its parent, such as `product_id`. Required.
    pub fn parent_field(mut self, name: impl Into<String>) -> Self {
        self.parent = Some(name.into());
        self
    }

    /// The field of a child that tells it from the other children of its parent, such as `review_id`, or `_id`.
    /// Required.
    pub fn child_id_field(mut self, name: impl Into<String>) -> Self {
        self.child_id = Some(name.into());
        self
    }

    /// Orders the children by a field: the first ones are embedded. Required. Called again, it orders those that are
    /// equal so far. What is equal in all fields is ordered by the child's id, in the direction of the last field.
    ///
    /// Values are ordered as MongoDB orders them, also those of different types. A missing field is as `null`, which is
    /// before all else.
    pub fn order_by(mut self, field: impl Into<String>, direction: Direction) -> Self {
        self.order.push((field.into(), direction));
        self
    }

    /// How many children are embedded, at most; 10 by default.
    pub fn subset_size(mut self, children: u32) -> Self {
        self.size = children;
        self
    }

    /// Which fields of a child are embedded; the child's id always is. By default all but `_id` and the parent field.
    pub fn embedded_fields<F: Into<String>>(mut self, fields: impl IntoIterator<Item = F>) -> Self {
        self.embed = Some(fields.into_iter().map(Into::into).collect());
        self
    }

    /// The field of the parent that counts the writes to its subset; by default that of the subset with `_version` after
    /// it, such as `reviews_version`. Only this repository writes it.
    pub fn version_field(mut self, name: impl Into<String>) -> Self {
        self.version = Some(name.into());
        self
    }

    /// A field of the parent that holds how many children it has in all, such as `review_count`, for "10 of 1,234
    /// reviews". By default there is none. Only this repository writes it.
    ///
    /// It is right whenever the subset is, and a wrong one is found and mended as a wrong subset is, with one exception:
    /// a [`Transactional`](Consistency::Transactional) write adds to the stored number, where that is an integer, and
    /// counts the children where it is not. So it leaves a number wrong that was wrong before, by a write of another
    /// program, or by an [`Eventual`](Consistency::Eventual) one that broke off. All else counts.
    ///
    /// # Cost
    /// In a transaction none. An [`Eventual`](Consistency::Eventual) write has one round trip more, which examines as many
    /// keys of an index as the parent has children, and no document; and a new child always writes its parent. A parent
    /// that gets its number at last, after this option was added, is counted once: call
    /// [`rebuild_all`](SubsetRepository::rebuild_all). That, `verify` and `repair` read all children once more.
    pub fn total_field(mut self, name: impl Into<String>) -> Self {
        self.total = Some(name.into());
        self
    }

    /// What reads see between the write of a child and that of its parent. By default
    /// [`Transactional`](Consistency::Transactional) where the deployment has transactions, and
    /// [`Eventual`](Consistency::Eventual) on a standalone: found out at the first write, by one command more.
    pub fn consistency(mut self, consistency: Consistency) -> Self {
        self.consistency = Some(consistency);
        self
    }

    /// How long a transaction is tried again when other writers are faster. Without transactions it is not used: there
    /// three attempts always suffice.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// The repository. Sends nothing.
    ///
    /// # Errors
    /// [`Configuration`](ErrorKind::Configuration), when a required name or the order is missing, a name is not that of
    /// a plain field, two names of one document are equal, a field is in the order twice or after the child's id, the
    /// size is 0 or above `i32::MAX`, both collections are the same or in two databases, or a collection's write concern
    /// is `w: 0`, under which nothing could be confirmed.
    pub fn build(self) -> Result<SubsetRepository<P, C>> {
        let required = |name: Option<String>, call: &str| {
            name.ok_or_else(|| configuration(format!("call {call}(..) on the builder")))
        };
        let subset = FieldName::new(required(self.subset, "subset_field")?)?;
        let parent = FieldName::new(required(self.parent, "parent_field")?)?;
        let child_id = FieldName::of_element(required(self.child_id, "child_id_field")?)?;
        let version = FieldName::new(self.version.unwrap_or_else(|| format!("{subset}_version")))?;
        let total = self.total.map(FieldName::new).transpose()?;
        if subset == version || total.as_ref().is_some_and(|total| [&subset, &version].contains(&total)) {
            return Err(configuration("subset, version and total must be different fields"));
        }
        if parent == child_id {
            return Err(configuration("parent and child id must be two different fields"));
        }
        let order = order(self.order, &parent, &child_id)?;
        let embed = self.embed.map(|fields| {
            let fields = fields.into_iter().map(FieldName::of_element);
            fields.collect::<Result<Vec<_>>>()
        });
        if self.size == 0 || i32::try_from(self.size).is_err() {
            return Err(configuration("the size must be from 1 to 2,147,483,647"));
        }
        if self.parents.namespace() == self.children.namespace() {
            return Err(configuration("parents and children must be in two collections"));
        }
        if self.parents.namespace().db != self.children.namespace().db {
            return Err(configuration("parents and children must be in one database"));
        }
        for collection in [&self.parents, &self.children] {
            let acknowledgment = collection.write_concern().and_then(|concern| concern.w.as_ref());
            if acknowledgment == Some(&Acknowledgment::Nodes(0)) {
                return Err(configuration("the collections' write concern must not be w: 0"));
            }
        }
        let mut settings = Settings {
            subset,
            version,
            total,
            parent,
            child_id,
            order,
            size: self.size,
            embed: embed.transpose()?,
            consistency: self.consistency,
            retry: self.retry,
            order_index: String::new(),
            child_index: String::new(),
        };
        settings.name_indexes();
        Ok(SubsetRepository::new(self.parents, self.children, settings))
    }
}

/// The order, with the child's id at its end.
fn order(
    fields: Vec<(String, Direction)>,
    parent: &FieldName,
    child_id: &FieldName,
) -> Result<Vec<(FieldName, Direction)>> {
    let mut order: Vec<(FieldName, Direction)> = Vec::new();
    for (field, direction) in fields {
        let field = FieldName::of_element(field)?;
        if field == *parent
            || order
                .iter()
                .any(|(earlier, _)| *earlier == field || earlier == child_id)
        {
            return Err(configuration(
                "the order must not have a field twice, the parent, or anything after the child's id, which decides",
            ));
        }
        order.push((field, direction));
    }
    let Some((last, direction)) = order.last().cloned() else {
        return Err(configuration("call order_by(..) on the builder"));
    };
    if last != *child_id {
        order.push((child_id.clone(), direction));
    }
    Ok(order)
}

// Not derived: that would need `Clone` and `Debug` of the types.
impl<P, C> Clone for SubsetRepositoryBuilder<P, C> {
    fn clone(&self) -> Self {
        Self {
            parents: self.parents.clone(),
            children: self.children.clone(),
            subset: self.subset.clone(),
            version: self.version.clone(),
            total: self.total.clone(),
            parent: self.parent.clone(),
            child_id: self.child_id.clone(),
            order: self.order.clone(),
            size: self.size,
            embed: self.embed.clone(),
            consistency: self.consistency,
            retry: self.retry.clone(),
            types: PhantomData,
        }
    }
}

fn configuration(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Configuration, message)
}
