//! The call that creates the indexes of a repository.

use futures::future::BoxFuture;
use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf};
use tokio::sync::OnceCell;

use super::plan::Created;
use super::violations::check_violations;
use super::{EnsuredIndexes, FindDuplicates, Fits, IndexPlan, Managed, State, collection};
use crate::action::Call;
use crate::catalog::{Entry, OwnFields, Owned, check_fields};
use crate::conn::Conn;
use crate::error::{ErrorKind, Result};
use crate::plan::PlannedCommand;
use crate::topology::Topology;

crate::action! {
    /// Creates the indexes of a repository; returned by [`Repository::ensure_indexes`](crate::Repository::ensure_indexes).
    pub struct EnsureIndexes<'a> {
        shared: Ensure<'a>,
        replaces_settings: bool,
    }
    with session;
    "ensure_indexes" => EnsuredIndexes
}

/// The description of a repository: its collections, and its settings.
#[doc(hidden)]
pub struct Ensure<'a> {
    /// The call, with the collection of the repository's documents.
    pub(crate) call: Call<'a>,
    /// The settings of the repository.
    pub entry: Entry,
    /// All collections. The first has most of the documents that only the repository writes.
    collections: Vec<Managed>,
    fields: Vec<(&'static str, &'a str)>,
    own: Option<OwnFields<'a>>,
    fits: Option<&'a dyn Fits>,
    in_transactions: bool,
    corrected: Option<&'a str>,
    indexes_exist: Option<&'a OnceCell<()>>,
}

