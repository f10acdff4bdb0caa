use std::marker::PhantomData;

use mongo_patterns_core::{Error, ErrorKind, FieldName, Result, RetryPolicy};
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;
use mongodb::options::Acknowledgment;

use crate::repository::OutlierRepository;
use crate::settings::{self, Settings};

/// Builds an [`OutlierRepository`]: names, threshold and cap.
///
/// ```no_run
/// # use mongo_patterns_core::RetryPolicy;
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::{Collection, bson::Document};
/// # use std::time::Duration;
/// # async fn f(
/// #     books: OutlierRepository<Document, String>,
/// #     sales: Collection<Document>,
/// #     extra_sales: Collection<Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let books = OutlierRepository::<Document, String>::builder(sales, extra_sales)
///     .array_field("customers_purchased")
///     .flag_field("has_extras")
///     .parent_field("book_id")
///     .extras_field("customers_purchased_extra")
///     .seq_field("seq")
///     .count_field("count")
///     .threshold(50)
///     .max_extras_elements(500)
///     .unique_elements()
///     .retry(RetryPolicy::default().with_max_elapsed(Duration::from_secs(5)))
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until build() is called"]
pub struct OutlierRepositoryBuilder<D, E> {
    main: Collection<RawDocumentBuf>,
    overflow: Collection<RawDocumentBuf>,
    array: Option<String>,
    flag: String,
    parent: Option<String>,
    extras: Option<String>,
    seq: String,
    count: String,
    threshold: u32,
    max_extras_elements: u32,
    unique: bool,
    retry: RetryPolicy,
    types: PhantomData<fn() -> (D, E)>,
}

mongo_patterns_core::redacted_debug!(OutlierRepositoryBuilder<D, E>, |this| "collection" = this.main.namespace());

impl<D, E> OutlierRepositoryBuilder<D, E> {
    pub(crate) fn new(main: Collection<RawDocumentBuf>, overflow: Collection<RawDocumentBuf>) -> Self {
        Self {
            main,
            overflow,
            array: None,
            flag: "has_extras".to_owned(),
            parent: None,
            extras: None,
            seq: "seq".to_owned(),
            count: "count".to_owned(),
            threshold: 50,
            max_extras_elements: 500,
            unique: false,
            retry: RetryPolicy::default(),
            types: PhantomData,
        }
    }

    /// The array field of the main document, such as `customers_purchased`. Required.
    pub fn array_field(mut self, name: impl Into<String>) -> Self {
        self.array = Some(name.into());
        self
    }

    /// The field of an extras document that holds the `_id` of its main document, such as `book_id`. Required.
    pub fn parent_field(mut self, name: impl Into<String>) -> Self {
        self.parent = Some(name.into());
        self
    }

    /// The field of the main document that says that there are extras; `has_extras` by default.
    pub fn flag_field(mut self, name: impl Into<String>) -> Self {
        self.flag = name.into();
        self
    }

    /// The array field of an extras document; by default that of the main document with `_extra` after it, as in the
    /// manual: `customers_purchased_extra`.
    pub fn extras_field(mut self, name: impl Into<String>) -> Self {
        self.extras = Some(name.into());
        self
    }

    /// The field of an extras document that holds its place, from 0; `seq` by default.
    pub fn seq_field(mut self, name: impl Into<String>) -> Self {
        self.seq = name.into();
        self
    }

    /// The field of an extras document that holds the number of its elements; `count` by default.
    pub fn count_field(mut self, name: impl Into<String>) -> Self {
        self.count = name.into();
        self
    }

    /// How many elements stay in the main document, at most; 50 by default. To change it for a collection with data,
    /// call [`migrate_existing`](OutlierRepository::migrate_existing) afterwards.
    pub fn threshold(mut self, elements: u32) -> Self {
        self.threshold = elements;
        self
    }

    /// How many elements an extras document has, at most; 500 by default. A list is read equally fast with 250 to 1000.
    pub fn max_extras_elements(mut self, elements: u32) -> Self {
        self.max_extras_elements = elements;
        self
    }

    /// Every element is in its list once. Elements are added by [`push_unique`](OutlierRepository::push_unique) then. It
    /// costs a second [index](OutlierRepository::indexes), which has an entry for each element of the extras.
    pub fn unique_elements(mut self) -> Self {
        self.unique = true;
        self
    }

    /// How long a write goes on trying when other writers are faster.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// The repository. Sends nothing.
    ///
    /// # Errors
    /// [`Configuration`](ErrorKind::Configuration), when a required name is missing, a name is not that of a plain
    /// field, two names of one document are equal, both collections are the same, the threshold or the cap is 0 or above
    /// `i32::MAX`, or a collection's write concern is `w: 0`, under which nothing could be confirmed.
    pub fn build(self) -> Result<OutlierRepository<D, E>> {
        let required = |name: Option<String>, call: &str| {
            let name = name.ok_or_else(|| configuration(format!("call {call}(..) on the builder")));
            name.and_then(FieldName::new)
        };
        let array = required(self.array, "array_field")?;
        let parent = required(self.parent, "parent_field")?;
        let seq = FieldName::new(self.seq)?;
        let extras = FieldName::new(self.extras.unwrap_or_else(|| format!("{array}_extra")))?;
        let settings = Settings {
            seq_index: settings::seq_index(&parent, &seq),
            array,
            flag: FieldName::new(self.flag)?,
            parent,
            extras,
            seq,
            count: FieldName::new(self.count)?,
            threshold: self.threshold,
            max_extras_elements: self.max_extras_elements,
            unique: self.unique,
            retry: self.retry,
        };
        if settings.array == settings.flag {
            return Err(configuration("array and flag must be two different fields"));
        }
        let of_extras = [&settings.parent, &settings.extras, &settings.seq, &settings.count];
        if (1..4).any(|field| of_extras[..field].contains(&of_extras[field])) {
            return Err(configuration(
                "parent, extras, seq and count must be four different fields",
            ));
        }
        for (number, name) in [(settings.threshold, "threshold"), (settings.max_extras_elements, "cap")] {
            if number == 0 || i32::try_from(number).is_err() {
                return Err(configuration(format!("the {name} must be from 1 to 2,147,483,647")));
            }
        }
        if self.main.namespace() == self.overflow.namespace() {
            return Err(configuration("main documents and extras must be in two collections"));
        }
        for collection in [&self.main, &self.overflow] {
            let acknowledgment = collection.write_concern().and_then(|concern| concern.w.as_ref());
            if acknowledgment == Some(&Acknowledgment::Nodes(0)) {
                return Err(configuration("the collections' write concern must not be w: 0"));
            }
        }
        Ok(OutlierRepository::new(self.main, self.overflow, settings))
    }
}

// Not derived: that would need `Clone` and `Debug` of the types.
impl<D, E> Clone for OutlierRepositoryBuilder<D, E> {
    fn clone(&self) -> Self {
        Self {
            main: self.main.clone(),
            overflow: self.overflow.clone(),
            array: self.array.clone(),
            flag: self.flag.clone(),
            parent: self.parent.clone(),
            extras: self.extras.clone(),
            seq: self.seq.clone(),
            count: self.count.clone(),
            threshold: self.threshold,
            max_extras_elements: self.max_extras_elements,
            unique: self.unique,
            retry: self.retry.clone(),
            types: PhantomData,
        }
    }
}

fn configuration(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Configuration, message)
}
