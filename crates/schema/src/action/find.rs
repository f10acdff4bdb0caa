use std::marker::PhantomData;

use futures::{Stream, StreamExt, TryStreamExt, stream};
#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::*;
use mongo_patterns_core::action::{ActionStream, check_stream, limited, of_call};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::migration::and;
use mongo_patterns_core::send::Rows;
use mongo_patterns_core::stored::id_of;
use mongo_patterns_core::{Error, ErrorKind, Result, send};
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::options::{FindOneOptions, FindOptions};
use serde::de::DeserializeOwned;

use crate::form::{decode, known_version_of};
use crate::repository::{SchemaRepository, Shared};
use crate::{convert, query};

impl<D> SchemaRepository<D> {
    /// Finds documents of the newest version by a filter, and documents of older versions by filters of [their
    /// own](Find::older).
    ///
    /// ```no_run
    /// # use mongo_patterns::schema::SchemaRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(contacts: SchemaRepository<Document>) -> mongo_patterns::Result<()> {
    /// let filter = doc! { "contactInfo.cell": "+1 555" };
    /// for contact in contacts.find(filter).older(1, doc! { "cell": "+1 555" }).limit(20).await? {
    ///     println!("{contact}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Each older version with a step needs a filter, unless no document has this version: a document that is not migrated
    /// would be missed. An empty filter matches all documents of a version. Older documents are converted, and stay stored
    /// as they are.
    ///
    /// If the filter of the newest version matches a document that [`get`](Self::get) refuses by its version, the call ends
    /// with the same error.
    ///
    /// Awaited, it returns all documents in memory; [`stream`](Find::stream) reads them one after another.
    ///
    /// # Cost
    /// One round trip for each batch of the cursor. One more if an older version has no filter, and one for each older
    /// version with a step on the server. It needs an index that serves each filter. Leave the version out of the first
    /// filter: it is not compared for equality.
    ///
    /// # Errors
    /// - [`NotMigrated`]: there are documents of an older version without a filter, or the version of a found document has
    ///   no step.
    /// - [`NewerVersion`]: a document is of a later release.
    /// - [`Corrupt`]: its version field has another value.
    /// - [`InvalidArgument`]: a filter is for a version without a step.
    /// - The error of a step.
    pub fn find(&self, filter: Document) -> Find<'_, D> {
        Find {
            shared: self.shared(),
            filter,
            older: Vec::new(),
            options: FindOptions::default(),
            limit: None,
            types: PhantomData,
            session: None,
            max_time: None,
        }
    }
}

/// How many documents of a stream are converted together.
const TOGETHER: usize = 100;

mongo_patterns_core::action! {
    /// Finds documents; returned by [`SchemaRepository::find`].
    pub struct Find<'a, D> {
        shared: &'a Shared,
        filter: Document,
        older: Vec<(u32, Document)>,
        options: FindOptions,
        limit: Option<u32>,
        types: PhantomData<fn() -> D>,
    }
    with session, max_time;
    "find" => Vec<D> where D: DeserializeOwned + Send + 'a
}

impl<D> Find<'_, D> {
    /// Finds documents of an older version by a filter on their fields.
    pub fn older(mut self, version: u32, filter: Document) -> Self {
        self.older.push((version, filter));
        self
    }

    mongo_patterns_core::setters! {
        /// Sets the order, by fields of the stored documents. A field that older documents lack counts as null.
        sort(fields: Document) => options.sort = Some(fields);

        /// Sets the most documents to find, at least 1. All by default.
        limit(documents: u32) => limit = Some(documents);
    }

    fn all_versions(&self) -> Result<Document> {
        let settings = &self.shared.settings;
        let of_others = and(query::not_older(settings), self.filter.clone());
        if self.older.is_empty() {
            return Ok(of_others);
        }
        let mut any = vec![of_others];
        for (version, filter) in &self.older {
            if !settings.steps.older().contains(version) {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    format!(
                        "version {version} has no step, nothing was read: give filters for the versions that the builder has steps for"
                    ),
                ));
            }
            any.push(and(
                query::of_versions(settings, std::iter::once(*version)),
                filter.clone(),
            ));
        }
        Ok(doc! { "$or": any })
    }

    /// Checks that there are no documents of the versions without a filter.
    async fn check_others(&self, conn: &mut Conn<'_>) -> Result<()> {
        let (collection, settings) = (&self.shared.collection, &self.shared.settings);
        let has_filter = |version: &u32| self.older.iter().any(|(with, _)| with == version);
        let mut others = settings.steps.older().filter(|version| !has_filter(version)).peekable();
        if others.peek().is_none() {
            return Ok(());
        }
        let options = FindOneOptions::builder()
            .projection(doc! { settings.version.as_str(): 1 })
            .build();
        let other = conn
            .find_one(collection, query::of_versions(settings, others), options)
            .await?;
        other.map_or(Ok(()), |other| {
            // The filter matches an array of versions, too, which is none.
            known_version_of(settings, &other)?;
            let error = Error::new(
                ErrorKind::NotMigrated,
                "there are documents of an older version for which the call has no filter, and they would be missed, nothing was read: call migrate(), or give a filter by older(..)",
            );
            Err(error.of_document(id_of(&other), settings.version.as_str()))
        })
    }
}

impl<'a, D: DeserializeOwned + Send + 'a> Find<'a, D> {
    async fn execute(mut self) -> Result<Vec<D>> {
        let filter = self.all_versions()?;
        limited(&mut self.options, self.limit)?;
        let max_time = self.max_time.or(self.shared.settings.max_time);
        let mut conn = Conn::to_read(self.session.take(), max_time).await?;
        self.check_others(&mut conn).await?;
        let found = conn.find_all(&self.shared.collection, filter, self.options).await?;
        let documents = convert::read(self.shared, found, &mut conn).await?;
        documents.iter().map(|document| decode(document)).collect()
    }

    /// Returns the documents as a stream, which sends nothing before it is polled. With a session it ends with
    /// [`InvalidArgument`](ErrorKind::InvalidArgument).
    pub fn stream(self) -> ActionStream<'a, D> {
        let (shared, call) = (self.shared, self.shared.operation("find"));
        let max_time = self.max_time.or(shared.settings.max_time);
        let start = async move {
            let filter = self.all_versions()?;
            check_stream(self.session.as_deref())?;
            self.check_others(&mut Conn::to_read(None, max_time).await?).await?;
            let mut options = self.options;
            limited(&mut options, self.limit)?;
            options.max_time = max_time;
            let rows = send::find_rows(&shared.collection, filter, options).await?;
            Ok::<_, Error>(in_parts(rows))
        };
        let converted = stream::once(start).try_flatten().and_then(move |part| async move {
            let mut conn = Conn::to_read(None, max_time).await?;
            let documents = convert::read(shared, part, &mut conn).await?;
            let documents: Vec<_> = documents.iter().map(|document| decode::<D>(document)).collect();
            Ok(stream::iter(documents))
        });
        of_call(call, converted.try_flatten())
    }
}

/// Returns the documents that have arrived together, and then the error, if there is one.
fn in_parts(rows: Rows) -> impl Stream<Item = Result<Vec<RawDocumentBuf>>> {
    rows.ready_chunks(TOGETHER).flat_map(|part| {
        let (mut documents, mut failed) = (Vec::new(), None);
        for row in part {
            match row {
                Ok(document) => documents.push(document),
                Err(error) => failed = Some(Err(error.into())),
            }
        }
        stream::iter(std::iter::once(Ok(documents)).chain(failed))
    })
}
