//! Parses the CDNOW purchase log: customer id, date, number of CDs, dollars, after one header line.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use mongodb::bson::DateTime;
use serde::{Deserialize, Serialize};

/// The sample in this repository.
pub const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/cdnow_sample.txt");

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Purchase {
    pub date: DateTime,
    pub cds: i32,
    pub dollars: f64,
}

/// Returns the purchases of each customer, in the order of the log.
pub fn read(path: &Path) -> Result<BTreeMap<String, Vec<Purchase>>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut customers: BTreeMap<String, Vec<Purchase>> = BTreeMap::new();
    for (index, line) in text.lines().enumerate().skip(1) {
        if line.trim().is_empty() {
            continue;
        }
        let (customer, purchase) = parse(line).with_context(|| format!("{} line {}", path.display(), index + 1))?;
        customers.entry(customer).or_default().push(purchase);
    }
    Ok(customers)
}

fn parse(line: &str) -> Result<(String, Purchase)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [customer, date, cds, dollars] = fields.as_slice() else {
        bail!("expected 4 columns, found {}", fields.len());
    };
    if date.len() != 8 || !date.is_ascii() {
        bail!("expected a date as YYYYMMDD");
    }
    let midnight = format!("{}-{}-{}T00:00:00Z", &date[..4], &date[4..6], &date[6..]);
    let purchase = Purchase {
        date: DateTime::parse_rfc3339_str(midnight)?,
        cds: cds.parse().context("number of CDs")?,
        dollars: dollars.parse().context("dollars")?,
    };
    Ok(((*customer).to_owned(), purchase))
}

/// Converts dollars to cents, whose sums are exact.
pub fn cents(purchase: &Purchase) -> i64 {
    #[allow(clippy::cast_possible_truncation)] // amounts of the log are far below 2^53 cents
    let cents = (purchase.dollars * 100.0).round() as i64;
    cents
}
