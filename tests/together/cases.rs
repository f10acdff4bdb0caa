//! Repositories that would own the same, and how the second one works.

use mongo_patterns_testkit::TestDatabase;

use super::repositories::{
    One, archive, buckets, embedded, embedded_in, further, history, intervals, list, list_in, overflowing, references,
    references_in, references_to, schema, subset, trash,
};

/// Two repositories, what the error about the second one says, and the second one with another name.
pub(super) type Case = (&'static str, One, One, &'static [&'static str], One);

pub(super) fn cases(db: &TestDatabase) -> Vec<Case> {
    let total = |children: &str, total: &str| subset(db, children).total_field(total).build().unwrap();
    let version = |children: &str, version: &str| subset(db, children).version_field(version).build().unwrap();
    let sum = |field: &str| subset(db, "notes").sum("n", field).build().unwrap();
    let two = |field: &str| subset(db, "notes").subset(further(field)).build().unwrap();
    vec![
        (
            "the flag of two lists",
            Box::new(list(db, "lines", "has_extras")),
            Box::new(list(db, "views", "has_extras")),
            &["`has_extras`", ".orders`", "outlier pattern", "flag_field(..)"],
            Box::new(list(db, "views", "has_more_views")),
        ),
        (
            "the overflow documents of two lists",
            Box::new(list(db, "lines", "more_of_lines")),
            Box::new(overflowing(db, "views", "more_of_views", "more_lines")),
            &[".more_lines`", "outlier pattern", "use another one"],
            Box::new(list(db, "views", "more_of_views")),
        ),
        (
            "the total of two subsets",
            Box::new(total("notes", "count")),
            Box::new(total("reviews", "count")),
            &["`count`", ".orders`", "subset pattern", "total_field(..)"],
            Box::new(total("reviews", "review_count")),
        ),
        (
            "the version of two subsets",
            Box::new(version("notes", "version")),
            Box::new(version("reviews", "version")),
            &["`version`", "subset pattern", "version_field(..)"],
            Box::new(version("reviews", "reviews_version")),
        ),
        (
            "the version of documents and of a subset",
            Box::new(schema(db, "orders", "version")),
            Box::new(version("reviews", "version")),
            &["`version`", "schema pattern", "version_field(..)"],
            Box::new(version("reviews", "reviews_version")),
        ),
        (
            "a figure and the flag of a list",
            Box::new(list(db, "lines", "more")),
            Box::new(sum("more")),
            &["`more`", "outlier pattern", "sum(..)"],
            Box::new(sum("total")),
        ),
        (
            "an array of a list and of embedded children",
            Box::new(list(db, "lines", "has_extras")),
            Box::new(embedded(db, "lines")),
            &["`lines`", "outlier pattern", "children_field(..)"],
            Box::new(embedded(db, "positions")),
        ),
        (
            "an array of embedded children and of a list",
            Box::new(embedded(db, "lines")),
            Box::new(list(db, "lines", "has_extras")),
            &["`lines`", "embedded pattern", "array_field(..)"],
            Box::new(list(db, "views", "has_extras")),
        ),
        (
            "a further subset and embedded children",
            Box::new(embedded(db, "lines")),
            Box::new(two("lines")),
            &["`lines`", "embedded pattern", "Subset::new(..)"],
            Box::new(two("first_notes")),
        ),
        (
            "a reference and an array",
            Box::new(embedded(db, "customer")),
            Box::new(references(db, "customer")),
            &["`customer`", "embedded pattern", "reference_field(..)"],
            Box::new(references(db, "buyer")),
        ),
        (
            "the time of a history and a total",
            Box::new(total("notes", "changed")),
            Box::new(history(db, "orders", "revisions", "changed")),
            &["`changed`", "subset pattern", "time_field(..)"],
            Box::new(history(db, "orders", "revisions", "changed_at")),
        ),
        (
            "two trashes with one second collection",
            Box::new(trash(db, "users", "deleted")),
            Box::new(trash(db, "orders", "deleted")),
            &[".deleted`", "trash pattern", "use another one"],
            Box::new(trash(db, "orders", "deleted_orders")),
        ),
        (
            "two archives with one second collection",
            Box::new(archive(db, "users", "old")),
            Box::new(archive(db, "orders", "old")),
            &[".old`", "archive pattern", "use another one"],
            Box::new(archive(db, "orders", "old_orders")),
        ),
        (
            "an archive and a trash with one second collection",
            Box::new(archive(db, "users", "old")),
            Box::new(trash(db, "users", "old")),
            &[".old`", "archive pattern", "use another one"],
            Box::new(trash(db, "users", "deleted")),
        ),
        (
            "two histories with one second collection",
            Box::new(history(db, "users", "revisions", "at")),
            Box::new(history(db, "orders", "revisions", "at")),
            &[".revisions`", "history pattern", "use another one"],
            Box::new(history(db, "orders", "order_revisions", "at")),
        ),
        (
            "intervals and a list",
            Box::new(intervals(db, "orders")),
            Box::new(list(db, "lines", "has_extras")),
            &[".orders`", "intervals pattern", "use another collection"],
            Box::new(embedded_in(db, "carts")),
        ),
        (
            "embedded children and intervals",
            Box::new(embedded(db, "lines")),
            Box::new(intervals(db, "orders")),
            &[".orders`", "embedded pattern", "use another collection"],
            Box::new(intervals(db, "prices")),
        ),
        (
            "a subset and intervals",
            Box::new(subset(db, "notes").build().unwrap()),
            Box::new(intervals(db, "orders")),
            &[".orders`", "subset pattern", "use another collection"],
            Box::new(intervals(db, "prices")),
        ),
        (
            "the children of a subset and a history of them",
            Box::new(subset(db, "notes").build().unwrap()),
            Box::new(history(db, "notes", "revisions", "at")),
            &[".notes`", "subset pattern", "use another collection"],
            Box::new(history(db, "reviews", "revisions", "at")),
        ),
        (
            "the children of a subset and references to them",
            Box::new(subset(db, "notes").build().unwrap()),
            Box::new(references_to(db, "notes", "customer")),
            &[".notes`", "subset pattern", "use another collection"],
            Box::new(references_to(db, "customers", "customer")),
        ),
        (
            "the overflow documents of a list and a list of them",
            Box::new(overflowing(db, "views", "more_of_views", "notes")),
            Box::new(list_in(db, "notes")),
            &[".notes`", "outlier pattern", "use another collection"],
            Box::new(list_in(db, "reviews")),
        ),
        (
            "the overflow documents of a list and references in them",
            Box::new(overflowing(db, "views", "more_of_views", "carts")),
            Box::new(references_in(db, "carts")),
            &[".carts`", "outlier pattern", "use another collection"],
            Box::new(references(db, "customer")),
        ),
        (
            "the revisions of a history and embedded children of them",
            Box::new(history(db, "orders", "carts", "at")),
            Box::new(embedded_in(db, "carts")),
            &[".carts`", "history pattern", "use another collection"],
            Box::new(embedded_in(db, "baskets")),
        ),
        (
            "the children of a subset and the overflow documents of a list",
            Box::new(subset(db, "notes").build().unwrap()),
            Box::new(overflowing(db, "views", "more_of_views", "notes")),
            &[".notes`", "subset pattern", "use another collection"],
            Box::new(list(db, "views", "more_of_views")),
        ),
        (
            "buckets and embedded children",
            Box::new(buckets(db, "orders")),
            Box::new(embedded(db, "lines")),
            &[".orders`", "bucket pattern", "use another collection"],
            Box::new(embedded_in(db, "carts")),
        ),
    ]
}
