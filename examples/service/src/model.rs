//! The documents, as they are stored.

use mongodb::bson::{DateTime, Decimal128};
use serde::{Deserialize, Serialize};

/// A trade as stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Trade {
    #[serde(rename = "tradeId")]
    pub(crate) id: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) ticker: String,
    pub(crate) qty: i32,
    pub(crate) date: DateTime,
}

impl Trade {
    /// Returns whether a repeated request has the same trade. The date is that of the first request.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.id, &self.kind, &self.ticker, self.qty) == (&other.id, &other.kind, &other.ticker, other.qty)
    }

    pub(crate) fn describe(&self) -> String {
        format!("{} {} {}", self.kind, self.qty, self.ticker)
    }
}

/// A book as stored, with its first buyers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Book {
    #[serde(rename = "_id")]
    pub(crate) id: i32,
    pub(crate) title: String,
    pub(crate) author: String,
    #[serde(default)]
    pub(crate) customers_purchased: Vec<String>,
}

/// A product as stored, with its newest reviews.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Product {
    #[serde(rename = "_id")]
    pub(crate) id: i32,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) price: Price,
    #[serde(default)]
    pub(crate) reviews: Vec<Review>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Price {
    pub(crate) value: Decimal128,
    pub(crate) currency: String,
}

/// A review as stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Review {
    pub(crate) review_id: String,
    /// The copy in the product does not contain it.
    #[serde(default)]
    pub(crate) product_id: i32,
    pub(crate) review_author: String,
    pub(crate) review_text: String,
    pub(crate) published_date: DateTime,
}

impl Review {
    /// Returns whether a repeated request has the same review. The date is that of the first request.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.review_id, &self.review_author, &self.review_text)
            == (&other.review_id, &other.review_author, &other.review_text)
    }
}

/// A patron, as stored and as sent to clients.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Patron {
    #[serde(rename = "_id")]
    pub(crate) id: String,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) addresses: Vec<Address>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Address {
    pub(crate) id: String,
    pub(crate) street: String,
    pub(crate) city: String,
    pub(crate) state: String,
    pub(crate) zip: String,
}

/// The field with the name of who made a change.
pub(crate) const CHANGED_BY: &str = "changedBy";

/// A policy, as stored and as sent to clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Policy {
    pub(crate) policy_id: i32,
    pub(crate) customer_name: String,
    pub(crate) items_insured: Vec<String>,
}

impl Policy {
    pub(crate) fn is_same_content(&self, other: &Self) -> bool {
        (&self.customer_name, &self.items_insured) == (&other.customer_name, &other.items_insured)
    }
}

/// An order, as stored and as sent to clients.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    #[serde(rename = "_id")]
    pub(crate) id: String,
    pub(crate) buyer: BuyerCopy,
    pub(crate) total: i32,
}

/// The part of a buyer that an order shows. The repository sets everything but the id.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct BuyerCopy {
    #[serde(rename = "_id")]
    pub(crate) id: i32,
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) city: String,
    /// Set when the buyer was removed, and their orders were kept.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) deleted: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature is serde's
fn is_false(value: &bool) -> bool {
    !value
}

impl Order {
    /// Returns an order to insert.
    pub(crate) fn new(id: &str, buyer: i32, total: i32) -> Self {
        Self {
            id: id.to_owned(),
            buyer: BuyerCopy {
                id: buyer,
                ..BuyerCopy::default()
            },
            total,
        }
    }
}

/// A buyer, as stored and as sent to clients.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Buyer {
    #[serde(rename = "_id")]
    pub(crate) id: i32,
    pub(crate) name: String,
    pub(crate) city: String,
}
