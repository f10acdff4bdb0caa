//! The shard keys of the documentation.

/// The collections of the operations, and the fields by which the documentation shards them.
pub(super) const SHARD_KEYS: [(&str, &str); 24] = [
    ("articles", "_id"),
    ("trades", "customerId"),
    ("sales", "_id"),
    ("extra_sales", "book_id"),
    ("product", "_id"),
    ("review", "product_id"),
    ("patron", "_id"),
    ("currentPolicies", "policyId"),
    ("policyRevisions", "policyId"),
    ("prices", "item"),
    ("contracts", "_id"),
    ("contractRevisions", "documentId"),
    ("orders", "_id"),
    ("customers", "_id"),
    ("deleted_customers", "document._id"),
    ("customer_revisions", "documentId"),
    ("more_visits", "customer"),
    ("products", "customer"),
    ("contacts", "_id"),
    ("archived_sales", "_id"),
    ("archived_extra_sales", "book_id"),
    ("users", "_id"),
    ("deleted_users", "document._id"),
    ("deleted_sales", "document._id"),
];

/// Collections of the operations for which the documentation names no shard key, and the reason.
pub(super) const UNSHARDED: [(&str, &str); 8] = [
    ("trace", "the commands of a step are the caller's"),
    ("flat", "the source of a migration, which is read as a whole"),
    (
        "skipped",
        "the list of a migration, with one document for each document that it skips",
    ),
    (
        "people",
        "sources that are named by another unique field, whose index is unique on one shard only",
    ),
    ("back", "the target of a migration, which is checked to be empty"),
    ("address", "the references of a migration, which are read as a whole"),
    (
        "mongo_patterns",
        "the catalog: one document for each list, migration and follower, in an unsharded collection",
    ),
    ("collections", "the metadata of a cluster, on its config servers"),
];
