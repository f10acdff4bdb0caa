//! The web service of the tutorial in the book: the trades of a customer, page by page.
//!
//! The comments `ANCHOR` mark the parts of which the book has copies.

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use mongo_patterns::Fields;
use mongo_patterns::mongodb::Database;
use mongo_patterns::mongodb::bson::{DateTime, Document};
use mongo_patterns::prelude::*;
use serde::{Deserialize, Serialize};

// ANCHOR: trade
/// A trade, as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Fields)]
pub struct Trade {
    /// Identifies the trade among those of its customer.
    #[serde(rename = "tradeId")]
    pub id: String,
    /// The traded share.
    pub ticker: String,
    /// The number of shares.
    pub qty: i32,
    /// The time of the trade.
    pub date: DateTime,
}
// ANCHOR_END: trade

// ANCHOR: repository
/// The trades of all customers. Cloning it is cheap.
pub type Trades = BucketRepository<u32, Trade>;

/// Returns the repository. It sends no command.
///
/// # Errors
/// For invalid settings, such as a field name with a dot.
pub fn trades(database: &Database) -> mongo_patterns::Result<Trades> {
    BucketRepository::builder(database.collection::<Document>("trades"))
        .key_field("customerId")
        .items_field("history")
        .time_field(Trade::DATE)
        .item_id_field(Trade::ID)
        .page_size(10)
        .build()
}
// ANCHOR_END: repository

// ANCHOR: router
/// Returns the routes of the service. The repository is their state.
pub fn router(trades: Trades) -> Router {
    Router::new()
        .route("/customers/{customer}/trades", get(list).post(add))
        .with_state(trades)
}
// ANCHOR_END: router

// ANCHOR: list
/// A trade, as clients get it.
#[derive(Serialize)]
struct Shown {
    id: String,
    ticker: String,
    qty: i32,
    date: String,
}

#[derive(Serialize)]
struct Page {
    trades: Vec<Shown>,
    next: Option<PageToken>,
}

#[derive(Deserialize)]
struct Position {
    after: Option<PageToken>,
}

async fn list(
    State(trades): State<Trades>,
    Path(customer): Path<u32>,
    Query(position): Query<Position>,
) -> Result<Json<Page>, Problem> {
    let buckets = trades.buckets(&customer).newest_first().limit(1).after(position.after);
    let page = buckets.page().await?;
    let items = page.items.into_iter().flat_map(|bucket| bucket.items.into_iter().rev());
    Ok(Json(Page {
        trades: items.map(Shown::from).collect(),
        next: page.next,
    }))
}
// ANCHOR_END: list

impl From<Trade> for Shown {
    fn from(trade: Trade) -> Self {
        Self {
            id: trade.id,
            ticker: trade.ticker,
            qty: trade.qty,
            date: trade.date.try_to_rfc3339_string().unwrap_or_default(),
        }
    }
}

// ANCHOR: add
#[derive(Deserialize)]
struct NewTrade {
    id: String,
    ticker: String,
    qty: i32,
}

async fn add(
    State(trades): State<Trades>,
    Path(customer): Path<u32>,
    Json(new): Json<NewTrade>,
) -> Result<StatusCode, Problem> {
    let trade = Trade {
        id: new.id,
        ticker: new.ticker,
        qty: new.qty,
        date: DateTime::now(),
    };
    let appended = trades.append(&customer, &trade).await?;
    Ok(match appended.already_there {
        true => StatusCode::OK,
        false => StatusCode::CREATED,
    })
}
// ANCHOR_END: add

// ANCHOR: problem
/// An error, as clients get it.
struct Problem(Error);

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self(error) = self;
        if error.is_transient() || error.is_outcome_unknown() {
            // The trade has an id, so the client can send the request again in both cases.
            return (StatusCode::SERVICE_UNAVAILABLE, "try again in a moment").into_response();
        }
        if error.is_invalid_input() {
            return (StatusCode::BAD_REQUEST, error.to_string()).into_response();
        }
        eprintln!("{error}");
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}
// ANCHOR_END: problem
