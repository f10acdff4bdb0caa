//! Prints the newest page of a customer's trades.

// ANCHOR: program
use std::env;
use std::error::Error;

use mongo_patterns::mongodb::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let customer: u32 = env::args().nth(1).ok_or("pass the id of a customer")?.parse()?;
    let client = Client::with_uri_str(env::var("MONGODB_URI")?).await?;
    let trades = tutorial::trades(&client.database("tutorial"))?;

    let newest = trades.buckets(&customer).newest_first().limit(1).page().await?;
    for page in newest.items {
        println!("page {}, {} trades", page.id, page.items.len());
        for trade in page.items {
            println!(
                "  {} {} {} {}",
                trade.date.try_to_rfc3339_string()?,
                trade.id,
                trade.ticker,
                trade.qty
            );
        }
    }
    Ok(())
}
// ANCHOR_END: program
