//! A customer's trades: the bucket pattern. A page of the site is one document.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use maud::{Markup, html};
use mongo_patterns::prelude::*;
use mongodb::bson::DateTime;
use serde::{Deserialize, Serialize};

use crate::input::{Fields, Ids, PageQuery};
use crate::layout::{self, new_id, pager, remove_button, segment};
use crate::problem::{self, Problem};
use crate::reply::{self, Wants};
use crate::store::Store;

const KINDS: [&str; 2] = ["buy", "sell"];

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
    fn is_same(&self, other: &Self) -> bool {
        (&self.id, &self.kind, &self.ticker, self.qty) == (&other.id, &other.kind, &other.ticker, other.qty)
    }
}

/// A trade as sent to clients.
#[derive(Serialize)]
struct View<'a> {
    id: &'a str,
    kind: &'a str,
    ticker: &'a str,
    qty: i32,
    date: String,
}

impl<'a> From<&'a Trade> for View<'a> {
    fn from(trade: &'a Trade) -> Self {
        Self {
            id: &trade.id,
            kind: &trade.kind,
            ticker: &trade.ticker,
            qty: trade.qty,
            date: layout::rfc3339(trade.date),
        }
    }
}

#[derive(Serialize)]
struct Page<'a> {
    customer: u32,
    trades: Vec<View<'a>>,
    previous: Option<String>,
    next: Option<String>,
}

pub(crate) fn routes() -> Router<Store> {
    Router::new()
        .route("/customers/{customer}/trades", get(list).post(add))
        .route(
            "/customers/{customer}/trades/{trade}",
            get(show).put(replace).delete(remove),
        )
        .route("/customers/{customer}/trades/{trade}/remove", post(remove))
}

fn path(customer: u32) -> String {
    format!("/customers/{customer}/trades")
}

fn path_of(customer: u32, trade: &str) -> String {
    format!("{}/{}", path(customer), segment(trade))
}

#[derive(Deserialize)]
struct Cursor {
    after: Option<PageToken>,
    before: Option<PageToken>,
}

/// Returns the newest page, or the one at a token. Two pages are read, to know whether another one exists.
async fn list(
    State(store): State<Store>,
    wants: Wants,
    Ids(customer): Ids<u32>,
    PageQuery(cursor): PageQuery<Cursor>,
) -> Result<Response, Problem> {
    let pages = store.trades.pages(&customer).newest_first().limit(2);
    let back = cursor.before.is_some();
    let slice = match cursor.before {
        Some(token) => pages.before(token).await?,
        None => pages.after(cursor.after).await?,
    };
    let more = slice.pages.len() > 1;
    let shown = if back { slice.pages.last() } else { slice.pages.first() };
    let token = shown.map(|page| page.token().to_string());
    let has_newer = if back { more } else { slice.previous.is_some() };
    let has_older = back || more;
    let trades: Vec<&Trade> = shown.map(|page| page.items.iter().rev().collect()).unwrap_or_default();

    let link = |suffix: &str, parameter: &str, exists: bool| {
        let token = token.as_ref().filter(|_| exists)?;
        Some(format!("{}{suffix}?{parameter}={token}", path(customer)))
    };
    let page = Page {
        customer,
        trades: trades.iter().map(|trade| View::from(*trade)).collect(),
        previous: link(".json", "before", has_newer),
        next: link(".json", "after", has_older),
    };
    let html = || {
        let (newer, older) = (link("", "before", has_newer), link("", "after", has_older));
        html! {
            (table(customer, &trades))
            (pager(newer.as_deref().map(|path| (path, "Newer")), older.as_deref().map(|path| (path, "Older"))))
            (form(customer))
        }
    };
    Ok(reply::found(
        wants,
        &page,
        &format!("Trades of customer {customer}"),
        html,
    ))
}

fn table(customer: u32, trades: &[&Trade]) -> Markup {
    html! {
        @if trades.is_empty() {
            p { "No trades on this page." }
        } @else {
            div .scroll {
                table {
                    caption { "Newest first; times are UTC" }
                    thead {
                        tr {
                            th scope="col" { "Time" }
                            th scope="col" { "Type" }
                            th scope="col" { "Ticker" }
                            th .number scope="col" { "Quantity" }
                            th scope="col" { span .hidden { "Remove" } }
                        }
                    }
                    tbody {
                        @for trade in trades {
                            tr {
                                td { (layout::time(trade.date)) }
                                td { (trade.kind) }
                                td { (trade.ticker) }
                                td .number { (trade.qty) }
                                td {
                                    (remove_button(
                                        &path_of(customer, &trade.id),
                                        &format!("{} {} {}", trade.kind, trade.qty, trade.ticker),
                                    ))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn form(customer: u32) -> Markup {
    html! {
        h2 { "Add a trade" }
        form method="post" action=(path(customer)) {
            (new_id())
            label { "Type" select name="kind" { @for kind in KINDS { option { (kind) } } } }
            label { "Ticker" input name="ticker" required maxlength="12" autocomplete="off"; }
            label { "Quantity" input name="qty" type="number" required min="1" max="1000000"; }
            button { "Add" }
        }
    }
}

/// Reads a trade with the current time.
fn read(mut fields: Fields, id: Option<String>) -> Result<Trade, Problem> {
    let trade = Trade {
        id: id.unwrap_or_else(|| fields.id("id")),
        kind: fields.one_of("kind", &KINDS),
        ticker: fields.text("ticker", 12),
        qty: fields.number("qty", 1_000_000),
        date: DateTime::now(),
    };
    fields.done()?;
    Ok(trade)
}

async fn add(
    State(store): State<Store>,
    wants: Wants,
    Ids(customer): Ids<u32>,
    fields: Fields,
) -> Result<Response, Problem> {
    let mut trade = read(fields, None)?;
    let appended = store.trades.append(&customer, &trade).await?;
    if appended.already_there {
        let stored = store.trades.item(&customer, trade.id.as_str()).await?;
        let stored = stored.filter(|stored| stored.is_same(&trade));
        trade = stored.ok_or_else(|| Problem::of(&problem::TAKEN))?;
    }
    let new_path = path_of(customer, &trade.id);
    Ok(reply::stored(
        wants,
        !appended.already_there,
        &View::from(&trade),
        &new_path,
        &path(customer),
    ))
}

async fn show(
    State(store): State<Store>,
    wants: Wants,
    Ids((customer, id)): Ids<(u32, String)>,
) -> Result<Response, Problem> {
    let trade = store.trades.item(&customer, id).await?;
    let trade = trade.ok_or_else(|| Problem::of(&problem::NOT_FOUND))?;
    let html = || table(customer, &[&trade]);
    Ok(reply::found(wants, &View::from(&trade), "A trade", html))
}

/// Replaces a trade. It keeps its position and its date.
async fn replace(
    State(store): State<Store>,
    wants: Wants,
    Ids((customer, id)): Ids<(u32, String)>,
    fields: Fields,
) -> Result<Response, Problem> {
    let mut trade = read(fields, Some(id.clone()))?;
    let stored = store.trades.item(&customer, id).await?;
    trade.date = stored.ok_or_else(|| Problem::of(&problem::NOT_FOUND))?.date;
    store.trades.replace_item(&customer, &trade).await?;
    Ok(reply::stored(wants, false, &View::from(&trade), "", &path(customer)))
}

async fn remove(
    State(store): State<Store>,
    wants: Wants,
    Ids((customer, id)): Ids<(u32, String)>,
) -> Result<Response, Problem> {
    store.trades.remove_item(&customer, id).await?;
    Ok(reply::removed(wants, &path(customer)))
}
