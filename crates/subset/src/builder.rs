//! The builder of a repository.

mod subset;

use mongo_patterns_core::settings::{check_acknowledged, configuration, required};
#[allow(unused_imports)] // the links of the documentation use it
use mongo_patterns_core::{ErrorKind, FieldName, Result, RetryPolicy};
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;

pub use self::subset::Subset;
use crate::repository::SubsetRepository;
use crate::settings::Settings;
use crate::settings::figure::{Figure, Kind};

impl<P, C> SubsetRepository<P, C> {
    /// Returns a builder of a repository over a collection of parents and a collection of children.
    ///
    /// Writes use the write concerns of the collections. [`get`](Self::get) uses the read preference and read concern of the
    /// parents, [`child`](Self::child) and [`children`](Self::children) use the settings of the children. All other reads go
    /// to the primary.
    ///
    /// Build one repository for each collection of children, and clone it. A write updates only the subset of its own
    /// repository. If a second repository over the same children has other parents or other settings, run a
    /// [follower](Self::follow) for each of them.
    ///
    /// ```no_run
    /// # use mongo_patterns::RetryPolicy;
    /// # use mongo_patterns::subset::{Subset, SubsetRepository};
    /// # use mongo_patterns::mongodb::{Database, bson::{Document, doc}};
    /// # use std::time::Duration;
    /// # struct Product;
    /// # struct Review;
    /// # fn f(database: Database) -> mongo_patterns::Result<()> {
    /// let (product, review) = (database.collection::<Document>("product"), database.collection::<Document>("review"));
    /// let newest = Subset::new("reviews").sort(doc! { "published_date": -1 });
    /// let newest = newest.size(5).embedded_fields(["review_author", "review_text", "published_date"]);
    /// let products = SubsetRepository::<Product, Review>::builder(product, review)
    ///     .parent_field("product_id")
    ///     .child_id_field("review_id")
    ///     .subset(newest)
    ///     // The other settings have defaults.
    ///     .version_field("reviews_version")
    ///     .total_field("review_count")
    ///     .sum("rating", "rating_sum")
    ///     .count_by("rating", "stars")
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
        SubsetRepositoryBuilder::over(parents.clone_with_type(), children.clone_with_type())
    }
}

mongo_patterns_core::builder! {
    /// Builds a [`SubsetRepository`].
    ///
    /// # Figures
    ///
    /// A parent can store values of a field of all its children, beside the subset: the [sum](SubsetRepositoryBuilder::sum),
    /// the [minimum](SubsetRepositoryBuilder::min), the [maximum](SubsetRepositoryBuilder::max), and the [number of children
    /// with each value](SubsetRepositoryBuilder::count_by). An average is a sum divided by a number of children. Each is
    /// correct whenever the subset is, with the exceptions of a [total](SubsetRepositoryBuilder::total_field).
    ///
    /// A child that lacks the field, or has `null`, is not counted. Arrays, `MinKey` and `MaxKey` are refused; do not store
    /// any by other programs. The fields of the parent are written only by this repository.
    ///
    /// # Cost of figures
    /// Each field of the children needs an index on it and the parent, unless it is the first of the order or the child's
    /// id.
    ///
    /// - A write adds what it changes, and reads a minimum and a maximum by the index: no further round trips.
    /// - It computes a sum from all children if a value is above 2<sup>53</sup>, infinite, NaN, or a decimal with an
    ///   exponent or more than 20 characters. That takes one or two further round trips for each field.
    /// - In a sharded cluster a write needs MongoDB 8.0, unless all fields are sums or counts and children are only inserted
    ///   and deleted. Earlier versions have no `$lookup` from a sharded collection in a transaction.
    /// - `refresh` and a follower compute all fields by one more command, which examines the index keys of all children of
    ///   the parent for each field.
    /// - `verify`, `repair` and `refresh_all` read all children once more for each field of the children.
    ///
    /// If a figure is added to an existing repository, the next write to each parent computes it: call
    /// [`migrate_layout_from`](SubsetRepository::migrate_layout_from) to compute it in all parents at once.
    pub struct SubsetRepositoryBuilder<P, C> over parents: Collection<RawDocumentBuf>, children: Collection<RawDocumentBuf> {
        subsets: Vec<Subset>,
        version: Option<String>,
        total: Option<String>,
        computed: Vec<(Kind, String, String)>,
        parent: Option<String>,
        child_id: Option<String>,
    }
    with retry "[`refresh`](SubsetRepository::refresh) ignores it: \
        it makes at most three attempts, or sixteen with a total or figures.", max_time;

    /// Sets the field of a child that holds the `_id` of its parent, such as `product_id`. Required.
    parent_field(name: impl Into<String>) => parent = Some(name.into());

    /// Sets the field of a child that identifies it among the children of its parent, such as `review_id`, or `_id`.
    /// Required.
    child_id_field(name: impl Into<String>) => child_id = Some(name.into());

    /// Sets the field of the parent that counts the writes to its subsets. By default the name of the first subset followed
    /// by `_version`, such as `reviews_version`. Only this repository writes it.
    version_field(name: impl Into<String>) => version = Some(name.into());

    /// Sets a field of the parent for the number of all its children, such as `review_count`, for "10 of 1,234 reviews". By
    /// default there is none. Only this repository writes it.
    ///
    /// The number is correct whenever the subset is, and a wrong one is found and repaired like a stale subset. One
    /// exception: a write adds to a stored integer, so it does not correct a number that another program has left wrong. All
    /// other calls count.
    ///
    /// # Cost
    /// A write locks the parent first: five round trips. `refresh` and a follower need one more for each parent, which
    /// examines as many index keys as the parent has children. `verify`, `repair` and `refresh_all` read all children once
    /// more.
    ///
    /// If the option is added to an existing repository, the next write to each parent counts its children: call
    /// [`migrate_layout_from`](SubsetRepository::migrate_layout_from) to count them all at once.
    total_field(name: impl Into<String>) => total = Some(name.into());
}

