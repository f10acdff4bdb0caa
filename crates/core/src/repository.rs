//! What the repositories of all patterns have: indexes, shard keys and validators.

use mongodb::Namespace;
use mongodb::bson::Document;

use crate::index::{Ensure, EnsureIndexes, IndexPlan};
use crate::sharding::{EnsureSharded, ShardKeyChoice, VerifyShardKeys};

/// A repository of any pattern, with the calls that set up its collections.
///
/// A service sets up all of its repositories in one loop:
///
/// ```no_run
/// use mongo_patterns::Repository;
///
/// async fn set_up(repositories: &[&dyn Repository]) -> mongo_patterns::Result<()> {
///     for repository in repositories {
///         for name in repository.ensure_indexes().await?.created {
///             println!("created the index {name} of the {} pattern", repository.pattern());
///         }
///     }
///     Ok(())
/// }
/// ```
///
/// Each pattern implements it for its repository. Other crates cannot implement it:
///
/// ```compile_fail,E0277
/// use mongo_patterns::history::HistoryRepository;
/// use mongo_patterns::{Repository, Validator};
///
/// struct Mine(HistoryRepository<i32>);
///
/// impl Repository for Mine {
///     fn managed(&self) -> mongo_patterns::index::Ensure<'_> {
///         self.0.managed()
///     }
///
///     fn validators(&self) -> Vec<Validator> {
///         self.0.validators()
///     }
/// }
/// ```
pub trait Repository: sealed::Sealed + Send + Sync {
    /// Returns the description of the collections and the settings.
    #[doc(hidden)]
    fn managed(&self) -> Ensure<'_>;

