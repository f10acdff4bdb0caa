//! Renames and inserts at once, and the copies that they leave stale.

use anyhow::Result;
use mongodb::bson::doc;

use super::by_hand;
use super::orders::{Orders, order, rename};
use crate::bench::Bench;
use crate::bucket::scatter;
use crate::measure::{Operation, Variant, compare, in_tasks, operation};
use crate::report::{Comparison, Section};

const TEXT: &str = "\
Writers rename eight customers and insert orders of them at random, one rename for three inserts, beginning with 30 \
orders for each customer. `stale copies` are orders with another name than their customer, after all calls have returned \
in one more run. Rows are compared with the manual's commands.";

const CUSTOMERS: i64 = 8;
/// The orders of each customer at the beginning.
const EXISTING: i64 = 30;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Ours,
    Manual,
    Transaction,
}

impl Form {
    const ALL: [Self; 3] = [Self::Ours, Self::Manual, Self::Transaction];

    fn name(self) -> &'static str {
        match self {
            Self::Ours => "update_source, insert",
            Self::Manual => "the manual's commands",
            Self::Transaction => "the same in transactions",
        }
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let mut section = Section::new("renames-and-inserts", "Renames and inserts at once", TEXT);
    for (title, tasks, calls) in [
        ("8 writers", 8, bench.pick(800, 64)),
        ("64 writers", 64, bench.pick(1280, 128)),
    ] {
        let variants = Form::ALL.map(|form| {
            let orders = Orders::timed(bench, "mixed");
            let variant = Variant::new(form.name(), calls, move || {
                let orders = orders.clone();
                async move { Ok(in_tasks(tasks, calls, prepared(form, &orders).await?)) }
            });
            let variant = variant.against(Form::Manual.name());
            if form == Form::Ours { variant.ours() } else { variant }
        });
        let entries = compare(bench, title, variants.into()).await?;
        let mut comparison = Comparison::new(title, "call", entries).with_server_ratios();
        for form in Form::ALL {
            let orders = Orders::timed(bench, "mixed");
            in_tasks(tasks, calls, prepared(form, &orders).await?).await?;
            comparison.figure(form.name(), "stale copies", orders.stale().await? as f64);
        }
        section.add(&comparison);
    }
    Ok(section)
}

async fn prepared(form: Form, orders: &Orders) -> Result<Operation> {
    orders
        .filled(form == Form::Ours, CUSTOMERS, CUSTOMERS * EXISTING)
        .await?;
    let (orders, repository) = (orders.clone(), orders.repository()?);
    Ok(operation(move |number| {
        let (orders, repository) = (orders.clone(), repository.clone());
        let random = scatter(number);
        let (is_rename, customer) = (random.is_multiple_of(4), (random >> 8) as i64 % CUSTOMERS);
        let id = format!("{number:08}");
        async move {
            match (form, is_rename) {
                (Form::Ours, true) => drop(repository.update_source(customer, rename(number)).await?),
                (Form::Ours, false) => drop(repository.insert(&order(id, doc! { "_id": customer })).await?),
                (Form::Manual, true) => by_hand::rename_all(&orders, customer, number).await?,
                (Form::Manual, false) => by_hand::insert(&orders, &id, customer).await?,
                (Form::Transaction, true) => {
                    by_hand::rename_in_a_transaction(&orders, customer, number).await?;
                }
                (Form::Transaction, false) => by_hand::insert_in_a_transaction(&orders, &id, customer).await?,
            }
            Ok(())
        }
    }))
}
