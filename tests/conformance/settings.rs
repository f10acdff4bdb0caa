//! Settings that the builders of all patterns refuse, before they send anything. Those of one pattern are in its folder.

use std::sync::Arc;
use std::time::Duration;

use mongo_patterns::archive::{Archive, ArchiveBuilder, Trash, TrashBuilder};
use mongo_patterns::archive_files::object_store::memory::InMemory;
use mongo_patterns::archive_files::{FileArchive, FileArchiveBuilder};
use mongo_patterns::bucket::{BucketRepository, BucketRepositoryBuilder, Window};
use mongo_patterns::embedded::{EmbeddedRepository, EmbeddedRepositoryBuilder};
use mongo_patterns::history::{HistoryRepository, HistoryRepositoryBuilder};
use mongo_patterns::intervals::IntervalRepository;
use mongo_patterns::intervals::IntervalRepositoryBuilder;
use mongo_patterns::outlier::{OutlierRepository, OutlierRepositoryBuilder};
use mongo_patterns::reference::{ReferenceRepository, ReferenceRepositoryBuilder};
use mongo_patterns::schema::{SchemaRepository, SchemaRepositoryBuilder};
use mongo_patterns::subset::{Subset, SubsetRepository, SubsetRepositoryBuilder};
use mongo_patterns::{Error, ErrorKind, Repository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::Collection;
use mongodb::bson::{Document, doc};
use mongodb::options::{Acknowledgment, CollectionOptions, WriteConcern};

/// Names that are no field: each would be a path, an operator, or no name.
const NO_FIELDS: [&str; 4] = ["", "a.b", "$a", "a\0b"];

type Built = Result<Box<dyn Repository>, Error>;
/// Sets a field, and builds.
type Setter<B> = (&'static str, fn(B, &str) -> Built);

/// A builder with valid settings over collections.
trait Settings: Sized + 'static {
    const PATTERN: &'static str;
    const COLLECTIONS: usize;
    const SETTERS: &'static [Setter<Self>];

    fn over(collections: &[Collection<Document>]) -> Self;
    fn built(self) -> Built;
}

/// Implements [`Settings`] for a builder.
macro_rules! settings {
    ($pattern:literal, $builder:ty, $over:expr, $collections:literal: $($setter:ident)*) => {
        impl Settings for $builder {
            const PATTERN: &'static str = $pattern;
            const COLLECTIONS: usize = $collections;
            const SETTERS: &'static [Setter<Self>] =
                &[$((stringify!($setter), |builder, name| builder.$setter(name).built())),*];

            fn over(collections: &[Collection<Document>]) -> Self {
                let of: fn([Collection<Document>; $collections]) -> Self = $over;
                of(collections.to_vec().try_into().unwrap())
            }

            fn built(self) -> Built {
                self.build().map(|built| Box::new(built) as Box<dyn Repository>)
            }
        }
    };
}

settings! { "bucket", BucketRepositoryBuilder<i32, Document>, |[trades]| {
    BucketRepository::builder(trades)
        .key_field("customerId")
        .items_field("history")
        .time_field("date")
        .window(Window::Hour)
        .sum("quantity")
}, 1: key_field items_field count_field time_field item_id_field figures_field window_field sum }

settings! { "outlier", OutlierRepositoryBuilder<Document, String>, |[sales, extra_sales]| {
    OutlierRepository::builder(sales, extra_sales).array_field("customers").parent_field("book_id")
}, 2: array_field parent_field flag_field overflow_field seq_field count_field }

settings! { "subset", SubsetRepositoryBuilder<Document, Document>, |[product, review]| {
    SubsetRepository::builder(product, review)
        .parent_field("product_id")
        .child_id_field("review_id")
        .subset(Subset::new("reviews").sort(doc! { "date": -1 }))
}, 2: parent_field child_id_field version_field total_field }

settings! { "embedded", EmbeddedRepositoryBuilder<Document, Document>, |[patron]| {
    EmbeddedRepository::builder(patron).children_field("addresses")
}, 1: children_field child_id_field }

settings! { "history", HistoryRepositoryBuilder<Document>, |[current, revisions]| {
    HistoryRepository::builder(current, revisions).id_field("policyId")
}, 2: id_field revision_field time_field deleted_field }

settings! { "intervals", IntervalRepositoryBuilder<Document>, |[prices]| {
    IntervalRepository::builder(prices).id_field("item")
}, 1: id_field valid_from_field valid_to_field valid_field }

settings! { "reference", ReferenceRepositoryBuilder<Document, Document>, |[orders, customers]| {
    ReferenceRepository::builder(orders, customers).reference_field("customer").copied_fields(["name"])
}, 2: reference_field version_field source_key }

settings! { "schema", SchemaRepositoryBuilder<Document>, |[contacts]| SchemaRepository::builder(contacts), 1: version_field }

settings! { "archive", ArchiveBuilder<Document>, |[sales, archived]| {
    Archive::builder(sales, archived).age_field("date").older_than(Duration::from_secs(60))
}, 2: age_field id_field }

settings! { "file archive", FileArchiveBuilder<Document>, |[sales]| {
    FileArchive::builder(sales, Arc::new(InMemory::new()), "").age_field("date").older_than(Duration::from_secs(60))
}, 1: age_field }

settings! { "trash", TrashBuilder<Document>, |[users, deleted]| Trash::builder(users, deleted), 2: }

/// A pattern, without the type of its builder.
pub(super) struct Pattern {
    pub(super) name: &'static str,
    /// How many collections it has.
    pub(super) collections: usize,
    /// Builds a repository over these collections.
    pub(super) over: fn(&[Collection<Document>]) -> Box<dyn Repository>,
    check: fn(&TestDatabase),
}

impl Pattern {
    const fn of<S: Settings>() -> Self {
        Self {
            name: S::PATTERN,
            collections: S::COLLECTIONS,
            over: |collections| S::over(collections).built().unwrap(),
            check: check::<S>,
        }
    }
}

pub(super) const PATTERNS: [Pattern; 11] = [
    Pattern::of::<BucketRepositoryBuilder<i32, Document>>(),
    Pattern::of::<OutlierRepositoryBuilder<Document, String>>(),
    Pattern::of::<SubsetRepositoryBuilder<Document, Document>>(),
    Pattern::of::<EmbeddedRepositoryBuilder<Document, Document>>(),
    Pattern::of::<HistoryRepositoryBuilder<Document>>(),
    Pattern::of::<IntervalRepositoryBuilder<Document>>(),
    Pattern::of::<ReferenceRepositoryBuilder<Document, Document>>(),
    Pattern::of::<SchemaRepositoryBuilder<Document>>(),
    Pattern::of::<ArchiveBuilder<Document>>(),
    Pattern::of::<FileArchiveBuilder<Document>>(),
    Pattern::of::<TrashBuilder<Document>>(),
];

/// Returns the collections of a pattern.
pub(super) fn collections(db: &TestDatabase, count: usize) -> Vec<Collection<Document>> {
    let names = (0..count).map(|number| format!("collection{number}"));
    names.map(|name| db.collection(&name)).collect()
}

#[track_caller]
fn refused(built: Built, context: &str, text: &str) {
    let error = built.map(drop).expect_err(context);
    assert_eq!(error.kind(), ErrorKind::Configuration, "{context}: {error:?}");
    assert!(
        error.is_invalid_input() && error.to_string().contains(text),
        "{context}: {error}"
    );
}

fn check<S: Settings>(db: &TestDatabase) {
    let all = || collections(db, S::COLLECTIONS);
    for (setter, set) in S::SETTERS {
        set(S::over(&all()), "other").unwrap();
        for name in NO_FIELDS {
            let context = format!("{} {setter} {name:?}", S::PATTERN);
            refused(set(S::over(&all()), name), &context, &format!("{name:?}"));
        }
    }
    for number in 0..S::COLLECTIONS {
        let options = CollectionOptions::builder()
            .write_concern(WriteConcern::builder().w(Acknowledgment::Nodes(0)).build())
            .build();
        let mut unconfirmed = all();
        let name = unconfirmed[number].name().to_owned();
        unconfirmed[number] = db.database().collection_with_options(&name, options);
        let built = S::over(&unconfirmed).built();
        match S::PATTERN {
            // Its writes are confirmed by a majority, whatever the write concern of the collection is.
            "file archive" => drop(built.unwrap()),
            _ => refused(built, S::PATTERN, &format!(".{name}` is w: 0")),
        }
    }
    if S::COLLECTIONS == 2 {
        let one = vec![all().remove(0); 2];
        refused(S::over(&one).built(), S::PATTERN, "collections");
    }
}

#[tokio::test]
async fn names_that_are_no_fields_and_collections_that_cannot_be_are_refused() {
    testkit::run(async |db| {
        PATTERNS.iter().for_each(|pattern| (pattern.check)(db));
        assert_eq!(db.recorder().round_trips(), 0);
    })
    .await;
}
