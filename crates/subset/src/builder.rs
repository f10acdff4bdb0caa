//! The builder of a repository.

use mongo_patterns_core::settings::{check_acknowledged, check_bound, configuration, required};

use crate::prelude::*;
use crate::repository::SubsetRepository;
use crate::settings::{Consistency, Direction};

impl<P, C> SubsetRepository<P, C> {
    /// Returns a builder of a repository over a collection of parents and a collection of children.
    ///
    /// Writes use the write concerns of the collections. [`get`](Self::get) uses the read preference and read concern
    /// of the parents, [`child`](Self::child) and [`children`](Self::children) use those of the children. All other
    /// reads go to the primary.
    ///
    /// Build one repository for each collection of children, and clone it. A write updates only the subset of its own
    /// repository. If a second repository over the same children has other parents or other settings, the writes of
    /// each make the subsets of the other stale: then run a [follower](Self::follow) for each of them.
    ///
    /// ```no_run
    /// # use mongo_patterns_core::RetryPolicy;
    /// # use mongo_patterns_subset::{Consistency, Direction, SubsetRepository};
    /// # use mongodb::{Database, bson::Document};
    /// # use std::time::Duration;
    /// # struct Product;
    /// # struct Review;
    /// # fn f(database: Database) -> mongo_patterns_core::Result<()> {
    /// let (product, review) = (database.collection::<Document>("product"), database.collection::<Document>("review"));
    /// let products = SubsetRepository::<Product, Review>::builder(product, review)
    ///     .subset_field("reviews")
    ///     .parent_field("product_id")
    ///     .child_id_field("review_id")
    ///     .order_by("published_date", Direction::Descending)
    ///     // The other settings have defaults.
    ///     .subset_size(5)
    ///     .embedded_fields(["review_author", "review_text", "published_date"])
    ///     .version_field("reviews_version")
    ///     .total_field("review_count")
    ///     .consistency(Consistency::Transactional)
    ///     .retry(RetryPolicy::default().with_max_elapsed(Duration::from_secs(5)))
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::needless_pass_by_value)] // the builder owns the collections, with another type
    pub fn builder<A: Send + Sync, B: Send + Sync>(
        parents: Collection<A>,
        children: Collection<B>,
    ) -> SubsetRepositoryBuilder<P, C> {
        SubsetRepositoryBuilder {
            parents: parents.clone_with_type(),
            children: children.clone_with_type(),
            chosen: Chosen::default(),
            types: PhantomData,
        }
    }
}

/// Builds a [`SubsetRepository`].
#[must_use = "a builder does nothing until build() is called"]
pub struct SubsetRepositoryBuilder<P, C> {
    parents: Collection<RawDocumentBuf>,
    children: Collection<RawDocumentBuf>,
    chosen: Chosen,
    types: PhantomData<fn() -> (P, C)>,
}

/// The settings, not checked yet.
#[derive(Clone, Default)]
struct Chosen {
    subset: Option<String>,
    version: Option<String>,
    total: Option<String>,
    parent: Option<String>,
    child_id: Option<String>,
    order: Vec<(String, Direction)>,
    size: Option<u32>,
    embedded_fields: Option<Vec<String>>,
    consistency: Option<Consistency>,
    retry: RetryPolicy,
}

mongo_patterns_core::redacted_debug!(SubsetRepositoryBuilder<P, C>, |this| "collection" = this.parents.namespace());
mongo_patterns_core::clone_fields!(SubsetRepositoryBuilder<P, C>, parents, children, chosen, types);

mongo_patterns_core::setters! {
    for SubsetRepositoryBuilder<P, C>:

    /// Sets the array field of the parent, such as `reviews`. Required. Only this repository writes it.
    subset_field(name: impl Into<String>) => chosen.subset = Some(name.into());

    /// Sets the field of a child that holds the `_id` of its parent, such as `product_id`. Required.
    parent_field(name: impl Into<String>) => chosen.parent = Some(name.into());

    /// Sets the field of a child that identifies it among the children of its parent, such as `review_id`, or `_id`.
    /// Required.
    child_id_field(name: impl Into<String>) => chosen.child_id = Some(name.into());

    /// Sets the maximum number of embedded children; 10 by default.
    subset_size(children: u32) => chosen.size = Some(children);

    /// Sets the field of the parent that counts the writes to its subset. By default the name of the subset followed by
    /// `_version`, such as `reviews_version`. Only this repository writes it.
    version_field(name: impl Into<String>) => chosen.version = Some(name.into());

    /// Sets a field of the parent that holds the number of all its children, such as `review_count`, for "10 of 1,234
    /// reviews". By default there is none. Only this repository writes it.
    ///
    /// The number is correct whenever the subset is. A wrong number is found and repaired like a stale subset, with one
    /// exception: a [`Transactional`](Consistency::Transactional) write adds to the stored number if it is an integer,
    /// and counts the children only if it is not. So it leaves a number wrong that another program or an interrupted
    /// [`Eventual`](Consistency::Eventual) write has left wrong. All other calls count.
    ///
    /// # Cost
    /// In a transaction none. An [`Eventual`](Consistency::Eventual) write needs one more round trip, which examines as
    /// many index keys as the parent has children, and no documents. A new child always writes its parent. `verify`,
    /// `repair` and `rebuild_all` read all children once more.
    ///
    /// If the option is added to an existing repository, the next write to each parent counts its children: call
    /// [`migrate_layout_from`](SubsetRepository::migrate_layout_from) to count them all at once.
    total_field(name: impl Into<String>) => chosen.total = Some(name.into());

    /// Sets what reads see between the write of a child and the write of its parent.
    ///
    /// By default [`Transactional`](Consistency::Transactional) if the deployment supports transactions, and
    /// [`Eventual`](Consistency::Eventual) on a standalone. The first write finds out which, by one more command.
    consistency(consistency: Consistency) => chosen.consistency = Some(consistency);

    /// Sets how long a transaction is retried when other writers are faster. Writes without transactions ignore it:
    /// three attempts always suffice.
    retry(policy: RetryPolicy) => chosen.retry = policy;
}

