use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::array::{self, Encoded};
use mongo_patterns_core::error::duplicate_key;
use mongo_patterns_core::key_locks::LockedKeys;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, Error, ErrorKind, Result, document_id, send, size, transaction};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::raw::CString;
use mongodb::bson::{self, Bson, Document, RawBsonRef, RawDocumentBuf, cstr, doc};
use mongodb::options::{ReadConcern, ReadPreference, SelectionCriteria};
use mongodb::{ClientSession, Collection};
use serde::Serialize;

use crate::form::document::elements_of;
use crate::form::equality as same;
use crate::form::overflow::extras_documents;
use crate::query;
use crate::repository::OutlierRepository;
use crate::repository::Shared;
use crate::settings::Settings;
use crate::write::push::Store;

impl<D: Serialize, E> OutlierRepository<D, E> {
    /// Inserts a document. One with more elements than the threshold is split: the first ones stay in its array, the
    /// rest goes to its extras, and the flag is set. Where there are none to spill, the flag is not.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # use mongodb::bson::{Document, doc};
    /// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
    /// let book = doc! { "_id": 2, "title": "The Wooden Amulet", "customers_purchased": ["user00", "user01"] };
    /// let inserted = books.insert(&book).await?;
    /// println!("{} customers in the book, {} in extras", inserted.inline, inserted.overflow);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// On a replica set or a cluster that is one transaction: all is stored, or nothing. On a standalone the document goes
    /// first. When that fails in the middle, the error says [how many elements](Error::stored_count) are stored: a prefix, which
    /// reads correctly.
    ///
    /// # Cost
    /// One round trip. For a document that is split, some four, or more for more than 100 extras documents.
    ///
    /// # Cancel safety
    /// The document is stored or not, as a whole. On a standalone, and in a session without a transaction, a document
    /// that is split may be stored with a prefix of its elements: [`count`](Self::count) says how many. Call it again:
    /// `AlreadyExists` says that it is stored. Without an `_id`, a second call may store it twice. A [transaction of
    /// the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing stored: [`AlreadyExists`](ErrorKind::AlreadyExists) when there is a document with its `_id`,
    /// [`DuplicateKey`](ErrorKind::DuplicateKey) when a unique index of your own refuses it,
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) when its array field is no array, its `_id` cannot be one, an
    /// element is undefined, or it is an array or in it twice where elements are [unique](crate::OutlierRepositoryBuilder::unique_elements),
    /// [`Encode`](ErrorKind::Encode), [`TooLarge`](ErrorKind::TooLarge), [`IndexMissing`](ErrorKind::IndexMissing) for a
    /// document that is split while the extras have no index, and [`Corrupt`](ErrorKind::Corrupt) when there
    /// are extras of its `_id` already, which belong to nobody: [`repair`](Self::repair) them.
    pub fn insert<'a>(&'a self, document: &'a D) -> Insert<'a, D> {
        Insert {
            shared: self.shared(),
            document,
            session: None,
        }
    }
}

/// Inserts a document; made by [`OutlierRepository::insert`].
///
/// ```no_run
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::{ClientSession, bson::{Document, doc}};
/// # async fn f(
/// #     books: OutlierRepository<Document, String>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let book = doc! { "_id": 2, "title": "The Wooden Amulet", "customers_purchased": [] };
/// books.insert(&book).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct Insert<'a, D> {
    shared: &'a Shared,
    document: &'a D,
    session: Option<&'a mut ClientSession>,
}

mongo_patterns_core::redacted_debug!(Insert<'_, D>);

/// What was inserted.
///
/// ```no_run
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::bson::Document;
/// # async fn f(books: OutlierRepository<Document, String>, book: Document) -> mongo_patterns_core::Result<()> {
/// let inserted = books.insert(&book).await?;
/// println!("{}: {} customers in it, {} in extras", inserted.id, inserted.inline, inserted.overflow);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Inserted {
    /// The `_id` of the document: a new object id where it had none.
    pub id: Bson,
    /// How many of its elements are in the array.
    pub inline: u64,
    /// How many of them are in extras.
    pub overflow: u64,
}

impl<'a, D> Insert<'a, D> {
    /// Inserts in the caller's session. Where no transaction is under way in it, a document that is split is inserted in
    /// a transaction of its own, which later reads in the session see.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a, D: Serialize> IntoFuture for Insert<'a, D> {
    type Output = Result<Inserted>;
    type IntoFuture = ActionFuture<'a, Inserted>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            shared,
            document,
            session,
        } = self;
        let split = Split::of(&shared.settings, document);
        run(shared.operation("insert"), |_| async move {
            let split = split?;
            let mut session = Session::of_caller(session).await?;
            insert(shared, &split, session.as_mut()).await?;
            Ok(Inserted {
                id: split.id,
                inline: split.inline as u64,
                overflow: split.rest.len() as u64,
            })
        })
    }
}

/// A new document, and the elements that do not stay in it.
struct Split {
    id: Bson,
    main: RawDocumentBuf,
    inline: usize,
    rest: Vec<Encoded>,
}

