//! Orders with the name of their customer, and renames of the customers.

use std::collections::BTreeMap;

use anyhow::Result;
use futures::TryStreamExt;
use mongo_patterns_core::{ErrorKind, Repository};
use mongo_patterns_reference::ReferenceRepository;
use mongodb::bson::{Document, doc};
use mongodb::error::{Error as DriverError, TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT};
use mongodb::options::UpdateModifications;
use mongodb::{ClientSession, Collection, Database, IndexModel};

use super::load::{Answer, Failure, Ledger, Write, write};
use super::recipe::{Hazards, Source};
use super::stored::{Times, all, integer};
use crate::bucket::scatter;

const CUSTOMERS: i64 = 8;
/// The orders of each customer at the beginning.
const EXISTING: i64 = 30;
const SOURCES: &str = "customers";
const ORDERS: &str = "orders";

type Orders = ReferenceRepository<Document, Document>;

fn orders(database: &Database) -> Result<Orders> {
    let (orders, customers) = (
        database.collection::<Document>(ORDERS),
        database.collection::<Document>(SOURCES),
    );
    let builder = Orders::builder(orders, customers)
        .reference_field("customer")
        .copied_fields(["name"]);
    Ok(builder.build()?)
}

pub(super) async fn prepare(source: Source, database: &Database) -> Result<()> {
    database.create_collection(SOURCES).await?;
    database.create_collection(ORDERS).await?;
    let orders = database.collection::<Document>(ORDERS);
    match source {
        Source::Ours => drop(self::orders(database)?.ensure_indexes().await?),
        _ => {
            let index = IndexModel::builder().keys(doc! { "customer._id": 1 }).build();
            orders.create_index(index).await?;
        }
    }
    for id in 0..CUSTOMERS {
        let customer = doc! { "_id": id, "name": -1_i64 };
        database.collection::<Document>(SOURCES).insert_one(&customer).await?;
        let mut copy = customer;
        if source == Source::Ours {
            copy.insert("v", 0_i64);
        }
        let existing = (1..=EXISTING).map(|n| doc! { "number": -(id * EXISTING + n), "customer": copy.clone() });
        orders.insert_many(existing).await?;
    }
    Ok(())
}

/// Returns the customer of an operation.
fn customer(number: u64) -> i64 {
    (scatter(number) % CUSTOMERS as u64) as i64
}

/// Returns whether an operation inserts an order. The others rename a customer.
fn is_insert(number: u64) -> bool {
    (scatter(number) >> 16) % 10 < 7
}

pub(super) fn writes(source: Source, databases: &[Database]) -> Result<Vec<Write>> {
    let of_client = |database: &Database| {
        let ours = orders(database)?;
        let recipe = Recipe {
            customers: database.collection(SOURCES),
            orders: database.collection(ORDERS),
        };
        Ok(write(move |number| {
            let (ours, recipe) = (ours.clone(), recipe.clone());
            async move {
                match source {
                    Source::Ours => by_repository(&ours, number).await?,
                    Source::InTransactions => recipe.in_transaction(number).await?,
                    _ => recipe.run(number).await?,
                }
                Ok(Answer::Done)
            }
        }))
    };
    databases.iter().map(of_client).collect()
}

async fn by_repository(orders: &Orders, number: u64) -> Result<(), Failure> {
    let customer = customer(number);
    if !is_insert(number) {
        let rename = doc! { "$set": { "name": number as i64 } };
        orders.update_source(customer, rename).await?;
        return Ok(());
    }
    let new = doc! { "_id": number as i64, "number": number as i64, "customer": { "_id": customer } };
    match orders.insert(&new).await {
        // The first attempt has stored it.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        inserted => inserted.map(drop).map_err(Failure::from),
    }
}

/// The recipe of the manual, "Duplicate Data".
#[derive(Clone)]
struct Recipe {
    customers: Collection<Document>,
    orders: Collection<Document>,
}

impl Recipe {
    async fn run(&self, number: u64) -> Result<(), Failure> {
        let mut session = self.orders.client().start_session().await?;
        Ok(self.send(number, &mut session).await?)
    }