impl<P, C> SubsetRepositoryBuilder<P, C> {
    /// Orders the children by a field: the first ones are embedded. Required.
    ///
    /// A further call orders the children that are equal in the fields so far. Children that are equal in all fields
    /// are ordered by their id, in the direction of the last field.
    ///
    /// Values have MongoDB's order, across all types. A missing field is ordered as `null`, before all other values.
    pub fn order_by(mut self, field: impl Into<String>, direction: Direction) -> Self {
        self.chosen.order.push((field.into(), direction));
        self
    }

    /// Sets the fields of a child that are embedded, in addition to its id. By default all but `_id` and the parent
    /// field.
    pub fn embedded_fields<F: Into<String>>(mut self, fields: impl IntoIterator<Item = F>) -> Self {
        self.chosen.embedded_fields = Some(fields.into_iter().map(Into::into).collect());
        self
    }

    /// Builds the repository. Sends nothing.
    ///
    /// # Errors
    /// [`Configuration`](ErrorKind::Configuration) when
    ///
    /// - a required name or the order is missing,
    /// - a name is not that of a plain field, or two fields of one document have the same name,
    /// - the order has a field twice, the parent field, or a field after the child's id,
    /// - the size is 0 or above `i32::MAX`,
    /// - the collections are the same, or in two databases,
    /// - the write concern of a collection is `w: 0`, which confirms nothing.
    pub fn build(self) -> Result<SubsetRepository<P, C>> {
        let chosen = self.chosen;
        let subset = FieldName::new(required(chosen.subset, "subset_field")?)?;
        let parent = FieldName::new(required(chosen.parent, "parent_field")?)?;
        let child_id = FieldName::of_element(required(chosen.child_id, "child_id_field")?)?;
        let version = FieldName::new(chosen.version.unwrap_or_else(|| format!("{subset}_version")))?;
        let total = chosen.total.map(FieldName::new).transpose()?;
        if subset == version || total.as_ref().is_some_and(|total| [&subset, &version].contains(&total)) {
            return Err(configuration(
                "the subset, its version and the total are not three different fields: rename one",
            ));
        }
        if parent == child_id {
            return Err(configuration(
                "the parent field and the child's id are the same field: rename one",
            ));
        }
        let order = order(chosen.order, &parent, &child_id)?;
        let embedded_fields = chosen.embedded_fields.map(|fields| {
            let fields = fields.into_iter().map(FieldName::of_element);
            fields.collect::<Result<Vec<_>>>()
        });
        let size = chosen.size.unwrap_or(10);
        check_bound("subset size", size)?;
        if self.parents.namespace() == self.children.namespace() {
            return Err(configuration(
                "the parents and the children are in one collection: use two collections",
            ));
        }
        if self.parents.namespace().db != self.children.namespace().db {
            return Err(configuration(
                "the parents and the children are in two databases: use collections of one database",
            ));
        }
        check_acknowledged(&self.parents)?;
        check_acknowledged(&self.children)?;
        let mut settings = Settings {
            subset,
            version,
            total,
            parent,
            child_id,
            order,
            size,
            embedded_fields: embedded_fields.transpose()?,
            consistency: chosen.consistency,
            retry: chosen.retry,
            order_index: String::new(),
            child_index: String::new(),
        };
        settings.name_indexes();
        Ok(SubsetRepository::new(self.parents, self.children, settings))
    }
}

/// Returns the order, with the child's id at its end.
fn order(
    fields: Vec<(String, Direction)>,
    parent: &FieldName,
    child_id: &FieldName,
) -> Result<Vec<(FieldName, Direction)>> {
    let mut order: Vec<(FieldName, Direction)> = Vec::new();
    for (field, direction) in fields {
        let field = FieldName::of_element(field)?;
        let is_decided = |earlier: &FieldName| *earlier == field || earlier == child_id;
        if field == *parent || order.iter().any(|(earlier, _)| is_decided(earlier)) {
            return Err(configuration(
                "the order has a field twice, the parent field, or a field after the child's id: remove it",
            ));
        }
        order.push((field, direction));
    }
    let (last, direction) = required(order.last().cloned(), "order_by")?;
    if last != *child_id {
        order.push((child_id.clone(), direction));
    }
    Ok(order)
}
