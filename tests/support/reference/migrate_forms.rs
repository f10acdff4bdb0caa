//! References of other forms: DBRefs, and documents with the id in another field than `_id`.

use mongo_patterns::reference::ReferenceForm;
use mongo_patterns::reference::action::MigrateFromReferences;
use mongodb::bson::{Bson, Document, doc};

use crate::reference::*;

pub fn id_in(field: &str) -> ReferenceForm {
    ReferenceForm::IdIn(field.into())
}

/// Migrates DBRefs in `customer` and `customerId`, and documents with the id in `id` in the other fields.
pub fn of_forms(orders: &Orders) -> MigrateFromReferences<'_> {
    let migration = orders.migrate_from_references().from_field("customer", "customerId");
    let migration = migration.from_form("customer", ReferenceForm::DbRef);
    migration
        .from_form("payer", id_in("id"))
        .from_form("products", id_in("id"))
}

pub fn db_ref(id: impl Into<Bson>) -> Document {
    doc! { "$ref": "customers", "$id": id.into() }
}

/// Orders that [`of_forms`] cannot migrate, with the reason and the field.
pub fn invalid() -> Vec<(Document, &'static str, &'static str)> {
    let mut of_other_database = db_ref(1);
    of_other_database.insert("$db", "elsewhere");
    let mut of_no_database = db_ref(1);
    of_no_database.insert("$db", Bson::Null);
    let with = |name: &str, value: Bson| {
        let mut reference = db_ref(1);
        reference.insert(name, value);
        reference
    };
    vec![
        (doc! { "customerId": of_other_database }, "other_collection", "customer"),
        (doc! { "customerId": of_no_database }, "other_collection", "customer"),
        (
            doc! { "customerId": { "$ref": "sellers", "$id": 1 } },
            "other_collection",
            "customer",
        ),
        (
            doc! { "customerId": { "$ref": "$name", "$id": 1 } },
            "other_collection",
            "customer",
        ),
        (doc! { "customer": { "$id": 1 } }, "other_value", "customer"),
        (doc! { "customerId": { "$id": 1 } }, "other_collection", "customer"),
        (doc! { "customerId": with("v", 7.into()) }, "reserved_field", "customer"),
        (
            doc! { "customerId": with("deleted", false.into()) },
            "reserved_field",
            "customer",
        ),
        (
            doc! { "customerId": with("_id", 2.into()) },
            "reserved_field",
            "customer",
        ),
        (doc! { "customerId": { "id": 1 } }, "without_id", "customer"),
        (doc! { "customerId": { "$ref": "customers" } }, "without_id", "customer"),
        (doc! { "customerId": db_ref(8) }, "source_missing", "customer"),
        (doc! { "customerId": db_ref("$_id") }, "source_missing", "customer"),
        (
            doc! { "customerId": db_ref(doc! { "$gt": 0 }) },
            "source_missing",
            "customer",
        ),
        (doc! { "customerId": db_ref(Bson::Null) }, "not_an_id", "customer"),
        (doc! { "customerId": db_ref([1].to_vec()) }, "not_an_id", "customer"),
        (doc! { "customerId": db_ref(90) }, "source_version", "customer"),
        (
            doc! { "customerId": 2, "customer": db_ref(1) },
            "other_reference",
            "customer",
        ),
        (doc! { "payer": db_ref(1) }, "db_ref", "payer"),
        (doc! { "payer": { "name": "Ann" } }, "without_id", "payer"),
        (doc! { "payer": { "id": null } }, "not_an_id", "payer"),
        (doc! { "payer": { "id": 8, "name": "Ann" } }, "source_missing", "payer"),
        (doc! { "payer": { "id": 8 } }, "source_missing", "payer"),
        (doc! { "payer": { "id": 1, "v": 1 } }, "reserved_field", "payer"),
        (doc! { "products": { "id": 1 } }, "no_array", "products"),
        (doc! { "products": [{ "id": 1 }, { "id": 1.0 }] }, "twice", "products"),
        (doc! { "products": [{ "id": 1 }, 1] }, "twice", "products"),
        (
            doc! { "products": [{ "id": 1 }, { "_id": "y", "id": 1 }] },
            "reserved_field",
            "products",
        ),
        (
            doc! { "products": [{ "id": 1, "deleted": true }, 2] },
            "reserved_field",
            "products",
        ),
        (doc! { "products": [{ "id": 1 }, db_ref(2)] }, "db_ref", "products"),
        (
            doc! { "products": [{ "id": 1 }, { "Id": 2 }] },
            "without_id",
            "products",
        ),
        (
            doc! { "products": [{ "id": 1 }, { "id": 8 }] },
            "source_missing",
            "products",
        ),
    ]
}
