use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mongo_patterns_core::Result;
use mongo_patterns_core::action::Call;
use mongo_patterns_core::index::IndexPlan;
use mongo_patterns_core::key_locks::KeyLocks;
use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf};

use crate::builder::OutlierRepositoryBuilder;
use crate::form::validator;
use crate::settings::Settings;

/// A collection of documents with an array each, and a second one for what is beyond the threshold.
///
/// `D` is the type of the whole main document, its array included, and `E` that of an element. A clone is cheap. See
/// the [crate](crate) for the documents and the guarantees.
///
/// Make one for a collection and clone it: the clones keep writes away from a transaction of theirs, on which they would
/// wait with the connections that it needs.
///
/// ```no_run
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::bson::Document;
/// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
/// books.ensure_indexes().await?;
/// let for_a_task = books.clone();
/// tokio::spawn(async move { for_a_task.push(2, &"user00".to_owned()).await });
/// # Ok(())
/// # }
/// ```
pub struct OutlierRepository<D, E> {
    shared: Arc<Shared>,
    types: PhantomData<fn() -> (D, E)>,
}

/// What does not depend on the types of document and element.
pub(crate) struct Shared {
    pub(crate) main: Collection<RawDocumentBuf>,
    pub(crate) overflow: Collection<RawDocumentBuf>,
    pub(crate) settings: Settings,
    pub(crate) locks: KeyLocks,
    /// Locked by each push from its first command to its last, also while it has unlocked the document to open overflow
    /// documents. A task that takes both takes this one before [`locks`](Self::locks).
    pub(crate) pushes: KeyLocks,
    /// Closed by the one task that opens extras of a document.
    pub(crate) openers: KeyLocks,
    /// Whether the indexes of the extras have been seen.
    pub(crate) has_indexes: AtomicBool,
}

mongo_patterns_core::redacted_debug!(
    Shared,
    |shared| "collection" = shared.main.namespace(),
    "extras_collection" = shared.overflow.namespace()
);

impl Shared {
    /// Checks, once for a repository, that the indexes of the extras exist, in a round trip outside of any session. A
    /// hint tells it of one of them, and only where there is a command that takes it.
    pub(crate) async fn check_indexes(&self) -> Result<()> {
        if !self.has_indexes.load(Ordering::Relaxed) {
            self.settings
                .index_plan(self.overflow.name())
                .check(&self.overflow)
                .await?;
            self.has_indexes.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    pub(crate) fn operation(&self, operation: &'static str) -> Call<'_> {
        Call {
            pattern: "outlier",
            operation,
            collection: &self.main,
        }
    }
}

impl<D, E> OutlierRepository<D, E> {
    /// Starts to build a repository over the collection of the main documents and that of the extras. Their read
    /// preferences, read concerns and write concerns are used.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # use mongodb::{Database, bson::Document};
    /// # struct Book;
    /// # fn f(database: Database) -> mongo_patterns_core::Result<()> {
    /// let sales = database.collection::<Document>("sales");
    /// let extra_sales = database.collection::<Document>("extra_sales");
    /// let books = OutlierRepository::<Book, String>::builder(sales, extra_sales)
    ///     .array_field("customers_purchased")
    ///     .parent_field("book_id")
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::needless_pass_by_value)] // the builder keeps the collections, as ones of another type
    pub fn builder<M: Send + Sync, O: Send + Sync>(
        main: Collection<M>,
        overflow: Collection<O>,
    ) -> OutlierRepositoryBuilder<D, E> {
        OutlierRepositoryBuilder::new(main.clone_with_type(), overflow.clone_with_type())
    }

    pub(crate) fn new(
        main: Collection<RawDocumentBuf>,
        overflow: Collection<RawDocumentBuf>,
        settings: Settings,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                main,
                overflow,
                settings,
                locks: KeyLocks::default(),
                pushes: KeyLocks::default(),
                openers: KeyLocks::default(),
                has_indexes: AtomicBool::new(false),
            }),
            types: PhantomData,
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The collection of the main documents, for what this crate does not do.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # use mongodb::bson::{Document, doc};
    /// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
    /// let outliers = books.collection().count_documents(doc! { "has_extras": true }).await?;
    /// books.collection().update_one(doc! { "_id": 2 }, doc! { "$set": { "year": 2023 } }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn collection(&self) -> &Collection<RawDocumentBuf> {
        &self.shared.main
    }

    /// The collection of the extras.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
    /// let extras = books.extras_collection().estimated_document_count().await?;
    /// println!("{extras} extras documents");
    /// # Ok(())
    /// # }
    /// ```
    pub fn extras_collection(&self) -> &Collection<RawDocumentBuf> {
        &self.shared.overflow
    }

    /// How many elements stay in the main document, at most.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # use mongodb::bson::Document;
    /// # fn f(books: OutlierRepository<Document, String>) {
    /// println!("a list of 100 books has {} customers at most", 100 * books.threshold());
    /// # }
    /// ```
    pub fn threshold(&self) -> u32 {
        self.shared.settings.threshold
    }

    /// The indexes of the extras that the repository relies on: a unique one on parent and place. With
    /// [unique elements](OutlierRepositoryBuilder::unique_elements), a second one, unique, on parent and elements. The main
    /// documents need none but `_id`.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
    /// println!("{}", books.indexes()); // the calls of createIndex, for a shell
    /// books.indexes().check(books.extras_collection()).await?; // an error where one is missing
    /// # Ok(())
    /// # }
    /// ```
    pub fn indexes(&self) -> IndexPlan {
        let Shared { overflow, settings, .. } = &*self.shared;
        settings.index_plan(overflow.name())
    }

    /// A validator for the main documents: an array up to the threshold, and a flag that is a boolean.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # use mongodb::{Database, bson::doc};
    /// # async fn f(books: OutlierRepository<(), String>, database: Database) -> mongo_patterns_core::Result<()> {
    /// // A new collection, or one that is there.
    /// database.create_collection("sales").validator(books.validator()).await?;
    /// database.run_command(doc! { "collMod": "sales", "validator": books.validator() }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It is for `create_collection().validator(..)` or the command `collMod`. With it, a program that pushes to the array
    /// past the repository is refused. Give it to the server after [`migrate_existing`](Self::migrate_existing), or with the validation level
    /// `moderate`.
    pub fn validator(&self) -> Document {
        validator::main(&self.shared.settings)
    }

    /// A validator for the extras: their form, and that the count is the number of elements.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # use mongodb::{Database, bson::doc};
    /// # async fn f(books: OutlierRepository<(), String>, database: Database) -> mongo_patterns_core::Result<()> {
    /// // A new collection, or one that is there.
    /// database.create_collection("extra_sales").validator(books.extras_validator()).await?;
    /// database.run_command(doc! { "collMod": "extra_sales", "validator": books.extras_validator() }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn extras_validator(&self) -> Document {
        validator::overflow(&self.shared.settings)
    }
}

impl<D, E> Clone for OutlierRepository<D, E> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            types: PhantomData,
        }
    }
}

impl<D, E> fmt::Debug for OutlierRepository<D, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutlierRepository")
            .field("collection", &self.shared.main.namespace())
            .field("extras_collection", &self.shared.overflow.namespace())
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}
