use std::marker::PhantomData;
use std::pin::Pin;

use futures::stream::{iter, once};
use futures::{Stream, StreamExt, TryStreamExt};
use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::send::find_all;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, Error, IntoId, Result, send};
use mongodb::ClientSession;
use mongodb::bson::{Document, doc};
use mongodb::options::{FindOneOptions, FindOptions};
use serde::de::DeserializeOwned;

use crate::form::document::{decode_elements, elements_of, is_flagged};
use crate::query;
use crate::repository::OutlierRepository;
use crate::repository::Shared;
use crate::settings::Settings;
use crate::write::push::{integer, not_found};

impl<D, E: DeserializeOwned> OutlierRepository<D, E> {
    /// The elements of a document, in order: those of its array, then those of its extras. Awaited it gives a `Vec`, and
    /// [`stream`](Elements::stream) gives a stream that holds a few extras documents at a time.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
    /// // The third page of 20 customers.
    /// let customers: Vec<String> = books.elements(2).skip(40).limit(20).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip where the array has all of them, else one more for each 16 MB of extras. With a
    /// [`limit`](Elements::limit), or a [`skip`](Elements::skip) beyond the array, one more that tells how many elements each
    /// extras document has; then only those are sent that have wanted elements.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`NotFound`](mongo_patterns_core::ErrorKind::NotFound),
    /// [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument) for what cannot be an `_id`,
    /// [`Decode`](mongo_patterns_core::ErrorKind::Decode), and [`Corrupt`](mongo_patterns_core::ErrorKind::Corrupt) when
    /// elements are no array.
    pub fn elements(&self, id: impl IntoId) -> Elements<'_, E> {
        Elements {
            shared: self.shared(),
            id: DocumentId::new(id),
            skip: 0,
            limit: None,
            session: None,
            types: PhantomData,
        }
    }
}

/// Reads elements; made by [`OutlierRepository::elements`].
///
/// ```no_run
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     books: OutlierRepository<Document, String>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let page: Vec<String> = books.elements(2).skip(40).limit(20).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited, or its stream is read"]
pub struct Elements<'a, E> {
    shared: &'a Shared,
    id: Result<DocumentId>,
    skip: usize,
    limit: Option<usize>,
    session: Option<&'a mut ClientSession>,
    types: PhantomData<fn() -> E>,
}

mongo_patterns_core::redacted_debug!(Elements<'_, E>);

/// A stream of elements; made by [`Elements::stream`].
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongo_patterns_outlier::action::ElementStream;
/// # use mongodb::bson::Document;
/// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
/// let mut customers: ElementStream<'_, String> = books.elements(2).stream();
/// while let Some(customer) = customers.try_next().await? {
///     println!("{customer}");
/// }
/// # Ok(())
/// # }
/// ```
pub type ElementStream<'a, E> = Pin<Box<dyn Stream<Item = Result<E>> + Send + 'a>>;

impl<'a, E: DeserializeOwned + Send + 'a> Elements<'a, E> {
    /// Passes over the first elements.
    pub fn skip(mut self, elements: u64) -> Self {
        self.skip = usize::try_from(elements).unwrap_or(usize::MAX);
        self
    }

    /// Ends after so many elements.
    pub fn limit(mut self, elements: u64) -> Self {
        self.limit = Some(usize::try_from(elements).unwrap_or(usize::MAX));
        self
    }

    /// Reads in the caller's session. Only for what is awaited: a stream cannot hold it.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }

    /// The elements as a stream. It sends nothing before it is read, and ends after an error.
    ///
    /// # Cancel safety
    /// Cancel-safe: the stream can be polled again after the future of an item was dropped, and loses none. When the
    /// stream itself is dropped while it reads, a [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    pub fn stream(self) -> ElementStream<'a, E> {
        let operation = self.shared.operation("elements");
        let (shared, limit) = (self.shared, self.limit.unwrap_or(usize::MAX));
        let start = async move {
            let Start { elements, extras } = self.start(None).await?;
            let inline = iter(elements.into_iter().map(Ok));
            let Some(extras) = extras else {
                return Ok::<_, Error>(inline.left_stream());
            };
            let mut skip = extras.skip;
            let (filter, options) = extras.query(&shared.settings);
            let cursor = shared.overflow.find(filter).with_options(options).await?;
            let overflow = cursor.map_err(Error::from).and_then(move |document| {
                let field = shared.settings.extras.as_str();
                let elements = decode_elements(&document, field, std::mem::take(&mut skip));
                async move { Ok(iter(elements?.into_iter().map(Ok))) }
            });
            Ok(inline.chain(overflow.try_flatten()).right_stream())
        };
        let elements = once(start).try_flatten().take(limit);
        Box::pin(elements.map_err(move |error: Error| operation.name(error)))
    }

    /// Reads the main document, and finds out which extras are wanted.
    async fn start(self, mut session: Option<&mut Session<'_>>) -> Result<Start<E>> {
        let id = self.id?.into_bson();
        let settings = &self.shared.settings;
        let parts = doc! { settings.array.as_str(): 1, settings.flag.as_str(): 1 };
        let parts = FindOneOptions::builder().projection(parts).build();
        let main = send::find_one(session.as_deref_mut(), &self.shared.main, query::by_id(&id), parts).await?;
        let main = main.ok_or_else(not_found)?;
        let array = settings.array.as_str();
        let inline = elements_of(&main, array)?.count();
        let mut elements: Vec<E> = decode_elements(&main, array, self.skip)?;
        if let Some(limit) = self.limit {
            elements.truncate(limit);
        }
        let left = self.limit.map(|limit| limit - elements.len());
        if !is_flagged(settings, &main) || left == Some(0) {
            return Ok(Start { elements, extras: None });
        }
        let skip = self.skip.saturating_sub(inline);
        let mut extras = Extras {
            filter: query::extras_of(settings, &id),
            first: 0,
            documents: None,
            skip,
        };
        if skip > 0 || left.is_some() {
            let sizes = sizes(self.shared, extras.filter.clone(), session).await?;
            extras.narrow(&sizes, left);
        }
        let extras = (extras.documents != Some(0)).then_some(extras);
        Ok(Start { elements, extras })
    }
}