impl<P, C> SubsetRepositoryBuilder<P, C> {
    /// Stores the sum of a field of all children in a field of the parent, such as the sum of `rating` in `rating_sum`. See
    /// [figures](SubsetRepositoryBuilder#figures).
    ///
    /// Values that are not numbers are ignored; without numbers, it is 0. Sums of integers are exact. A sum of doubles or
    /// decimals depends on the order of its additions: [`verify`](SubsetRepository::verify) accepts an absolute or relative difference of
    /// 10<sup>-9</sup>.
    pub fn sum(mut self, child_field: impl Into<String>, parent_field: impl Into<String>) -> Self {
        self.computed.push((Kind::Sum, child_field.into(), parent_field.into()));
        self
    }

    /// Stores the smallest value of a field of all children in a field of the parent, such as the least `price` in
    /// `lowest_price`. See [figures](SubsetRepositoryBuilder#figures).
    ///
    /// Values have MongoDB's order, across all types. Without values, it is `null`.
    pub fn min(mut self, child_field: impl Into<String>, parent_field: impl Into<String>) -> Self {
        self.computed.push((Kind::Min, child_field.into(), parent_field.into()));
        self
    }

    /// Stores the greatest value of a field of all children in a field of the parent, as [`min`](Self::min) stores the
    /// smallest.
    pub fn max(mut self, child_field: impl Into<String>, parent_field: impl Into<String>) -> Self {
        self.computed.push((Kind::Max, child_field.into(), parent_field.into()));
        self
    }

    /// Stores how many children have each value of a field, in an array field of the parent, such as the numbers of each
    /// `rating` in `stars`. See [figures](SubsetRepositoryBuilder#figures).
    ///
    /// ```text
    /// stars: [ { value: 1, count: 3 }, { value: 4, count: 210 }, { value: 5, count: 1021 } ]
    /// ```
    ///
    /// It is sorted by value, in MongoDB's order. Equal numbers of different types are one value. The parent grows with the
    /// number of different values, so choose a field with few.
    pub fn count_by(mut self, child_field: impl Into<String>, parent_field: impl Into<String>) -> Self {
        self.computed
            .push((Kind::CountBy, child_field.into(), parent_field.into()));
        self
    }