crate::redacted_debug!(Ensure<'_>, |ensure| "collection" = ensure.call.collection.namespace());

impl<'a> Ensure<'a> {
    /// Creates the description. The first collection has most of the documents that only the repository writes. The settings
    /// are of the collection of the call, or of one of its array fields.
    pub fn new(call: Call<'a>, array: Option<&str>, settings: Document, collections: Vec<Managed>) -> Self {
        let mut entry = Entry::new(call.pattern, call.collection, array, settings);
        entry.indexes = collections.iter().flat_map(Managed::index_names).collect();
        Self {
            entry,
            call,
            collections,
            fields: Vec::new(),
            own: None,
            fits: None,
            in_transactions: false,
            corrected: None,
            indexes_exist: None,
        }
    }

    crate::setters! {
        /// Sets the settings that name a field of each document of the first collection.
        fields(fields: Vec<(&'static str, &'a str)>) => fields = fields;
        /// Sets what no other repository may own.
        owns(owns: Vec<Owned>) => entry.owns = owns;
        /// Sets the fields that only the repository writes, in documents that the application writes too.
        own(own: OwnFields<'a>) => own = Some(own);
        /// Sets a further check of the stored documents, before settings are stored for the first time.
        fits(fits: &'a dyn Fits) => fits = Some(fits);
        /// Tells that the writes of a pattern of one collection need transactions too.
        in_transactions() => in_transactions = true;
        /// Sets a unique index whose violations a migration removes before it creates the index.
        corrects(index: &'a str) => corrected = Some(index);
        /// Sets what remembers that the indexes exist when they were created.
        remembered_in(indexes_exist: &'a OnceCell<()>) => indexes_exist = Some(indexes_exist);
    }

    pub(crate) fn operation(&self, operation: &'static str) -> Call<'a> {
        Call { operation, ..self.call }
    }

    /// Returns the collections, first the collection of the repository's documents.
    pub(crate) fn in_order(&self) -> Vec<&Managed> {
        let main = self.call.collection.namespace();
        let mut collections: Vec<&Managed> = self.collections.iter().collect();
        collections.sort_by_key(|managed| managed.plan.namespace() != main);
        collections
    }

    /// Returns those that are in the cluster of the repository's documents.
    pub(crate) fn in_cluster(&self) -> Vec<&Managed> {
        let mut collections = self.in_order();
        collections.retain(|managed| managed.may_be_sharded);
        collections
    }

    /// Returns the plans of the collections that need indexes, in this order.
    pub(crate) fn plans(&self) -> Vec<IndexPlan> {
        let plans = self.in_order().into_iter().map(|managed| &managed.plan);
        plans.filter(|plan| !plan.indexes.is_empty()).cloned().collect()
    }

    /// Returns whether the writes of the pattern need transactions, as writes to two collections do.
    pub(super) fn needs_transactions(&self) -> bool {
        self.in_transactions || self.collections.len() > 1
    }

    /// Compares the settings with the catalog. One round trip.
    pub fn check_settings(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.entry.check(&mut Conn::new()).await.map(drop) })
    }

    /// Checks that all indexes exist, as a step of a run. A plan only lists it. One round trip for each collection with
    /// indexes.
    pub fn check_indexes<'s>(&'s self, conn: &'s mut Conn<'_>) -> BoxFuture<'s, Result<()>> {
        Box::pin(async move {
            for plan in self.plans() {
                plan.check_in(conn).await?;
            }
            Ok(())
        })
    }

    /// Begins a search for the documents that violate a missing index, where [`check_indexes`](Self::check_indexes) has
    /// found one.
    pub fn find_duplicates(&self, checked: Result<()>) -> BoxFuture<'_, Result<Option<FindDuplicates>>> {
        Box::pin(async move {
            match checked {
                Err(error) if error.kind() == ErrorKind::IndexMissing => FindDuplicates::of(self.plans()).await,
                checked => checked.map(|()| None),
            }
        })
    }

    /// Refuses a standalone, for a pattern that needs transactions. One round trip, for such a pattern.
    pub fn check_deployment<'s>(&'s self, conn: &'s mut Conn<'_>) -> BoxFuture<'s, Result<()>> {
        Box::pin(async move {
            match self.needs_transactions() {
                true => Topology::read(self.call.collection, conn).await?.check_transactions(),
                false => Ok(()),
            }
        })
    }

    /// Does what [`check_deployment`](Self::check_deployment) does, for a topology that is known.
    pub(crate) fn check_topology(&self, topology: Topology) -> Result<()> {
        match self.needs_transactions() {
            true => topology.check_transactions(),
            false => Ok(()),
        }
    }

    /// Compares the settings with the catalog, creates the missing indexes, and stores the settings if there are none,
    /// or if the collections were dropped. Up to nine round trips.
    pub fn run<'s>(&'s self, conn: &'s mut Conn<'_>) -> BoxFuture<'s, Result<EnsuredIndexes>> {
        Box::pin(async move {
            let state = self.check(conn).await?;
            self.run_after(state, conn).await
        })
    }

    /// Does what [`run`](Self::run) does, after [`check`](Self::check).
    ///
    /// # Errors
    /// - The errors of [`run`](Self::run).
    pub fn run_after<'s>(&'s self, state: State, conn: &'s mut Conn<'_>) -> BoxFuture<'s, Result<EnsuredIndexes>> {
        Box::pin(async move {
            self.check_documents(state, conn).await?;
            self.write(state, &[], conn).await
        })
    }

    /// Compares the settings with the catalog, for a call that rewrites or deletes stored documents: it needs an entry.
    /// One round trip.
    pub fn require<'s>(&'s self, conn: &'s mut Conn<'_>) -> BoxFuture<'s, Result<()>> {
        Box::pin(async move {
            if self.entry.check(conn).await? {
                return Ok(());
            }
            self.check_deployment(conn).await?;
            Err(self.entry.missing())
        })
    }

    /// Does what [`require`](Self::require) does for a repair, and what [`Entry::check`] does for its dry run.
    pub fn check_repair(&self, dry_run: bool) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            match dry_run {
                true => self.check_settings().await,
                false => self.require(&mut Conn::new()).await,
            }
        })
    }

    /// Stores the settings in the catalog where there are none, if the documents fit. For a migration that comes before the
    /// indexes. Up to six round trips.
    pub fn store_settings<'s>(&'s self, conn: &'s mut Conn<'_>) -> BoxFuture<'s, Result<()>> {
        Box::pin(async move {
            self.check_documents(State::None, conn).await?;
            self.entry.store(conn).await
        })
    }

    /// Checks that the stored documents fit settings that are not stored yet. At most two round trips, and a further check.
    pub(crate) async fn check_documents(&self, state: State, conn: &mut Conn<'_>) -> Result<()> {
        if state != State::None {
            return Ok(());
        }
        let has_documents = match self.fields.is_empty() {
            true => false,
            false => check_fields(conn, self.first(), &self.fields).await?,
        };
        if let Some(fits) = self.fits {
            fits.check_documents(has_documents, conn).await?;
        }
        let own = self.own.as_ref().map(|own| own.collection.namespace());
        let is_empty = !has_documents && !self.fields.is_empty();
        if is_empty && own == Some(self.first().namespace()) {
            return Ok(());
        }
        self.check_own_fields(conn).await
    }

    /// Checks that the fields of the repository have no values of the application. One round trip, if there are such fields.
    pub fn check_own_fields<'s>(&'s self, conn: &'s mut Conn<'_>) -> BoxFuture<'s, Result<()>> {
        Box::pin(async move {
            match &self.own {
                Some(own) => own.check(conn).await,
                None => Ok(()),
            }
        })
    }

    /// Does what [`check`](Self::check) does, for a migration of documents that the application has written: it checks the
    /// deployment and their fields too, unless [`run_after`](Self::run_after) does.
    pub fn check_for_migration<'s>(&'s self, conn: &'s mut Conn<'_>) -> BoxFuture<'s, Result<State>> {
        Box::pin(async move {
            self.check_deployment(conn).await?;
            let state = self.check(conn).await?;
            if state != State::None {
                self.check_own_fields(conn).await?;
            }
            Ok(state)
        })
    }

    fn first(&self) -> &Collection<RawDocumentBuf> {
        &self.collections[0].plan.collection
    }

    /// Creates the missing indexes that are not created already, and stores the settings.
    pub(crate) async fn write(&self, state: State, created: &[Created], conn: &mut Conn<'_>) -> Result<EnsuredIndexes> {
        let ensured = self.create_in(state, created, conn).await?;
        match state {
            State::Stored => {}
            State::None => self.entry.store(conn).await?,
            State::Unconfirmed => self.entry.complete(conn).await?,
            State::Dropped => self.entry.replace(conn).await?,
        }
        Ok(ensured)
    }

    /// Refuses collections that the pattern cannot work on. One round trip for each database.
    pub(crate) async fn check_collections(&self, conn: &mut Conn<'_>) -> Result<()> {
        let collections = self.collections.iter().map(|managed| &managed.plan.collection);
        collection::check(conn, &collections.collect::<Vec<_>>()).await
    }

    /// Compares the settings with the catalog. One round trip.
    pub fn check<'s>(&'s self, conn: &'s mut Conn<'_>) -> BoxFuture<'s, Result<State>> {
        Box::pin(async move {
            let Some(stored) = self.entry.read(conn).await? else {
                return Ok(State::None);
            };
            match self.entry.compare(&stored, &[]) {
                Ok(()) if self.entry.is_confirmed(&stored) => Ok(State::Stored),
                Ok(()) => Ok(State::Unconfirmed),
                Err(error) if error.kind() == ErrorKind::SettingsMismatch && self.is_dropped(conn).await? => {
                    Ok(State::Dropped)
                }
                Err(error) => Err(error),
            }
        })
    }

    /// Returns whether the collections of an entry do not exist. A pattern without an index may not have created its
    /// collection yet.
    async fn is_dropped(&self, conn: &mut Conn<'_>) -> Result<bool> {
        for Managed { plan, .. } in &self.collections {
            if collection::exists(conn, &plan.collection).await? {
                return Ok(false);
            }
        }
        Ok(!self.plans().is_empty())
    }

    /// Creates the missing indexes, whatever the settings in the catalog are. Up to three round trips for one collection.
    pub fn create_missing<'s>(&'s self, conn: &'s mut Conn<'_>) -> BoxFuture<'s, Result<EnsuredIndexes>> {
        Box::pin(async move { self.create_in(State::Stored, &[], conn).await })
    }

    /// Creates the missing indexes, and replaces the settings in the catalog. Up to six round trips.
    pub fn replace<'s>(&'s self, conn: &'s mut Conn<'_>) -> BoxFuture<'s, Result<EnsuredIndexes>> {
        Box::pin(async move {
            let ensured = self.create_missing(conn).await?;
            self.entry.replace(conn).await?;
            Ok(ensured)
        })
    }

    /// Creates the missing indexes that are not created already. Creates none if one conflicts.
    async fn create_in(&self, state: State, created: &[Created], conn: &mut Conn<'_>) -> Result<EnsuredIndexes> {
        self.check_collections(conn).await?;
        let mut listed = Vec::new();
        for (number, managed) in self.collections.iter().enumerate() {
            if number > 0 && managed.plan.indexes.is_empty() {
                continue;
            }
            let plan = managed.plan_in(state, created);
            let present = plan.list("look for the indexes", conn).await?;
            plan.check_conflicts(&present)?;
            check_violations(&plan, &present, self.corrected, conn).await?;
            listed.push((plan, present));
        }
        let mut ensured = EnsuredIndexes::default();
        for (plan, present) in listed {
            let created = plan.create_missing(conn, &present).await?;
            ensured.created.extend(created.created);
            ensured.existing.extend(created.existing);
            ensured.unused.extend(created.unused);
        }
        if let Some(indexes_exist) = self.indexes_exist.filter(|_| !conn.is_plan()) {
            // An error means that it is known already.
            let _ = indexes_exist.set(());
        }
        Ok(ensured)
    }
}

