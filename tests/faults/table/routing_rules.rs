//! The commands that reach several shards, each with its reason.

/// The shards that a command reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Route {
    /// Those of one shard key for each statement or document.
    One,
    /// Those of a list of shard keys.
    Listed,
    /// All shards that have chunks of the collection.
    All,
    /// All shards, and routers before MongoDB 7.1 refuse it: it writes one document of unknown shard.
    Refused,
}

/// Commands of an operation that reach several shards. None of them is [refused](Route::Refused).
#[derive(Debug)]
pub(super) struct Broadcast {
    pub(super) pattern: &'static str,
    /// The first function of the operation's name.
    pub(super) call: &'static str,
    pub(super) commands: &'static [(&'static str, &'static str, Route)],
    pub(super) reason: &'static str,
}

const WHOLE: &str = "reads the whole collection";
const MOVED: &str = "old documents are on all shards, and a chunk is found by `_id`s";
const ENTRIES: &str = "the entries of a time are on all shards";
const RELATED: &str = "each related entry is on the shard of its own document's `_id`";
const BY_ID: &str = "a bucket of the key whose key field has another value can be on any shard, as documented";

const fn of(
    pattern: &'static str,
    call: &'static str,
    reason: &'static str,
    commands: &'static [(&'static str, &'static str, Route)],
) -> Broadcast {
    Broadcast {
        pattern,
        call,
        commands,
        reason,
    }
}

use Route::{All, Listed};

/// The scans of a history, and the reads of some of its documents.
const HISTORY_SCAN: &[(&str, &str, Route)] = &[
    ("aggregate", "currentPolicies", All),
    ("aggregate", "policyRevisions", All),
    ("find", "currentPolicies", Listed),
    ("find", "policyRevisions", Listed),
];

/// The reads of current documents by a filter.
const CURRENT: &[(&str, &str, Route)] = &[("aggregate", "currentPolicies", All), ("find", "currentPolicies", All)];
const PRICES: &[(&str, &str, Route)] = &[("aggregate", "prices", All), ("find", "prices", All)];
const CURRENT_BY_ID: &[(&str, &str, Route)] = &[("aggregate", "contracts", Listed), ("find", "contracts", All)];

/// The scans of references, and the reads of some of their sources.
const REFERENCE_SCAN: &[(&str, &str, Route)] = &[
    ("find", "orders", All),
    ("find", "orders", Listed),
    ("find", "customers", Listed),
    ("count", "orders", All),
    ("update", "orders", All),
];

const COPIES_READ: &[(&str, &str, Route)] = &[("aggregate", "orders", All), ("update", "orders", All)];
const COPIES: &str = "documents with references to one source are on any shard, as documented";
const SOURCES: &str = "reads all sources of a document by one command";

const FILTER: &str = "the filter is the caller's";
const TOGETHER: &str = "inserts documents of several shards together";

const MIGRATED: &str = "a migration reads the whole collection, and a chunk of ids by one command";