impl Split {
    fn of<D: Serialize>(settings: &Settings, document: &D) -> Result<Self> {
        let refused = |message| Error::new(ErrorKind::InvalidArgument, message);
        let whole = bson::serialize_to_raw_document_buf(document).map_err(|error| {
            let message = "the document cannot be written as BSON, nothing was stored: change its type";
            Error::from_driver(ErrorKind::Encode, message, error.into())
        })?;
        let (array, flag) = (settings.array.as_str(), settings.flag.as_str());
        let elements: Vec<RawBsonRef<'_>> = elements_of(&whole, array)
            .map_err(|_| {
                refused("the array field of the document is not an array, nothing was stored: change its type")
            })?
            .collect();
        for element in &elements {
            same::check_element(settings, *element)?;
        }
        let inline = elements.len().min(settings.threshold as usize);
        let encoded = |element: &RawBsonRef<'_>| Encoded::one(element);
        let rest: Vec<Encoded> = elements[inline..].iter().map(encoded).collect::<Result<_>>()?;
        array::check_sizes(1, rest.iter())?;
        if settings.unique && same::has_doubles(&elements) {
            return Err(refused(
                "an element is in the array twice, nothing was stored: elements are unique here",
            ));
        }
        let kept: Vec<Encoded> = elements[..inline].iter().map(encoded).collect::<Result<_>>()?;
        let id = whole.get("_id").ok().flatten();
        let id = match id {
            Some(id) => DocumentId::new(Bson::try_from(id).map_err(mongodb::error::Error::from)?)?.into_bson(),
            None => Bson::ObjectId(ObjectId::new()),
        };
        let mut main = RawDocumentBuf::new();
        main.append(
            cstr!("_id"),
            bson::RawBson::try_from(id.clone()).map_err(mongodb::error::Error::from)?,
        );
        let mut has_flag = false;
        for field in &whole {
            let (name, value) = field.map_err(mongodb::error::Error::from)?;
            match name.as_str() {
                "_id" => {}
                name if name == array && !rest.is_empty() => {
                    main = array::append_array(main, array, kept.iter())?;
                }
                name if name == flag => {
                    has_flag = true;
                    main.append(
                        CString::try_from(flag).map_err(mongodb::error::Error::from)?,
                        !rest.is_empty(),
                    );
                }
                _ => main.append(name, value),
            }
        }
        if !has_flag && !rest.is_empty() {
            main.append(CString::try_from(flag).map_err(mongodb::error::Error::from)?, true);
        }
        size::check(&main)?;
        Ok(Self { id, main, inline, rest })
    }
}

async fn insert(shared: &Shared, split: &Split, session: Option<&mut Session<'_>>) -> Result<()> {
    if split.rest.is_empty() {
        return insert_main(shared, split, session).await;
    }
    shared.check_indexes().await?;
    let Shared {
        main, settings, locks, ..
    } = shared;
    let locked = match session.as_deref().is_some_and(Session::is_in_transaction) {
        true => LockedKeys::default(),
        false => locks.exclusive(&document_id::text(&split.id)).await,
    };
    let in_one = transaction::run(
        main,
        &settings.retry,
        session,
        locked,
        (shared, split),
        |session, (shared, split)| {
            Box::pin(async move {
                insert_main(shared, split, Some(&mut *session)).await?;
                insert_extras(shared, split, Some(session)).await
            })
        },
    );
    match in_one.await {
        Err(error) if error.kind() == ErrorKind::Unsupported => insert_in_steps(shared, split).await,
        outcome => outcome,
    }
}

/// On a standalone: what is stored when it ends in the middle is a prefix of the elements, with a flag.
async fn insert_in_steps(shared: &Shared, split: &Split) -> Result<()> {
    let Shared {
        main,
        overflow,
        settings,
        locks,
        ..
    } = shared;
    let _locked = locks.exclusive(&document_id::text(&split.id)).await;
    let has_extras = has(overflow, query::extras_of(settings, &split.id)).await?;
    if has_extras && !has(main, query::by_id(&split.id)).await? {
        return Err(orphans());
    }
    insert_main(shared, split, None).await?;
    let mut store = Store::new(shared, &split.id, &split.rest, false);
    let outcome = store.run(None).await;
    outcome.map_err(|error| match error.kind() {
        // Deleted meanwhile, with its elements.
        ErrorKind::NotFound => error,
        _ => error.with_stored((split.inline + store.stored()) as u64),
    })
}

async fn has(collection: &Collection<RawDocumentBuf>, filter: Document) -> Result<bool> {
    let find = collection.find_one(filter).projection(doc! { "_id": 1 });
    let find = find.selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary));
    Ok(find.read_concern(ReadConcern::local()).await?.is_some())
}

async fn insert_main(shared: &Shared, split: &Split, session: Option<&mut Session<'_>>) -> Result<()> {
    let inserted = send::insert_one(session, &shared.main, &split.main, None).await;
    let Err(error) = inserted else { return Ok(()) };
    // Without the driver's error, by which a transaction would be run again.
    Err(match duplicate_key(&error) {
        Some(duplicate) if duplicate.index.as_deref() == Some("_id_") => Error::new(
            ErrorKind::AlreadyExists,
            "there is a document with this `_id`, nothing was stored: push to it, or insert one with another `_id`",
        ),
        Some(_) => Error::new(
            ErrorKind::DuplicateKey,
            "a unique index of your own refused the document, nothing was stored",
        ),
        None => error.into(),
    })
}

async fn insert_extras(shared: &Shared, split: &Split, mut session: Option<&mut Session<'_>>) -> Result<()> {
    let (mut rest, mut seq) = (split.rest.as_slice(), 0);
    while !rest.is_empty() {
        let (documents, counts) = extras_documents(shared, &split.id, seq, rest)?;
        let inserted = send::insert_many(session.as_deref_mut(), &shared.overflow, &documents, None).await;
        if let Err(error) = inserted {
            return Err(match duplicate_key(&error) {
                Some(_) => orphans(),
                None => error.into(),
            });
        }
        rest = &rest[counts.iter().sum::<usize>()..];
        seq += i32::try_from(documents.len()).unwrap_or(i32::MAX);
    }
    Ok(())
}

fn orphans() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "there are extras of this `_id` that belong to no document, nothing was stored: repair them",
    )
}
