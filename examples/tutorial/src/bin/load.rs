//! Loads a file of trades.

// ANCHOR: program
use std::collections::BTreeMap;
use std::env;
use std::error::Error;

use mongo_patterns::Repository;
use mongo_patterns::mongodb::Client;
use mongo_patterns::mongodb::bson::DateTime;
use tutorial::Trade;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = env::args().nth(1).ok_or("pass the name of a file")?;
    let client = Client::with_uri_str(env::var("MONGODB_URI")?).await?;
    let trades = tutorial::trades(&client.database("tutorial"))?;
    trades.ensure_indexes().await?;

    let mut histories: BTreeMap<u32, Vec<Trade>> = BTreeMap::new();
    for line in std::fs::read_to_string(file)?.lines().skip(1) {
        let columns: Vec<&str> = line.split(',').collect();
        let [customer, id, ticker, qty, date] = columns[..] else {
            return Err(format!("not a trade: {line}").into());
        };
        let trade = Trade {
            id: id.to_owned(),
            ticker: ticker.to_owned(),
            qty: qty.parse()?,
            date: DateTime::parse_rfc3339_str(date)?,
        };
        histories.entry(customer.parse()?).or_default().push(trade);
    }
    for (customer, history) in &histories {
        let appended = trades.append_many(customer, history).await?;
        let (stored, before) = (appended.items, appended.already_there);
        println!("customer {customer}: {stored} trades stored, {before} stored before");
    }
    Ok(())
}
// ANCHOR_END: program
