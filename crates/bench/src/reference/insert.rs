//! Inserts of orders.

use anyhow::Result;
use mongodb::bson::doc;

use super::by_hand;
use super::orders::{Orders, order};
use crate::bench::Bench;
use crate::counts::round_trips;
use crate::measure::{Operation, Variant, compare, in_tasks, operation};
use crate::report::{Comparison, Section};

const TEXT: &str = "\
Orders of 64 customers in turn are inserted, from one writer, from eight and from 64. By hand, the customer is read, \
and the order inserted with a copy. The repository reads the customer again after that, so that the copy is current \
also when the customer was renamed in between. Rows are compared with the two commands by hand.";

const CUSTOMERS: i64 = 64;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Ours,
    ByHand,
    Transaction,
    Plain,
}

impl Form {
    const ALL: [Self; 4] = [Self::Ours, Self::ByHand, Self::Transaction, Self::Plain];

    fn name(self) -> &'static str {
        match self {
            Self::Ours => "insert",
            Self::ByHand => "find_one, insert_one",
            Self::Transaction => "the same in a transaction",
            Self::Plain => "insert_one, no copy",
        }
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let mut section = Section::new("insert-order", "Insert an order", TEXT);
    for (title, tasks, inserts) in [
        ("One writer", 1, bench.pick(1000, 16)),
        ("8 writers", 8, bench.pick(2400, 32)),
        ("64 writers", 64, bench.pick(3200, 128)),
    ] {
        let variants = Form::ALL.map(|form| {
            let orders = Orders::timed(bench, "inserted");
            let variant = Variant::new(form.name(), inserts, move || {
                let orders = orders.clone();
                async move {
                    orders.filled(form == Form::Ours, CUSTOMERS, 0).await?;
                    Ok(in_tasks(tasks, inserts, inserting(form, &orders)?))
                }
            });
            let variant = variant.against(Form::ByHand.name());
            if form == Form::Ours { variant.ours() } else { variant }
        });
        let entries = compare(bench, title, variants.into()).await?;
        let mut comparison = Comparison::new(title, "insert", entries).with_server_ratios();
        for form in Form::ALL {
            let orders = Orders::recorded(bench, "counted");
            orders.filled(form == Form::Ours, CUSTOMERS, 0).await?;
            let work = in_tasks(1, 16, inserting(form, &orders)?);
            comparison.figure(form.name(), "round trips", round_trips(bench, 16, work).await?);
        }
        section.add(&comparison);
    }
    Ok(section)
}

fn inserting(form: Form, orders: &Orders) -> Result<Operation> {
    let (orders, repository) = (orders.clone(), orders.repository()?);
    Ok(operation(move |number| {
        let (orders, repository) = (orders.clone(), repository.clone());
        let (id, customer) = (format!("{number:08}"), number as i64 % CUSTOMERS);
        async move {
            match form {
                Form::Ours => drop(repository.insert(&order(id, doc! { "_id": customer })).await?),
                Form::ByHand => by_hand::insert(&orders, &id, customer).await?,
                Form::Transaction => by_hand::insert_in_a_transaction(&orders, &id, customer).await?,
                Form::Plain => drop(orders.orders.insert_one(order(id, doc! { "_id": customer })).await?),
            }
            Ok(())
        }
    }))
}