impl<'a> EnsureIndexes<'a> {
    /// Creates the action.
    #[doc(hidden)]
    pub fn new(shared: Ensure<'a>) -> Self {
        Self {
            shared,
            replaces_settings: false,
            session: None,
        }
    }

    /// Replaces the settings in the [catalog](crate::catalog) by the settings of the repository, and then creates the
    /// indexes. The stored documents do not change. Use it when the stored settings are wrong, when you changed the
    /// documents by other means, or before a repair of documents whose duplicates refuse the indexes. Read the dry run of
    /// the repair first.
    ///
    /// # Errors
    /// - [`SettingsMismatch`](crate::ErrorKind::SettingsMismatch): another repository [owns](crate::catalog#owners) one of
    ///   its fields or its second collection. The settings are stored also when the indexes are refused.
    pub fn replace_settings(mut self) -> Self {
        self.replaces_settings = true;
        self
    }

    /// Lists the commands of a call after a migration, which changes stored settings first. Writes nothing.
    #[doc(hidden)]
    pub async fn plan_after_migration(self) -> Result<Vec<PlannedCommand>> {
        let (mut conn, shared) = (Conn::plan(), &self.shared);
        shared.check_deployment(&mut conn).await?;
        match shared.entry.read(&mut conn).await? {
            None => drop(shared.run_after(State::None, &mut conn).await?),
            Some(stored) => {
                match shared.entry.compare(&stored, &[]) {
                    Err(error) if error.kind() != ErrorKind::SettingsMismatch => return Err(error),
                    _ => {}
                }
                drop(shared.create_missing(&mut conn).await?);
            }
        }
        Ok(conn.into_commands())
    }

    async fn execute(self) -> Result<EnsuredIndexes> {
        let mut conn = Conn::of_caller(self.session).await?;
        self.shared.check_deployment(&mut conn).await?;
        if !self.replaces_settings {
            return self.shared.run(&mut conn).await;
        }
        // Nothing is replaced where another entry owns the same.
        self.shared.entry.read(&mut conn).await?;
        // Before the indexes, which duplicates may refuse until a repair, and a repair needs the settings.
        self.shared.entry.replace(&mut conn).await?;
        self.shared.create_missing(&mut conn).await
    }
}