#[rustfmt::skip] // a rule in a line or two
pub(super) const BROADCAST: [Broadcast; 70] = [
    of("bucket", "page", "the manual's read of a page by number is by `_id` only", &[("find", "trades", All)]),
    of("bucket", "count_pages", "the manual's count is by `_id` only", &[("aggregate", "trades", All)]),
    of("bucket", "keys", WHOLE, &[("find", "trades", All)]),
    of("bucket", "find_items", "a filter without the key finds items of all keys", &[("aggregate", "trades", All)]),
    of("bucket", "verify", WHOLE, &[("aggregate", "trades", All)]),
    of("bucket", "refresh_figures", WHOLE, &[("update", "trades", All)]),
    of("bucket", "delete_before", WHOLE, &[("find", "trades", All), ("delete", "trades", All)]),
    of("bucket", "verify", "the second read of a key has every value that its key field can have",
        &[("aggregate", "trades", Listed)]),
    of("bucket", "verify_key", "the key field of a bucket of the key can have several values", &[("aggregate", "trades", Listed)]),
    of("bucket", "repair_key", BY_ID,
        &[("aggregate", "trades", Listed), ("aggregate", "trades", All), ("find", "trades", All)]),
    of("bucket", "repair", BY_ID, &[("aggregate", "trades", All), ("find", "trades", All)]),
    of("bucket", "migrate_from_flat", MIGRATED, &[("aggregate", "trades", All)]),
    of("bucket", "migrate_to_flat", MIGRATED, &[("aggregate", "trades", All), ("find", "trades", All)]),
    of("bucket", "migrate_page_size_from", BY_ID, &[("aggregate", "trades", All), ("find", "trades", All)]),
    of("outlier", "ensure_indexes", "reads a sample of collections without an entry in the catalog",
        &[("aggregate", "extra_sales", All), ("find", "sales", All)]),
    of("outlier", "migrate_existing", MIGRATED, &[("aggregate", "sales", All), ("find", "sales", All)]),
    of("outlier", "repair", WHOLE, &[("aggregate", "sales", All)]),
    of("outlier", "verify", WHOLE, &[("aggregate", "sales", All)]),
    of("subset", "refresh_all", WHOLE, &[("aggregate", "product", All)]),
    of("subset", "repair", WHOLE, &[("aggregate", "product", All), ("aggregate", "review", All)]),
    of("subset", "verify", WHOLE, &[("aggregate", "product", All), ("aggregate", "review", All)]),
    of("subset", "follow", "reads the changes of the whole collection, and rebuilds all subsets at first",
        &[("aggregate", "product", All), ("aggregate", "review", All), ("find", "review", All)]),
    of("subset", "migrate_existing", MIGRATED,
        &[("aggregate", "product", All), ("aggregate", "review", All), ("aggregate", "product", Listed),
            ("count", "product", All), ("find", "product", All)]),
    of("subset", "migrate_from_embedded", MIGRATED,
        &[("aggregate", "product", All), ("aggregate", "review", All), ("aggregate", "product", Listed),
            ("find", "product", All), ("update", "product", Listed)]),
    of("subset", "migrate_layout_from", MIGRATED,
        &[("aggregate", "product", All), ("aggregate", "product", Listed), ("count", "product", All),
            ("find", "product", All)]),
    of("embedded", "verify", WHOLE, &[("aggregate", "patron", All)]),
    of("embedded", "migrate_from_references", MIGRATED,
        &[("aggregate", "patron", All), ("aggregate", "patron", Listed), ("find", "patron", All)]),
    of("history", "verify", WHOLE, HISTORY_SCAN),
    of("history", "repair", WHOLE, HISTORY_SCAN),
    of("history", "follow", "reads the changes of the whole collection, and repairs all documents at first",
        &[("aggregate", "currentPolicies", All), ("aggregate", "policyRevisions", All),
            ("find", "currentPolicies", All), ("find", "currentPolicies", Listed),
            ("find", "policyRevisions", Listed)]),
    of("history", "migrate_existing", MIGRATED,
        &[("aggregate", "currentPolicies", All), ("aggregate", "policyRevisions", All), ("find", "currentPolicies", All),
            ("update", "currentPolicies", All), ("find", "policyRevisions", All), ("delete", "policyRevisions", All)]),
    of("intervals", "verify", WHOLE, PRICES),
    of("intervals", "repair", WHOLE, PRICES),
    of("intervals", "migrate_existing", MIGRATED, PRICES),
    of("outlier", "find", FILTER, &[("find", "sales", All)]),
    of("subset", "find", FILTER, &[("find", "product", All)]),
    of("embedded", "find", FILTER, &[("find", "patron", All)]),
    of("history", "find", FILTER, &[("find", "currentPolicies", All)]),
    of("history", "update_many", FILTER, CURRENT),
    of("history", "update_many", FILTER, CURRENT_BY_ID),
    of("reference", "find", FILTER, &[("find", "orders", All)]),
    of("history", "insert_many", TOGETHER,
        &[("aggregate", "policyRevisions", Listed), ("find", "currentPolicies", Listed),
            ("aggregate", "contractRevisions", Listed), ("find", "contracts", Listed)]),
    of("reference", "insert_many", TOGETHER, &[("find", "customers", Listed), ("update", "customers", Listed)]),
    of("reference", "insert", SOURCES, &[("find", "customers", Listed)]),
    of("reference", "get", SOURCES, &[("find", "customers", Listed)]),
    of("reference", "update_source", COPIES, &[("update", "orders", All)]),
    of("reference", "refresh_copies", COPIES, COPIES_READ),
    of("reference", "delete_source", COPIES, &[("find", "orders", All), ("update", "orders", All)]),
    of("reference", "migrate_from_references", MIGRATED,
        &[("find", "customers", All), ("aggregate", "orders", All), ("aggregate", "orders", Listed),
            ("find", "orders", All)]),
    of("reference", "verify", WHOLE, REFERENCE_SCAN),
    of("reference", "repair", WHOLE, REFERENCE_SCAN),
    of("reference", "follow",
        "reads the changes of all collections, compares copies on any shard, and repairs all references at first",
        &[("aggregate", "orders", All), ("count", "orders", All), ("find", "orders", All),
            ("find", "orders", Listed), ("find", "customers", All), ("find", "customers", Listed),
            ("update", "orders", All)]),
    of("schema", "find", "the filters are the caller's, and the server converts the documents of a version together",
        &[("find", "contacts", All), ("aggregate", "contacts", Listed)]),
    of("schema", "stream", "the filters are the caller's, and the server converts the documents of a version together",
        &[("find", "contacts", All), ("aggregate", "contacts", Listed)]),
    of("schema", "versions", WHOLE, &[("aggregate", "contacts", All)]),
    of("schema", "verify", WHOLE, &[("find", "contacts", All)]),
    of("schema", "migrate", "the older documents are on all shards, and those of a chunk on some",
        &[("find", "contacts", All), ("find", "contacts", Listed), ("update", "contacts", Listed)]),
    of("counters", "ensure_indexes", "looks for other values in the field without an entry in the catalog",
        &[("find", "articles", All)]),
    of("counters", "ensure_sharded", "looks for other values in the field without an entry in the catalog",
        &[("find", "articles", All)]),
    of("trash", "list", ENTRIES, &[("find", "deleted_users", All)]),
    of("trash", "delete_before", ENTRIES,
        &[("find", "deleted_users", All), ("delete", "deleted_users", All), ("find", "deleted_sales", All),
            ("delete", "deleted_sales", All)]),
    of("trash", "restore", RELATED, &[("find", "deleted_sales", All), ("delete", "deleted_sales", All)]),
    of("archive", "run", MOVED,
        &[("find", "sales", All), ("find", "sales", Listed), ("delete", "sales", Listed),
            ("insert", "archived_sales", Listed), ("find", "archived_sales", Listed),
            ("aggregate", "extra_sales", Listed), ("find", "extra_sales", Listed), ("delete", "extra_sales", Listed),
            ("insert", "archived_extra_sales", Listed)]),
    of("archive", "restore_many", MOVED,
        &[("find", "archived_sales", All), ("find", "archived_sales", Listed), ("delete", "archived_sales", Listed),
            ("insert", "sales", Listed), ("find", "sales", Listed), ("aggregate", "archived_sales", Listed),
            ("aggregate", "archived_extra_sales", Listed), ("find", "archived_extra_sales", Listed),
            ("delete", "archived_extra_sales", Listed), ("insert", "extra_sales", Listed)]),
    of("archive", "delete_before", MOVED,
        &[("find", "archived_sales", All), ("delete", "archived_sales", Listed), ("find", "archived_sales", Listed),
            ("aggregate", "archived_extra_sales", Listed), ("delete", "archived_extra_sales", Listed)]),
    of("archive", "due", WHOLE, &[("aggregate", "sales", All)]),
    of("archive", "list", "the filter is the caller's", &[("find", "sales", All), ("find", "archived_sales", All)]),
    of("archive", "repair", WHOLE,
        &[("find", "sales", All), ("find", "archived_sales", All), ("find", "sales", Listed)]),
    of("trash", "verify", WHOLE, &[("aggregate", "deleted_users", All)]),
    of("archive", "verify", WHOLE,
        &[("find", "sales", All), ("find", "archived_sales", All), ("find", "sales", Listed),
            ("find", "archived_sales", Listed), ("find", "extra_sales", All), ("find", "archived_extra_sales", All)]),
];
