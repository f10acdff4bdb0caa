//! The builder of a repository.

use mongo_patterns_core::settings::{check_acknowledged, configuration, required};
use mongo_patterns_core::{FieldName, Result};
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;

use crate::reference::Reference;
use crate::repository::ReferenceRepository;
use crate::settings::{MARK, ReferenceField, Settings};

impl<D, S> ReferenceRepository<D, S> {
    /// Returns a builder of a repository over a collection of referring documents, such as orders, and the collection of
    /// their sources, such as customers.
    ///
    /// Writes use the write concern of the collection that they write. [`get`](Self::get) uses the read preference and read
    /// concern of the referring documents. All other reads go to the primary.
    ///
    /// ```no_run
    /// # use mongo_patterns::RetryPolicy;
    /// # use mongo_patterns::reference::{Reference, ReferenceRepository};
    /// # use mongo_patterns::mongodb::{Database, bson::Document};
    /// # use std::time::Duration;
    /// # struct Order;
    /// # struct Customer;
    /// # fn f(database: Database) -> mongo_patterns::Result<()> {
    /// let orders = database.collection::<Document>("orders");
    /// let customers = database.collection::<Document>("customers");
    /// let invoices = database.collection::<Document>("invoices");
    /// let orders = ReferenceRepository::<Order, Customer>::builder(orders, customers)
    ///     .reference_field("customer")
    ///     .copied_fields(["name", "address.city"])
    ///     // The other settings have defaults.
    ///     .copied_field("mail", "contact.email") // renamed in the copy
    ///     .version_field("v")
    ///     .source_key("number") // an order to insert has the number of its customer
    ///     .add_reference(Reference::new("payer").copied_fields(["name"])) // in the same documents
    ///     .add_referring(invoices, Reference::new("customer").copied_fields(["name"]).snapshot())
    ///     .retry(RetryPolicy::default().with_max_elapsed(Duration::from_secs(5)))
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::needless_pass_by_value)] // the builder owns the collections, with another type
    pub fn builder<A: Send + Sync, B: Send + Sync>(
        referring: Collection<A>,
        sources: Collection<B>,
    ) -> ReferenceRepositoryBuilder<D, S> {
        ReferenceRepositoryBuilder::over(referring.clone_with_type(), sources.clone_with_type())
    }
}

mongo_patterns_core::builder! {
    /// Builds a repository; returned by [`ReferenceRepository::builder`].
    pub struct ReferenceRepositoryBuilder<D, S> over referring: Collection<RawDocumentBuf>, sources: Collection<RawDocumentBuf> {
        name: Option<String>,
        /// The reference of that name.
        first: Reference,
        /// Of the same collection if there is none.
        further: Vec<(Option<Collection<RawDocumentBuf>>, Reference)>,
        version: String = "v".to_owned(),
        key: Option<String>,
    }
    with retry "Sweeps also retry after network errors.", max_time;

    /// Sets the field with the reference, such as `customer`. Required. It is a field of the document, and not a path.
    reference_field(name: impl Into<String>) => name = Some(name.into());

    /// Sets the field with the version, in sources and copies; `v` by default. A source without it has the version 0.
    ///
    /// For sources that a `HistoryRepository` writes, set the field of its revision. Run a
    /// [follower](ReferenceRepository::follow), which updates the copies after each write. Other programs may write the
    /// sources too, if a follower of the history runs. No call of this repository writes the revision:
    /// [`update_source`](ReferenceRepository::update_source) is refused. [Delete](ReferenceRepository::delete_source) a
    /// source through its history.
    // proof: together::sources_with_history::other_programs_and_both_followers_leave_no_gap_and_no_old_copy,
    // together::sources_with_history::the_repository_of_references_never_writes_the_revision
    version_field(name: impl Into<String>) => version = name.into();

    /// Sets a unique field of the sources by which your documents name them, such as `username`, in place of `_id`. It is a
    /// field of the source, and not a path.
    ///
    /// The calls that store a reference take its value: the documents of [`insert`](ReferenceRepository::insert) have
    /// `author: "ann"` or `author: { username: "ann" }`, and [`set_reference`](ReferenceRepository::set_reference) takes
    /// `"ann"`. All other calls take the `_id` of a source, which every copy has: `author: { _id: 7, username: "ann", name:
    /// "Ann", v: 3 }`. The field is copied in each reference, and a change reaches the copies. A document stays with its
    /// source when another source gets the value.
    ///
    /// `ensure_indexes()` creates a unique index on it, such as `username_1`, which accepts one source without the field. No
    /// document can refer to such a source. The value must not be a document or an array. `ensure_sharded()` leaves the
    /// sources on one shard, because a cluster has no such index on sources that are sharded by `_id`.
    source_key(field: impl Into<String>) => key = Some(field.into());
}

