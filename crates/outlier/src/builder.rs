//! The builder of a repository.

use mongo_patterns_core::settings::{check_acknowledged, check_bound, configuration, required};
use mongo_patterns_core::{FieldName, Result};
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;

use crate::repository::OutlierRepository;
use crate::settings::{Settings, seq_index};

mongo_patterns_core::builder! {
    /// Builds an [`OutlierRepository`]: the field names, the threshold and the bound of overflow documents.
    pub struct OutlierRepositoryBuilder<D, E> over main: Collection<RawDocumentBuf>, overflow: Collection<RawDocumentBuf> {
        array: Option<String>,
        flag: String = "has_extras".to_owned(),
        parent: Option<String>,
        overflow_field: Option<String>,
        seq: String = "seq".to_owned(),
        count: String = "count".to_owned(),
        threshold: u32 = 50,
        max_overflow_elements: u32 = 500,
        unique: bool,
    }
    with retry, max_time;

    /// Sets the array field of a main document, such as `customers_purchased`. Required.
    array_field(name: impl Into<String>) => array = Some(name.into());

    /// Sets the field of an overflow document that has the `_id` of its main document, such as `book_id`. Required.
    parent_field(name: impl Into<String>) => parent = Some(name.into());

    /// Sets the flag of a main document, which is true if it has overflow documents; `has_extras` by default.
    flag_field(name: impl Into<String>) => flag = name.into();

    /// Sets the array field of an overflow document. By default, it is the array field of the main document with the
    /// suffix `_extra`, as in the manual: `customers_purchased_extra`.
    overflow_field(name: impl Into<String>) => overflow_field = Some(name.into());

    /// Sets the field of an overflow document that has its position, from 0; `seq` by default.
    seq_field(name: impl Into<String>) => seq = name.into();

    /// Sets the field of an overflow document that has the number of its elements; `count` by default.
    count_field(name: impl Into<String>) => count = name.into();

    /// Sets the most elements of a main document; 50 by default. To change it for a collection with documents, call
    /// [`migrate_existing`](OutlierRepository::migrate_existing) afterwards.
    threshold(elements: u32) => threshold = elements;

    /// Sets the most elements of an overflow document; 500 by default. Reads are equally fast with 250 to 1000.
    max_overflow_elements(elements: u32) => max_overflow_elements = elements;

    /// Makes the elements of a list unique. Elements are then added by [`push_unique`](OutlierRepository::push_unique).
    /// Needs a second [index](mongo_patterns_core::Repository::indexes), which has an entry for each element in overflow documents.
    unique_elements() => unique = true;
}

impl<D, E> OutlierRepository<D, E> {
    /// Starts to build a repository over a collection of main documents and a collection of overflow documents, with their
    /// read preferences, read concerns and write concerns.
    ///
    /// ```no_run
    /// # use mongo_patterns::outlier::OutlierRepository;
    /// # use mongo_patterns::mongodb::{Database, bson::Document};
    /// # struct Book;
    /// # fn f(database: Database) -> mongo_patterns::Result<()> {
    /// let sales = database.collection::<Document>("sales");
    /// let extra_sales = database.collection::<Document>("extra_sales");
    /// let books = OutlierRepository::<Book, String>::builder(sales, extra_sales)
    ///     .array_field("customers_purchased")
    ///     .parent_field("book_id")
    ///     .threshold(50)
    ///     .max_overflow_elements(500)
    ///     .unique_elements()
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::needless_pass_by_value)] // the builder keeps the collections, as ones of another type
    pub fn builder<M: Send + Sync, O: Send + Sync>(
        main: Collection<M>,
        overflow: Collection<O>,
    ) -> OutlierRepositoryBuilder<D, E> {
        OutlierRepositoryBuilder::over(main.clone_with_type(), overflow.clone_with_type())
    }
}

impl<D, E> OutlierRepositoryBuilder<D, E> {
    /// Creates the repository. Sends nothing.
    ///
    /// # Errors
    /// [`Configuration`](mongo_patterns_core::ErrorKind::Configuration) in these cases:
    ///
    /// - A required name is missing, a name is not the name of a plain field, or two fields of one document have the same
    ///   name.
    /// - Both collections are the same.
    /// - The threshold or the bound of overflow documents is 0 or above `i32::MAX`.
    /// - A collection's write concern is `w: 0`, which confirms no write.
    pub fn build(self) -> Result<OutlierRepository<D, E>> {
        let array = FieldName::new(required(self.array, "array_field")?)?;
        let parent = FieldName::new(required(self.parent, "parent_field")?)?;
        let seq = FieldName::new(self.seq)?;
        let extras = self.overflow_field.unwrap_or_else(|| format!("{array}_extra"));
        let settings = Settings {
            main: self.main.namespace(),
            overflow: self.overflow.namespace(),
            seq_index: seq_index(&parent, &seq),
            array,
            flag: FieldName::new(self.flag)?,
            parent,
            extras: FieldName::new(extras)?,
            seq,
            count: FieldName::new(self.count)?,
            threshold: self.threshold,
            max_overflow_elements: self.max_overflow_elements,
            unique: self.unique,
            retry: self.retry,
            max_time: self.max_time,
        };
        if settings.array == settings.flag {
            return Err(configuration("array and flag have one name: use two different names"));
        }
        let fields = settings.overflow_fields();
        if (1..4).any(|field| fields[..field].contains(&fields[field])) {
            return Err(configuration(
                "two of the fields parent, overflow, seq and count have one name: use four different names",
            ));
        }
        check_bound("threshold", settings.threshold)?;
        check_bound("max_overflow_elements", settings.max_overflow_elements)?;
        if settings.main == settings.overflow {
            return Err(configuration(
                "main documents and overflow documents are in one collection: use two collections",
            ));
        }
        check_acknowledged(&self.main)?;
        check_acknowledged(&self.overflow)?;
        Ok(OutlierRepository::new(self.main, self.overflow, settings))
    }
}