    async fn send(&self, number: u64, session: &mut ClientSession) -> Result<(), DriverError> {
        let (id, name) = (customer(number), number as i64);
        if !is_insert(number) {
            let set = |field: &str| -> UpdateModifications { doc! { "$set": { field: name } }.into() };
            let renamed = self.customers.update_one(doc! { "_id": id }, set("name"));
            renamed.session(&mut *session).await?;
            let copies = self
                .orders
                .update_many(doc! { "customer._id": id }, set("customer.name"));
            copies.session(session).await?;
            return Ok(());
        }
        let customer = self
            .customers
            .find_one(doc! { "_id": id })
            .session(&mut *session)
            .await?;
        let order = doc! { "number": name, "customer": customer.unwrap_or_default() };
        self.orders.insert_one(order).session(session).await?;
        Ok(())
    }

    /// Runs the commands in a transaction, and retries it as the driver does.
    async fn in_transaction(&self, number: u64) -> Result<(), Failure> {
        let mut session = self.orders.client().start_session().await?;
        loop {
            session.start_transaction().await?;
            let error = match self.send(number, &mut session).await {
                Ok(()) => match self.commit(&mut session).await {
                    Ok(()) => return Ok(()),
                    Err(error) => error,
                },
                Err(error) => {
                    // The server ends a transaction that is not aborted.
                    let _ = session.abort_transaction().await;
                    error
                }
            };
            if !error.contains_label(TRANSIENT_TRANSACTION_ERROR) {
                return Err(error.into());
            }
        }
    }

    async fn commit(&self, session: &mut ClientSession) -> Result<(), DriverError> {
        loop {
            match session.commit_transaction().await {
                Err(error) if error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) => {}
                committed => return committed,
            }
        }
    }
}

/// Checks the stored documents. A service calls `repair` after a crash: the recipes have no such call.
pub(super) async fn check(source: Source, database: &Database, ledger: &Ledger) -> Result<Hazards> {
    if source == Source::Ours {
        let _: Vec<_> = orders(database)?.repair().stream().try_collect().await?;
    }
    let (customers, orders) = (all(database, SOURCES).await?, all(database, ORDERS).await?);
    hazards(&customers, &orders, ledger)
}

/// An order is stale if it has another name than its customer, and wrong without a customer.
fn hazards(customers: &[Document], orders: &[Document], ledger: &Ledger) -> Result<Hazards> {
    let mut names = BTreeMap::new();
    for customer in customers {
        names.insert(integer(customer, "_id")?, integer(customer, "name")?);
    }
    let mut times = Times::default();
    let (mut stale, mut wrong) = (0, 0);
    for order in orders {
        times.add(integer(order, "number")?);
        let copy = order.get_document("customer")?;
        match names.get(&integer(copy, "_id")?) {
            Some(name) => stale += u64::from(integer(copy, "name")? != *name),
            None => wrong += 1,
        }
    }
    Ok(Hazards {
        lost: times.lost(ledger, is_insert),
        doubled: times.doubled(),
        stale: Some(stale),
        gaps: None,
        wrong,
    })
}

#[cfg(test)]
mod tests {
    use super::super::load::Fate;
    use super::*;

    fn order(number: i64, customer: i64, name: i64) -> Document {
        doc! { "number": number, "customer": { "_id": customer, "name": name } }
    }

    fn found(orders: &[Document]) -> Hazards {
        let customers = [
            doc! { "_id": 0_i64, "name": 7_i64 },
            doc! { "_id": 1_i64, "name": 8_i64 },
        ];
        let mut fates = [Fate::Unknown; 20];
        let first = (0..20).find(|number| is_insert(*number)).unwrap();
        fates[first as usize] = Fate::Acknowledged;
        hazards(&customers, orders, &Ledger::of(&fates)).unwrap()
    }

    #[test]
    fn each_hazard_is_found() {
        let first = (0..20).find(|number| is_insert(*number)).unwrap() as i64;
        let none = Hazards {
            stale: Some(0),
            ..Hazards::default()
        };
        assert_eq!(found(&[order(first, 0, 7), order(-1, 1, 8)]), none);
        assert_eq!(found(&[order(-1, 1, 8)]), Hazards { lost: 1, ..none });
        let twice = [order(first, 0, 7), order(first, 0, 7)];
        assert_eq!(found(&twice), Hazards { doubled: 1, ..none });
        let stale = Hazards { stale: Some(1), ..none };
        assert_eq!(found(&[order(first, 0, 8)]), stale);
        assert_eq!(found(&[order(first, 2, 8)]), Hazards { wrong: 1, ..none });
    }
}