    /// Returns the name of the pattern, such as `bucket`.
    fn pattern(&self) -> &'static str {
        self.managed().call.pattern
    }

    /// Returns the collections, first the collection of the repository's documents.
    fn namespaces(&self) -> Vec<Namespace> {
        let managed = self.managed();
        let collections = managed.in_order().into_iter();
        collections.map(|managed| managed.plan.namespace()).collect()
    }

    /// Returns the indexes that the repository requires, a plan for each collection that needs some.
    ///
    /// ```no_run
    /// # use mongo_patterns::Repository;
    /// # async fn f(repository: &dyn Repository) -> mongo_patterns::Result<()> {
    /// for plan in repository.indexes() {
    ///     println!("{plan}"); // the calls of createIndex, for a shell
    ///     plan.check().await?; // an error where one is missing
    /// }
    /// # Ok(())
    /// # }
    /// ```
    fn indexes(&self) -> Vec<IndexPlan> {
        self.managed().plans()
    }

    /// Returns the validators that the pattern has for its collections. With them, the server refuses documents that
    /// `verify()` would report.
    ///
    /// ```no_run
    /// # use mongo_patterns::Repository;
    /// # use mongo_patterns::mongodb::{Database, bson::doc};
    /// # async fn f(repository: &dyn Repository, database: Database, exists: bool) -> mongo_patterns::Result<()> {
    /// for validator in repository.validators() {
    ///     let (name, document) = (validator.namespace.coll, validator.document);
    ///     if exists {
    ///         database.run_command(doc! { "collMod": name, "validator": document }).await?;
    ///     } else {
    ///         database.create_collection(&name).validator(document).await?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// `collMod` replaces the validator of a collection. Join several in one document: `doc! { "$and": [of_lines, of_views,
    /// yours] }`.
    // proof: together::owns::validators_of_one_collection_are_joined
    ///
    /// Stored documents of another layout violate it: set it after a migration, or with the validation level `moderate`.
    fn validators(&self) -> Vec<Validator>;

    /// Returns the shard keys under which the pattern works, for each collection. Sends nothing.
    ///
    /// ```no_run
    /// # fn f(repository: &dyn mongo_patterns::Repository) {
    /// for choice in repository.shard_keys() {
    ///     println!("{}: {}", choice.namespace, choice.recommended);
    /// }
    /// # }
    /// ```
    fn shard_keys(&self) -> Vec<ShardKeyChoice> {
        let managed = self.managed();
        let collections = managed.in_order().into_iter();
        collections.map(|managed| managed.shard_key.clone()).collect()
    }

    /// Checks the collections, creates the missing [indexes](Self::indexes), and stores the settings in the
    /// [catalog](crate::catalog).
    ///
    /// It drops and changes nothing. Services call it at every start, concurrently.
    ///
    /// ```no_run
    /// # async fn f(repository: &dyn mongo_patterns::Repository) -> mongo_patterns::Result<()> {
    /// let ensured = repository.ensure_indexes().await?; // once, at the start of the service
    /// for name in ensured.created {
    ///     println!("created the index {name}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// When everything exists, one round trip for the catalog, one or two for each database, and one for the indexes of each
    /// collection. The first time up to six more, and one for each collection whose indexes are created. The server reads
    /// the whole collection for an index, and for some checks.
    ///
    /// # Sessions and transactions
    /// MongoDB does not allow it in a transaction.
    ///
    /// # Cancel safety
    /// None, some or all of the indexes are created, and the server may complete a build that it has begun. Call it again.
    ///
    /// # Errors
    /// With nothing written:
    ///
    /// - [`Unsupported`]: the pattern has several collections, and the server is a standalone.
    /// - [`SettingsMismatch`]: the catalog has other settings, or has none and the stored documents do not fit, unless you
    ///   [replace](EnsureIndexes::replace_settings) them. Or another repository [owns](crate::catalog#owners) a field or the
    ///   second collection.
    /// - [`IndexMismatch`]: an existing index conflicts.
    /// - [`UnsupportedCollation`]: the collation of a collection is not the simple one, so different ids could be equal.
    /// - [`Configuration`]: a collection is a view, a time series, capped or clustered.
    ///
    /// With other indexes created:
    ///
    /// - [`Corrupt`]: stored documents violate a unique index, which is not created: `verify()` names them.
    ///
    /// [`Unsupported`]: crate::ErrorKind::Unsupported
    /// [`SettingsMismatch`]: crate::ErrorKind::SettingsMismatch
    /// [`IndexMismatch`]: crate::ErrorKind::IndexMismatch
    /// [`UnsupportedCollation`]: crate::ErrorKind::UnsupportedCollation
    /// [`Configuration`]: crate::ErrorKind::Configuration
    /// [`Corrupt`]: crate::ErrorKind::Corrupt
    fn ensure_indexes(&self) -> EnsureIndexes<'_> {
        EnsureIndexes::new(self.managed())
    }

    /// Shards the collections on a sharded cluster, by the recommended [shard keys](Self::shard_keys), and does what
    /// [`ensure_indexes`](Self::ensure_indexes) does.
    ///
    /// The catalog is not sharded. Idempotent, and safe for concurrent calls. Call it instead of `ensure_indexes`, because
    /// the order of the steps matters.
    ///
    /// ```no_run
    /// # async fn f(repository: &dyn mongo_patterns::Repository) -> mongo_patterns::Result<()> {
    /// let ensured = repository.ensure_sharded().await?;
    /// for collection in ensured.collections {
    ///     println!("{} is sharded by {}", collection.namespace, collection.key);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`plan`](EnsureSharded::plan) returns its commands without a write. The user needs the role `clusterManager` on
    /// `admin`, and `readWrite` on the database.
    ///
    /// # Cost
    /// When everything exists, two round trips more than [`ensure_indexes`](Self::ensure_indexes). At most five more for
    /// each collection that is sharded now.
    ///
    /// # Sessions and transactions
    /// MongoDB does not allow it in a transaction.
    ///
    /// # Cancel safety
    /// It stops between two steps, and the server may complete the last one. Call it again: each step is idempotent.
    ///
    /// # Errors
    /// With nothing written:
    ///
    /// - [`Unsupported`]: the server is not the router of a sharded cluster.
    /// - [`UnsuitableShardKey`]: a collection is sharded by another key, or a unique index of your own does not start with
    ///   the shard key.
    /// - [`Unauthorized`]: the user may not read `config.collections`.
    /// - The errors of [`ensure_indexes`](Self::ensure_indexes).
    ///
    /// After the collections were sharded:
    ///
    /// - [`Corrupt`]: stored documents violate a unique index.
    /// - [`Unauthorized`]: the user lacks the privilege of a later step.
    /// - [`Contention`]: another client shards a collection, or builds an index of it, for longer than half a minute.
    ///
    /// [`Unsupported`]: crate::ErrorKind::Unsupported
    /// [`UnsuitableShardKey`]: crate::ErrorKind::UnsuitableShardKey
    /// [`Unauthorized`]: crate::ErrorKind::Unauthorized
    /// [`Corrupt`]: crate::ErrorKind::Corrupt
    /// [`Contention`]: crate::ErrorKind::Contention
    fn ensure_sharded(&self) -> EnsureSharded<'_> {
        EnsureSharded::new(self.managed())
    }

    /// Returns the collections that are sharded by a key under which the pattern does not work.
    ///
    /// On a replica set or a standalone, none. `verify()` checks documents, and does not include it.
    ///
    /// ```no_run
    /// # async fn f(repository: &dyn mongo_patterns::Repository) -> mongo_patterns::Result<()> {
    /// for unsuitable in repository.verify_shard_keys().await? {
    ///     println!("{unsuitable}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, and one more on a sharded cluster.
    ///
    /// # Errors
    /// - [`Unauthorized`](crate::ErrorKind::Unauthorized): on a sharded cluster, the user may not read `config.collections`.
    fn verify_shard_keys(&self) -> VerifyShardKeys<'_> {
        VerifyShardKeys::new(self.managed())
    }
}

/// What only the repositories of this library have. The facade does not export it.
#[doc(hidden)]
pub mod sealed {
    /// See the module.
    pub trait Sealed {}
}

/// A validator for a collection; returned by [`Repository::validators`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Validator {
    /// Database and collection.
    pub namespace: Namespace,
    /// What `create_collection().validator(..)` and the command `collMod` take.
    pub document: Document,
}

impl Validator {
    /// Creates the validator of a collection.
    #[doc(hidden)]
    pub fn new(namespace: Namespace, document: Document) -> Self {
        Self { namespace, document }
    }
}