    /// Adds a subset: an array field of the parent, with the first children in an order. At least one is required.
    ///
    /// A parent can have several, each with its own order, size, filter and fields: the ten newest reviews and the three
    /// best. They share a version, and each write updates all of them by one command. The list
    /// [`children`](SubsetRepository::children) has the order of the first subset, which has no filter.
    /// [`children_of_subset`](SubsetRepository::children_of_subset) has the order of any.
    ///
    /// ```no_run
    /// # use mongo_patterns::subset::SubsetRepositoryBuilder;
    /// use mongo_patterns::subset::Subset;
    /// # use mongo_patterns::mongodb::bson::doc;
    /// # fn f(builder: SubsetRepositoryBuilder<i32, i32>) -> mongo_patterns::Result<()> {
    /// let newest = Subset::new("reviews").sort(doc! { "published_date": -1 });
    /// let best = Subset::new("top_rated").sort(doc! { "stars": -1 }).size(3);
    /// let products = builder.subset(newest).subset(best.filter(doc! { "stars": { "$gte": 4 } })).build()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost of a further subset
    /// No further round trips: one command reads the first children of all subsets. Each subset needs an index on its order.
    /// `verify`, `repair` and `refresh_all` read the first children of each. In a sharded cluster, a write to several
    /// subsets needs MongoDB 8.0.
    ///
    /// If a subset is added to an existing repository, the next write to each parent fills it: call
    /// [`migrate_layout_from`](SubsetRepository::migrate_layout_from) to fill it in all parents at once.
    pub fn subset(mut self, subset: Subset) -> Self {
        self.subsets.push(subset);
        self
    }

    /// Builds the repository. Sends nothing.
    ///
    /// # Errors
    /// [`Configuration`](ErrorKind::Configuration) when
    ///
    /// - a required name, the subset or an order is missing,
    /// - a name is not the name of a plain field, or two fields of one document have the same name,
    /// - a [filter](Subset::filter) has an unsupported operator, or is a filter of the first subset,
    /// - a figure is of the parent field,
    /// - an order has a field twice, the parent field, a field after the child's id, or another direction than 1 and -1,
    /// - a size is 0 or above `i32::MAX`,
    /// - the collections are the same, or in two databases,
    /// - the write concern of a collection is `w: 0`, which confirms nothing.
    pub fn build(self) -> Result<SubsetRepository<P, C>> {
        let parent = FieldName::new(required(self.parent, "parent_field")?)?;
        let child_id = FieldName::of_element(required(self.child_id, "child_id_field")?)?;
        if parent == child_id {
            return Err(configuration(
                "the parent field and the child's id are the same field: rename one",
            ));
        }
        let subsets = self.subsets.into_iter();
        let subsets = subsets.map(|subset| subset.checked(&parent, &child_id));
        let subsets = subsets.collect::<Result<Vec<_>>>()?;
        let first = required(subsets.first(), "subset")?;
        if !first.filter.query().is_empty() {
            return Err(configuration(
                "the first subset has a filter, but the list of all children has its order: add one without a filter before it",
            ));
        }
        let version = self.version.map_or_else(|| Ok(first.field.version()), FieldName::new)?;
        let total = self
            .total
            .map(|field| (Kind::Count, child_id.as_str().to_owned(), field));
        let figures = total.into_iter().chain(self.computed);
        let figures = figures.map(|(kind, of, field)| figure(kind, of, field, &parent));
        let figures = figures.collect::<Result<Vec<_>>>()?;
        let fields = subsets.iter().map(|subset| &subset.field).chain([&version]);
        let fields: Vec<_> = fields.chain(figures.iter().map(|figure| &figure.field)).collect();
        if (1..fields.len()).any(|last| fields[..last].contains(&fields[last])) {
            return Err(configuration(
                "the subsets, their version, the total and the figures are not different fields: rename one",
            ));
        }
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
            subsets,
            figures,
            version,
            parent,
            child_id,
            retry: self.retry,
            max_time: self.max_time,
            order_index: String::new(),
            child_index: String::new(),
        };
        settings.name_indexes();
        Ok(SubsetRepository::new(self.parents, self.children, settings))
    }
}

fn figure(kind: Kind, of: String, field: String, parent: &FieldName) -> Result<Figure> {
    let of = FieldName::of_element(of)?;
    if of == *parent {
        return Err(configuration(
            "a figure is one of the parent field, which is the same in all children: use another one",
        ));
    }
    let field = FieldName::new(field)?;
    Ok(Figure { kind, of, field })
}