impl<D, S> ReferenceRepositoryBuilder<D, S> {
    /// Adds fields of the source that are copied under the same path. A path such as `address.city` is copied to
    /// `customer.address.city`.
    pub fn copied_fields(mut self, paths: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.first = self.first.copied_fields(paths);
        self
    }

    /// Adds a field of the source that is copied under another path: first the path in the copy, then the path in the
    /// source.
    pub fn copied_field(mut self, target: impl Into<String>, source: impl Into<String>) -> Self {
        self.first = self.first.copied_field(target, source);
        self
    }

    /// The field is an array of references, whose elements can have fields of their own.
    pub fn array(mut self) -> Self {
        self.first = self.first.array();
        self
    }

    /// The copies stay as they were stored, such as the price that was paid.
    pub fn snapshot(mut self) -> Self {
        self.first = self.first.snapshot();
        self
    }

    /// Adds another field of the same documents that refers to the same sources.
    pub fn add_reference(mut self, reference: Reference) -> Self {
        self.further.push((None, reference));
        self
    }

    /// Adds another collection whose documents refer to the same sources. Updates and deletions of a source also reach its
    /// copies there. To insert its documents, build a repository for them, and add this collection to that one.
    #[allow(clippy::needless_pass_by_value)] // the builder owns the collection, with another type
    pub fn add_referring<A: Send + Sync>(mut self, collection: Collection<A>, reference: Reference) -> Self {
        self.further.push((Some(collection.clone_with_type()), reference));
        self
    }

    /// Builds the repository. Sends nothing.
    ///
    /// # Errors
    /// [`Configuration`](mongo_patterns_core::ErrorKind::Configuration) when
    ///
    /// - the reference field is missing, or a reference has no copied fields,
    /// - a name is not the name of a plain field, or a path has a part that is empty, an operator or a number,
    /// - two copied fields of a reference have the same path in the copy, or one of these paths leads into the other,
    /// - a copied field or the source key is `_id`, the version or, in the copy, `deleted`,
    /// - two references are in the same field of the same collection,
    /// - the sources refer to themselves, or the collections are in two databases,
    /// - the write concern of a collection is `w: 0`, which confirms nothing.
    pub fn build(self) -> Result<ReferenceRepository<D, S>> {
        let (referring, sources) = (self.referring, self.sources);
        let key = self.key.map(FieldName::new).transpose()?;
        let version = FieldName::new(self.version)?;
        if version.as_str() == MARK || version.as_str() == crate::settings::DELETED {
            return Err(configuration(format!(
                "the field `{version}` is reserved: use another name for the version"
            )));
        }
        let mut collections = vec![referring];
        let first = self.first.named(required(self.name, "reference_field")?);
        let mut references = vec![first.checked(0, &version, key.as_ref())?];
        for (collection, reference) in self.further {
            let position = match collection {
                None => 0,
                Some(collection) => position_of(&mut collections, collection),
            };
            references.push(reference.checked(position, &version, key.as_ref())?);
        }
        let is_same = |a: &ReferenceField, b: &ReferenceField| a.collection == b.collection && a.name == b.name;
        let is_repeated = |last: usize| references[..last].iter().any(|one| is_same(one, &references[last]));
        if (1..references.len()).any(is_repeated) {
            return Err(configuration(
                "two references are in the same field of the same collection: name each field once",
            ));
        }
        for collection in &collections {
            check(collection, &sources)?;
        }
        check_acknowledged(&sources)?;
        let mut settings = Settings::new(version, references, self.retry);
        (settings.key, settings.max_time) = (key, self.max_time);
        Ok(ReferenceRepository::new(collections, sources, settings))
    }
}

/// Returns the position of a collection, which is added if it is new.
fn position_of(collections: &mut Vec<Collection<RawDocumentBuf>>, collection: Collection<RawDocumentBuf>) -> usize {
    let namespace = collection.namespace();
    match collections.iter().position(|known| known.namespace() == namespace) {
        Some(position) => position,
        None => {
            collections.push(collection);
            collections.len() - 1
        }
    }
}

fn check(referring: &Collection<RawDocumentBuf>, sources: &Collection<RawDocumentBuf>) -> Result<()> {
    if referring.namespace() == sources.namespace() {
        return Err(configuration(
            "the sources and the documents that refer to them are in one collection, where a change of a copy would be a change of a source: use two collections",
        ));
    }
    if referring.namespace().db != sources.namespace().db {
        return Err(configuration(
            "the sources and the documents that refer to them are in two databases: use collections of one database",
        ));
    }
    check_acknowledged(referring)
}
