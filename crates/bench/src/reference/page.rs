//! The page of an order, and a list of orders.

use anyhow::{Context, Result, ensure};
use mongodb::bson::{Bson, Document, doc};

use super::by_hand;
use super::orders::Orders;
use crate::bench::Bench;
use crate::bucket::scatter;
use crate::counts::{bytes_sent, round_trips};
use crate::measure::{Operation, Variant, compare, in_tasks, operation};
use crate::report::{Comparison, Section};

const TEXT: &str = "\
One reader opens orders at random, and decodes them with the name and the address of their customer. There are ten \
orders for each customer. With the pattern this is one find. Without it, it is two finds, or an aggregation with \
`$lookup` by the `_id` of the customer, and the orders have the id alone. A list has a hundred orders with consecutive ids, of a hundred customers; with \
the pattern it is a plain find. Rows are compared with the pattern.";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Copies,
    TwoFinds,
    Lookup,
}

impl Form {
    const ALL: [Self; 3] = [Self::Copies, Self::TwoFinds, Self::Lookup];

    fn name(self, listed: i64) -> &'static str {
        match self {
            Self::Copies if listed == 1 => "get",
            Self::Copies => "one find",
            Self::TwoFinds => "two finds",
            Self::Lookup => "$lookup",
        }
    }

    /// Returns the prefix of the collections that it reads.
    fn prefix(self) -> &'static str {
        match self {
            Self::Copies => "page",
            _ => "page_of_ids",
        }
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let stored = bench.pick(10_000, 400);
    for form in [Form::Copies, Form::Lookup] {
        let orders = Orders::timed(bench, form.prefix());
        orders.filled(form == Form::Copies, stored / 10, stored).await?;
    }
    let copied = doc! { "customer.name": "", "customer.address": "", "customer.v": "" };
    let of_ids = Orders::timed(bench, Form::Lookup.prefix()).orders;
    of_ids.update_many(doc! {}, doc! { "$unset": copied }).await?;
    let mut section = Section::new("order-page", "The page of an order", TEXT);
    for (title, listed, reads) in [
        ("One order", 1, bench.pick(2000, 5)),
        ("A list of 100 orders", 100, bench.pick(300, 5)),
    ] {
        let variants = Form::ALL.map(|form| {
            let orders = Orders::timed(bench, form.prefix());
            let variant = Variant::new(form.name(listed), reads, move || {
                let reading = reading(form, &orders, listed, stored);
                async move { Ok(in_tasks(1, reads, reading?)) }
            });
            let variant = variant.against(Form::Copies.name(listed));
            if form == Form::Copies { variant.ours() } else { variant }
        });
        let entries = compare(bench, title, variants.into()).await?;
        let mut comparison = Comparison::new(title, "page", entries).with_server_ratios();
        for form in Form::ALL {
            let reading = reading(form, &Orders::recorded(bench, form.prefix()), listed, stored)?;
            let trips = round_trips(bench, 1, reading(0)).await?;
            comparison.figure(form.name(listed), "round trips", trips);
            let bytes = bytes_sent(bench, reading(0)).await?;
            comparison.figure(form.name(listed), "KB sent", bytes / 1000.0);
        }
        section.add(&comparison);
    }
    Ok(section)
}

fn reading(form: Form, orders: &Orders, listed: i64, stored: i64) -> Result<Operation> {
    let (orders, repository) = (orders.clone(), orders.repository()?);
    let lists = (stored / listed) as u64;
    Ok(operation(move |n| {
        let (orders, repository) = (orders.clone(), repository.clone());
        let first = (scatter(n) % lists) as i64 * listed;
        async move {
            let filter = match listed {
                1 => doc! { "_id": first },
                _ => doc! { "_id": { "$gte": first, "$lt": first + listed } },
            };
            let found = match form {
                Form::Copies if listed == 1 => {
                    vec![repository.get(first).await?.context("the order does not exist")?]
                }
                Form::Copies => by_hand::find(&orders.orders, filter, listed).await?,
                Form::TwoFinds => by_hand::two_finds(&orders, filter, listed).await?,
                Form::Lookup => by_hand::lookup(&orders, filter, listed).await?,
            };
            ensure!(found.len() as i64 == listed, "{} orders were read", found.len());
            ensure!(found.iter().all(has_name), "an order has no customer");
            Ok(())
        }
    }))
}

/// Returns whether an order has the name of its customer. A `$lookup` returns an array.
fn has_name(order: &Document) -> bool {
    let customer = match order.get("customer") {
        Some(Bson::Array(customers)) => customers.first(),
        customer => customer,
    };
    let customer = customer.and_then(Bson::as_document);
    customer.is_some_and(|customer| customer.get_str("name").is_ok())
}
