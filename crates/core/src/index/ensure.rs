//! The call that creates the indexes of a repository.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;

use super::plan::Created;
use super::{EnsuredIndexes, IndexPlan, collection};
use crate::action::Call;
use crate::catalog::{Entry, OwnFields, check_fields};
use crate::conn::Conn;
use crate::error::{ErrorKind, Result};
use crate::migration::{PlannedCommand, Steps};
use crate::topology::Topology;

crate::action! {
    /// Creates the indexes of a repository; returned by its `ensure_indexes()`.
    pub struct EnsureIndexes<'a> {
        shared: Ensure<'a>,
        replaces_settings: bool,
    }
    with session;
    "ensure_indexes" => EnsuredIndexes
}

/// The collections of a repository, and its indexes.
#[doc(hidden)]
pub struct Ensure<'a> {
    /// The call, whose collection is named in errors.
    pub call: Call<'a>,
    /// The indexes.
    pub plan: IndexPlan,
    /// The collection that has them.
    pub collection: &'a Collection<RawDocumentBuf>,
    /// The other collection of the pattern.
    pub other: Option<&'a Collection<RawDocumentBuf>>,
    /// The indexes of the other collection, if it needs any.
    pub other_plan: Option<IndexPlan>,
    /// Further collections of the pattern, with their indexes.
    pub further: Vec<(&'a Collection<RawDocumentBuf>, IndexPlan)>,
    /// The settings of the repository.
    pub entry: Entry,
    /// The settings that name a field of each document of the collection that has the indexes.
    pub fields: Vec<(&'static str, &'a str)>,
    /// The fields that only the repository writes, in documents that the application writes too.
    pub own: Option<OwnFields<'a>>,
    /// A further check of the stored documents, before settings are stored for the first time.
    pub fits: Option<&'a dyn Fits>,
    /// The start of the names of indexes that exist for one setting only.
    pub family: Option<String>,
    /// Whether the writes of the pattern need transactions, which a standalone does not have.
    pub needs_transactions: bool,
    /// Set when they exist.
    pub has_indexes: Option<&'a AtomicBool>,
}

/// Checks that stored documents fit settings that are not stored yet.
#[doc(hidden)]
pub trait Fits: Send + Sync {
    /// Reads documents. The collection that has the indexes has documents or not.
    ///
    /// # Errors
    /// [`SettingsMismatch`](ErrorKind::SettingsMismatch).
    fn check_documents<'a>(&'a self, has_documents: bool, steps: &'a mut Steps<'_, '_>) -> BoxFuture<'a, Result<()>>;
}

crate::redacted_debug!(Ensure<'_>, |ensure| "collection" = ensure.collection.namespace());

/// The entry of a repository in the catalog.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    /// It has the same settings.
    Stored,
    None,
    /// It has other settings, of collections that were dropped.
    Dropped,
}

