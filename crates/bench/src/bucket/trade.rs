//! The items: trades as in the manual.

use std::sync::Arc;

use mongodb::bson::DateTime;
use serde::{Deserialize, Serialize};

/// 2023-10-26T15:47:03Z, the second of the manual's first trade.
pub(super) const SECOND: i64 = 1_698_335_223;

const TICKERS: [&str; 16] = [
    "MDB", "GOOG", "MSFT", "AAPL", "AMZN", "NVDA", "ORCL", "IBM", "INTC", "CSCO", "TSLA", "META", "NFLX", "ADBE",
    "QCOM", "AMD",
];

/// Returns pseudorandom bits of a number, the same in every run, because regular data would be compressed away. This is
/// SplitMix64.
pub(crate) fn scatter(n: u64) -> u64 {
    let mut bits = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Trade {
    #[serde(rename = "type")]
    pub(super) side: String,
    pub(super) ticker: String,
    pub(super) qty: i32,
    pub(super) date: DateTime,
}

impl Trade {
    /// Returns trade `n`, at a time in milliseconds.
    pub(super) fn at(n: u64, millis: i64) -> Self {
        let random = scatter(n);
        Self {
            side: if random.is_multiple_of(2) { "buy" } else { "sell" }.to_owned(),
            ticker: TICKERS[(random >> 8) as usize % TICKERS.len()].to_owned(),
            qty: (random >> 16) as u16 as i32 + 1,
            date: DateTime::from_millis(millis),
        }
    }

    /// Returns this number of trades, one per second.
    pub(super) fn spread(count: u64) -> Arc<[Self]> {
        let trades = (0..count).map(|n| Self::at(n, (SECOND + n as i64) * 1000 + 434));
        trades.collect()
    }

    pub(super) fn second(&self) -> i64 {
        self.date.timestamp_millis().div_euclid(1000)
    }
}

/// A trade as a document of its own, without the pattern.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FlatTrade {
    #[serde(rename = "customerId")]
    pub(super) customer: u32,
    #[serde(rename = "type")]
    pub(super) side: String,
    pub(super) ticker: String,
    pub(super) qty: i32,
    pub(super) date: DateTime,
}

impl FlatTrade {
    pub(super) fn new(customer: u32, trade: &Trade) -> Self {
        Self {
            customer,
            side: trade.side.clone(),
            ticker: trade.ticker.clone(),
            qty: trade.qty,
            date: trade.date,
        }
    }
}
