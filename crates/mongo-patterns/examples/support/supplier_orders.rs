//! Several patterns on one document: an order refers to its supplier, has a history and a count of its views, is written by two
//! releases, and is archived after two years. Deleted suppliers are in a trash.

use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Result, ensure};
use futures::TryStreamExt;
use mongo_patterns::archive::{Archive, Trash};
use mongo_patterns::counters::Counters;
use mongo_patterns::history::HistoryRepository;
use mongo_patterns::reference::{OnReferences, ReferenceRepository};
use mongo_patterns::schema::{HasVersions, Versioned, Versions};
use mongo_patterns::{ErrorKind, Repository};
use mongodb::Database;
use mongodb::bson::{DateTime, Document, doc};
use serde::{Deserialize, Serialize};

use crate::support::shell;

const TWO_YEARS: Duration = Duration::from_secs(2 * 365 * 24 * 60 * 60);

// ANCHOR: types
/// An order of the first release.
#[derive(Serialize, Deserialize)]
struct OrderV1 {
    #[serde(rename = "_id")]
    id: i32,
    placed: DateTime,
    total: i32,
}

/// An order of the second release, in which a total has a currency.
#[derive(Serialize, Deserialize)]
struct Order {
    #[serde(rename = "_id")]
    id: i32,
    placed: DateTime,
    total: Total,
}

#[derive(Serialize, Deserialize)]
struct Total {
    amount: i32,
    currency: String,
}

static ORDERS_V1: LazyLock<Versions<OrderV1>> = LazyLock::new(|| {
    let versions = Versions::builder("schemaVersion").newest(1).build();
    versions.expect("no step, so no gap")
});

static ORDERS: LazyLock<Versions<Order>> = LazyLock::new(|| {
    let versions = Versions::builder("schemaVersion").step(1, |old: OrderV1| {
        let total = Total {
            amount: old.total,
            currency: "EUR".to_owned(),
        };
        Ok(Order {
            id: old.id,
            placed: old.placed,
            total,
        })
    });
    versions.build().expect("the steps have no gap")
});
// ANCHOR_END: types

impl HasVersions for OrderV1 {
    fn versions() -> &'static Versions<Self> {
        &ORDERS_V1
    }
}

impl HasVersions for Order {
    fn versions() -> &'static Versions<Self> {
        &ORDERS
    }
}

// ANCHOR: repositories
/// The repositories of a release, whose type of an order is `O`.
struct Shop<O> {
    orders: HistoryRepository<Versioned<O>>,
    suppliers: ReferenceRepository<Document, Document>,
    views: Counters,
    archive: Archive<Document>,
    trash: Trash<Document>,
}

impl<O> Shop<O> {
    async fn open(database: &Database) -> Result<Self> {
        let of = |name: &str| database.collection::<Document>(name);
        let shop = Self {
            orders: HistoryRepository::builder(of("orders"), of("order_revisions"))
                .id_field("_id")
                .build()?,
            suppliers: ReferenceRepository::builder(of("orders"), of("suppliers"))
                .reference_field("supplier")
                .copied_fields(["name"])
                .build()?,
            views: Counters::builder(of("orders")).field("views").build()?,
            archive: Archive::builder(of("orders"), of("old_orders"))
                .age_field("placed")
                .older_than(TWO_YEARS)
                .related(of("order_revisions"), of("old_order_revisions"), "documentId")
                .build()?,
            trash: Trash::builder(of("suppliers"), of("deleted_suppliers")).build()?,
        };
        let all: [&dyn Repository; 5] = [&shop.orders, &shop.suppliers, &shop.views, &shop.archive, &shop.trash];
        for repository in all {
            repository.ensure_indexes().await?; // refuses two that would write one field
        }
        Ok(shop)
    }
}
// ANCHOR_END: repositories

/// Runs both releases.
pub(crate) async fn run(database: &Database) -> Result<()> {
    let suppliers = database.collection::<Document>("suppliers");
    let names = [doc! { "_id": 1, "name": "Ann" }, doc! { "_id": 2, "name": "Bob" }];
    suppliers.insert_many(names).await?;
    let first = Shop::<OrderV1>::open(database).await?;

    println!("\n# An order of the first release, with a supplier and three views\n");
    let placed = DateTime::parse_rfc3339_str("2023-10-26T15:47:03Z")?;
    first
        .orders
        .insert(&Versioned(OrderV1 {
            id: 7,
            placed,
            total: 20,
        }))
        .await?;
    first.suppliers.set_reference(7, 1).await?;
    first.views.add(7, 3)?;
    first.views.flush().await?;
    print_order(database, "orders").await?;

    println!("# The second release replaces it, and the supplier is renamed: each pattern keeps its fields\n");
    let second = Shop::<Order>::open(database).await?;
    // ANCHOR: replace
    let mut order = second.orders.get(7).await?.expect("the order of the first release");
    order.document.0.total.amount += 5; // converted when it was read
    let recorded = second
        .orders
        .replace(7, &order.document)
        .expecting(order.revision)
        .await?;
    second
        .suppliers
        .update_source(1, doc! { "$set": { "name": "Ann & Co." } })
        .await?;
    // ANCHOR_END: replace
    println!("revision {}:", recorded.revision);
    print_order(database, "orders").await?;

    println!("# A supplier with orders is not deleted, and one without is in the trash\n");
    // ANCHOR: through
    let refused = second.suppliers.delete_source(1).through(&second.trash).await;
    ensure!(refused.is_err_and(|error| error.kind() == ErrorKind::Referenced));
    second.suppliers.delete_source(2).through(&second.trash).await?;
    // ANCHOR_END: through
    let deleted = second.trash.list().page().await?.items;
    println!("in the trash: {}\n", deleted[0].document.get_str("name")?);

    println!("# The order is archived with its revisions, and restored after its supplier\n");
    // ANCHOR: restore
    let moved = second.archive.run().await?;
    let keep = OnReferences::KeepCopy;
    second
        .suppliers
        .delete_source(1)
        .on_references(keep)
        .through(&second.trash)
        .await?;
    let refused = second.archive.restore(7).through(&second.suppliers).await;
    ensure!(refused.is_err_and(|error| error.kind() == ErrorKind::NotFound)); // it would refer to nothing
    second.trash.restore(1).await?;
    second.archive.restore(7).through(&second.suppliers).await?;
    // ANCHOR_END: restore
    println!(
        "archived: {} document, {} revisions; restored:",
        moved.documents, moved.related
    );
    print_order(database, "orders").await?;

    // What the other patterns have written since is no difference to a revision.
    let of_orders: Vec<_> = second.orders.verify().stream().try_collect().await?;
    let of_references: Vec<_> = second.suppliers.verify().stream().try_collect().await?;
    ensure!(of_orders.is_empty() && of_references.is_empty());
    println!("findings of the history and of the references: none");
    Ok(())
}

async fn print_order(database: &Database, collection: &str) -> Result<()> {
    let mut order = database
        .collection::<Document>(collection)
        .find_one(doc! { "_id": 7 })
        .await?
        .unwrap_or_default();
    order.remove("time"); // that of the server
    order.remove("views_batches");
    println!("{}\n", shell::pretty(&order.into()));
    Ok(())
}