impl<'a> Ensure<'a> {
    fn operation(&self, operation: &'static str) -> Call<'a> {
        Call { operation, ..self.call }
    }

    /// Refuses a standalone, for a pattern that needs transactions. One round trip, for such a pattern.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported).
    pub async fn check_deployment(&self, steps: &mut Steps<'_, '_>) -> Result<()> {
        match self.needs_transactions {
            true => Topology::read_in(self.collection, steps).await?.check_transactions(),
            false => Ok(()),
        }
    }

    /// Does what [`check_deployment`](Self::check_deployment) does, for a topology that is known.
    pub(crate) fn check_topology(&self, topology: Topology) -> Result<()> {
        match self.needs_transactions {
            true => topology.check_transactions(),
            false => Ok(()),
        }
    }

    /// Compares the settings with the catalog, creates the missing indexes, and stores the settings if there are none,
    /// or if the collections were dropped. Up to seven round trips.
    ///
    /// # Errors
    /// Those of [`check`](Self::check) and [`IndexPlan::ensure`], with nothing written, and those of [`Entry::store`].
    pub async fn run(&self, steps: &mut Steps<'_, '_>) -> Result<EnsuredIndexes> {
        let state = self.check(steps).await?;
        self.run_after(state, steps).await
    }

    /// Does what [`run`](Self::run) does, after [`check`](Self::check).
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub async fn run_after(&self, state: State, steps: &mut Steps<'_, '_>) -> Result<EnsuredIndexes> {
        self.check_documents(state, steps).await?;
        self.write(state, &[], steps).await
    }

    /// Compares the settings with the catalog, for a call that rewrites or deletes stored documents: it needs an entry.
    /// One round trip.
    ///
    /// # Errors
    /// Those of [`Entry::check`], and [`Entry::missing`].
    pub async fn require(&self, steps: &mut Steps<'_, '_>) -> Result<()> {
        if self.entry.check(steps).await? {
            return Ok(());
        }
        self.check_deployment(steps).await?;
        Err(self.entry.missing())
    }

    /// Does what [`require`](Self::require) does for a repair, and what [`Entry::check`] does for its dry run.
    ///
    /// # Errors
    /// Those of both.
    pub async fn check_repair(&self, dry_run: bool) -> Result<()> {
        match dry_run {
            true => self.entry.check(&mut Steps::run()).await.map(drop),
            false => self.require(&mut Steps::run()).await,
        }
    }

    /// Stores the settings in the catalog where there are none, if the documents fit. For a migration that comes before the
    /// indexes. Up to four round trips.
    ///
    /// # Errors
    /// [`SettingsMismatch`](ErrorKind::SettingsMismatch), with nothing written, and those of [`Entry::store`].
    pub async fn store_settings(&self, steps: &mut Steps<'_, '_>) -> Result<()> {
        self.check_documents(State::None, steps).await?;
        self.entry.store(steps).await
    }

    /// Checks that the stored documents fit settings that are not stored yet. At most two round trips, and those of a
    /// further check.
    pub(crate) async fn check_documents(&self, state: State, steps: &mut Steps<'_, '_>) -> Result<()> {
        if state != State::None {
            return Ok(());
        }
        let has_documents = match self.fields.is_empty() {
            true => false,
            false => check_fields(steps, self.collection, &self.fields).await?,
        };
        if let Some(fits) = &self.fits {
            fits.check_documents(has_documents, steps).await?;
        }
        let own = self.own.as_ref().map(|own| own.collection.namespace());
        if !has_documents && own == Some(self.collection.namespace()) {
            return Ok(());
        }
        self.check_own_fields(steps).await
    }

    /// Checks that the fields of the repository have no values of the application. One round trip, if there are such fields.
    ///
    /// # Errors
    /// Those of [`OwnFields::check`].
    pub async fn check_own_fields(&self, steps: &mut Steps<'_, '_>) -> Result<()> {
        match &self.own {
            Some(own) => own.check(steps).await,
            None => Ok(()),
        }
    }

    /// Does what [`check`](Self::check) does, for a migration of documents that the application has written: it checks their
    /// fields too, unless [`run_after`](Self::run_after) does.
    ///
    /// # Errors
    /// Those of [`check`](Self::check), and of [`check_own_fields`](Self::check_own_fields).
    pub async fn check_for_migration(&self, steps: &mut Steps<'_, '_>) -> Result<State> {
        let state = self.check(steps).await?;
        if state != State::None {
            self.check_own_fields(steps).await?;
        }
        Ok(state)
    }

    /// Returns the collections that have indexes, with their plans.
    pub(crate) fn plans(&self, state: State) -> Vec<(&'a Collection<RawDocumentBuf>, IndexPlan)> {
        let mut plans = vec![(self.collection, self.plan_in(state))];
        plans.extend(self.other.zip(self.other_plan.clone()));
        plans.extend(self.further.iter().cloned());
        plans
    }

    /// Returns the plan, which refuses an index of another setting where no settings are stored.
    fn plan_in(&self, state: State) -> IndexPlan {
        match state {
            State::None => self.plan.clone().only_one_of(self.family.clone()),
            State::Stored | State::Dropped => self.plan.clone(),
        }
    }

    /// Creates the missing indexes, but for those that are created already, and stores the settings.
    pub(crate) async fn write(
        &self,
        state: State,
        created: &[Created],
        steps: &mut Steps<'_, '_>,
    ) -> Result<EnsuredIndexes> {
        let ensured = self.create_indexes(&self.plan_in(state), created, steps).await?;
        match state {
            State::Stored => {}
            State::None => self.entry.store(steps).await?,
            State::Dropped => self.entry.replace(steps).await?,
        }
        Ok(ensured)
    }

    /// Refuses collections that the pattern cannot work on. One round trip for each database, and for each further
    /// collection.
    pub(crate) async fn check_collections(&self, steps: &mut Steps<'_, '_>) -> Result<()> {
        collection::check(steps, self.collection, self.other).await?;
        for (further, _) in &self.further {
            collection::check(steps, further, None).await?;
        }
        Ok(())
    }

    /// Compares the settings with the catalog. One round trip.
    ///
    /// # Errors
    /// Those of [`Entry::check`], unless the collections were dropped.
    pub async fn check(&self, steps: &mut Steps<'_, '_>) -> Result<State> {
        match self.entry.check(steps).await {
            Ok(true) => Ok(State::Stored),
            Ok(false) => Ok(State::None),
            Err(error) if error.kind() == ErrorKind::SettingsMismatch && self.is_dropped(steps).await? => {
                Ok(State::Dropped)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns whether the collections of an entry do not exist. A pattern without an index may not have created its
    /// collection yet.
    async fn is_dropped(&self, steps: &mut Steps<'_, '_>) -> Result<bool> {
        let collections = [Some(self.collection), self.other];
        for collection in collections.into_iter().flatten() {
            if collection::exists(steps, collection).await? {
                return Ok(false);
            }
        }
        Ok(!self.plan.indexes().is_empty())
    }

    /// Creates the missing indexes, and replaces the settings in the catalog. Up to four round trips.
    ///
    /// # Errors
    /// Those of [`IndexPlan::ensure`], with nothing written, and those of the driver.
    pub async fn replace(&self, steps: &mut Steps<'_, '_>) -> Result<EnsuredIndexes> {
        let ensured = self.create_indexes(&self.plan, &[], steps).await?;
        self.entry.replace(steps).await?;
        Ok(ensured)
    }

    async fn create_indexes(
        &self,
        plan: &IndexPlan,
        created: &[Created],
        steps: &mut Steps<'_, '_>,
    ) -> Result<EnsuredIndexes> {
        let plan = plan.without(created, self.collection);
        let mut in_further = Vec::with_capacity(self.further.len());
        for (further, of_further) in &self.further {
            collection::check(steps, further, None).await?;
            let present = steps.list_indexes("look for the indexes", further).await?;
            of_further.check_conflicts(&present)?;
            in_further.push(present);
        }
        let mut ensured = match (self.other, &self.other_plan) {
            (Some(other), Some(of_other)) => {
                self.check_collections(steps).await?;
                let of_other = of_other.without(created, other);
                plan.ensure_both(steps, self.collection, (other, &of_other)).await?
            }
            _ => plan.ensure_in(steps, self.collection, self.other).await?,
        };
        for ((further, of_further), present) in self.further.iter().zip(&in_further) {
            let rest = of_further.without(created, further);
            let of_further = rest.create_missing(steps, further, present).await?;
            ensured.created.extend(of_further.created);
            ensured.existing.extend(of_further.existing);
        }
        if let Some(has_indexes) = self.has_indexes.filter(|_| !steps.is_plan()) {
            has_indexes.store(true, Ordering::Relaxed);
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

    /// Replaces the settings in the [catalog](crate::catalog) by those of the repository, whatever they are, and then
    /// creates the indexes. The stored documents do not change. Use it when the stored settings are wrong, when you changed
    /// the documents by other means than a migration of this crate, or before a repair of documents whose duplicates refuse
    /// the indexes. Read the dry run of the repair first.
    ///
    /// # Errors
    /// No [`SettingsMismatch`](crate::ErrorKind::SettingsMismatch). The settings are stored also when the indexes are refused.
    pub fn replace_settings(mut self) -> Self {
        self.replaces_settings = true;
        self
    }

    /// Lists the commands of a call after a migration, which changes stored settings first. Writes nothing.
    ///
    /// # Errors
    /// Those of the call with nothing written, but no [`SettingsMismatch`](ErrorKind::SettingsMismatch) with the catalog.
    #[doc(hidden)]
    pub async fn plan_after_migration(self) -> Result<Vec<PlannedCommand>> {
        let (mut steps, shared) = (Steps::plan(), &self.shared);
        shared.check_deployment(&mut steps).await?;
        match shared.entry.check(&mut steps).await {
            Ok(false) => drop(shared.run_after(State::None, &mut steps).await?),
            Err(error) if error.kind() != ErrorKind::SettingsMismatch => return Err(error),
            Ok(true) | Err(_) => drop(shared.create_indexes(&shared.plan, &[], &mut steps).await?),
        }
        Ok(steps.into_commands())
    }

    async fn execute(self) -> Result<EnsuredIndexes> {
        let mut conn = Conn::of_caller(self.session).await?;
        let steps = &mut Steps::Run(Some(&mut conn));
        self.shared.check_deployment(steps).await?;
        if !self.replaces_settings {
            return self.shared.run(steps).await;
        }
        // Before the indexes, which duplicates may refuse until a repair, and a repair needs the settings.
        self.shared.entry.replace(steps).await?;
        self.shared.create_indexes(&self.shared.plan, &[], steps).await
    }
}
