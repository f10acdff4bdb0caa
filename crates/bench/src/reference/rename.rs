//! Renames of a customer with many orders.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use mongodb::bson::{Document, doc};

use super::by_hand;
use super::orders::{Orders, rename};
use crate::bench::Bench;
use crate::counts::{number, round_trips};
use crate::measure::{Operation, Variant, compare, in_tasks, operation};
use crate::report::{Comparison, Section};

const TEXT: &str = "\
One customer is renamed again and again, with the copies in all of their orders. By hand this is an `updateOne` and an \
`updateMany`, with an index by the customer's id. The repository has this index too, and also keeps a version in the \
customer and in each copy. A transaction holds all of its \
documents until the commit, so it is not run with 100,000 copies. `journal KB` is what the server writes to its journal \
for a rename. Rows are compared with the two commands by hand.";

static NEXT: AtomicU64 = AtomicU64::new(1_000);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Ours,
    ByHand,
    Transaction,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Self::Ours => "update_source",
            Self::ByHand => "update_one, update_many",
            Self::Transaction => "the same in a transaction",
        }
    }

    /// Returns the prefix of its collections.
    fn prefix(self) -> &'static str {
        match self {
            Self::Ours => "renamed",
            _ => "renamed_by_hand",
        }
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let mut section = Section::new("rename", "Rename a customer", TEXT);
    for (title, copies, renames) in [
        ("10 copies", 10, bench.pick(500, 5)),
        ("1,000 copies", 1000, bench.pick(30, 2)),
        ("100,000 copies", bench.pick(100_000, 2000), 1),
    ] {
        for form in [Form::Ours, Form::ByHand] {
            let orders = Orders::timed(bench, form.prefix());
            orders.filled(form == Form::Ours, 1, copies).await?;
        }
        let forms = match title {
            "100,000 copies" => vec![Form::Ours, Form::ByHand],
            _ => vec![Form::Ours, Form::ByHand, Form::Transaction],
        };
        let variants = forms.iter().map(|&form| {
            let orders = Orders::timed(bench, form.prefix());
            let variant = Variant::new(form.name(), renames, move || {
                let orders = orders.clone();
                async move { Ok(in_tasks(1, renames, renaming(form, &orders, copies).await?)) }
            });
            let variant = variant.against(Form::ByHand.name());
            if form == Form::Ours { variant.ours() } else { variant }
        });
        let entries = compare(bench, title, variants.collect()).await?;
        let mut comparison = Comparison::new(title, "rename", entries).with_server_ratios();
        for &form in &forms {
            let orders = Orders::recorded(bench, form.prefix());
            let renaming = renaming(form, &orders, copies).await?;
            let before = journal(&orders).await?;
            let trips = round_trips(bench, 1, renaming(77)).await?;
            let written = journal(&orders).await? - before;
            comparison.figure(form.name(), "round trips", trips);
            comparison.figure(form.name(), "journal KB", written / 1000.0);
        }
        section.add(&comparison);
    }
    Ok(section)
}

/// Returns how many bytes the server has written to its journal.
async fn journal(orders: &Orders) -> Result<f64> {
    let admin = orders.orders.client().database("admin");
    let status: Document = admin.run_command(doc! { "serverStatus": 1 }).await?;
    let log = status.get_document("wiredTiger")?.get_document("log")?;
    number(log, "log bytes of payload data").context("the journal of the server")
}

/// Returns renames whose names differ from those before.
async fn renaming(form: Form, orders: &Orders, copies: i64) -> Result<Operation> {
    let (orders, repository) = (orders.clone(), orders.repository()?);
    if form == Form::Ours {
        // Checks the indexes, as the first update does once. There is no such customer.
        let unknown = repository.update_source(-1_i64, rename(0)).await;
        ensure!(unknown.is_err(), "an unknown customer was renamed");
    }
    // Names that no earlier run has used.
    let first = NEXT.fetch_add(1_000, Ordering::Relaxed);
    Ok(operation(move |n| {
        let (orders, repository) = (orders.clone(), repository.clone());
        let n = first + n;
        async move {
            match form {
                Form::Ours => {
                    let updated = repository.update_source(0_i64, rename(n)).await?;
                    ensure!(updated.copies == copies as u64, "copies were not updated");
                }
                Form::ByHand => by_hand::rename_all(&orders, 0, n).await?,
                Form::Transaction => by_hand::rename_in_a_transaction(&orders, 0, n).await?,
            }
            Ok(())
        }
    }))
}