/// The elements of the main document that are wanted, and where the others are.
struct Start<E> {
    elements: Vec<E>,
    extras: Option<Extras>,
}

/// Which of the extras have wanted elements.
struct Extras {
    filter: Document,
    /// How many documents before the first of them.
    first: u64,
    /// How many they are; all where it is not known.
    documents: Option<i64>,
    /// How many elements of the first one are passed over.
    skip: usize,
}

impl Extras {
    fn narrow(&mut self, sizes: &[usize], left: Option<usize>) {
        let mut sizes = sizes.iter().copied();
        let mut wanted = 0;
        for size in sizes.by_ref() {
            if self.skip < size {
                wanted = size - self.skip;
                break;
            }
            self.skip -= size;
            self.first += 1;
        }
        let mut documents = i64::from(wanted > 0);
        for size in sizes {
            if left.is_some_and(|left| wanted >= left) {
                break;
            }
            wanted += size;
            documents += 1;
        }
        self.documents = Some(documents);
    }

    fn query(&self, settings: &Settings) -> (Document, FindOptions) {
        let options = FindOptions::builder()
            .sort(doc! { settings.seq.as_str(): 1 })
            .skip(self.first)
            .limit(self.documents);
        (self.filter.clone(), options.build())
    }
}

/// How many elements each of the extras has, in order.
async fn sizes(shared: &Shared, filter: Document, session: Option<&mut Session<'_>>) -> Result<Vec<usize>> {
    let settings = &shared.settings;
    let path = format!("${}", settings.extras);
    let size = doc! { "$cond": [{ "$isArray": &path }, { "$size": &path }, 0] };
    let options = FindOptions::builder()
        .sort(doc! { settings.seq.as_str(): 1 })
        .projection(doc! { "_id": 0, "size": size })
        .build();
    let rows = find_all(session, &shared.overflow, filter, options).await?;
    let sizes = rows.iter().map(|row| integer(row, "size"));
    Ok(sizes
        .map(|size| size.and_then(|size| size.try_into().ok()).unwrap_or(0))
        .collect())
}

impl<'a, E: DeserializeOwned + Send + 'a> IntoFuture for Elements<'a, E> {
    type Output = Result<Vec<E>>;
    type IntoFuture = ActionFuture<'a, Vec<E>>;

    fn into_future(mut self) -> Self::IntoFuture {
        let shared = self.shared;
        run(shared.operation("elements"), move |_| async move {
            let limit = self.limit.unwrap_or(usize::MAX);
            let mut session = Session::of_caller(self.session.take()).await?;
            let Start { mut elements, extras } = self.start(session.as_mut()).await?;
            if let Some(mut extras) = extras {
                let (filter, options) = extras.query(&shared.settings);
                for document in find_all(session.as_mut(), &shared.overflow, filter, options).await? {
                    let skip = std::mem::take(&mut extras.skip);
                    elements.extend(decode_elements::<E>(&document, shared.settings.extras.as_str(), skip)?);
                }
            }
            elements.truncate(limit);
            Ok(elements)
        })
    }
}
