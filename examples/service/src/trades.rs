//! A customer's trades: the bucket pattern. A page of the site is one document.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use maud::{Markup, html};
use mongo_patterns::prelude::*;
use mongodb::bson::DateTime;
use serde::{Deserialize, Serialize};

use crate::choose::{Choice, Choose};
use crate::input::{Fields, Ids, PageQuery};
use crate::layout::{self, new_id, pager, remove_link};
use crate::model::Trade;
use crate::problem::{self, Problem};
use crate::reply::{self, Wants};
use crate::section::{CUSTOMERS, segment};
use crate::store::Store;

const KINDS: [&str; 2] = ["buy", "sell"];

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
        .route("/customers", get(choose))
        .route("/customers/{customer}", get(to_trades))
        .route("/customers/{customer}/trades", get(list).post(add))
        .route(
            "/customers/{customer}/trades/{trade}",
            get(show).put(replace).delete(remove),
        )
        .route("/customers/{customer}/trades/{trade}/remove", get(confirm).post(remove))
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

impl Cursor {
    /// Returns the query of the page, so that a removal leads back to it.
    fn query(&self) -> String {
        match (&self.before, &self.after) {
            (Some(token), _) => format!("?before={token}"),
            (_, Some(token)) => format!("?after={token}"),
            _ => String::new(),
        }
    }
}

async fn choose(
    State(store): State<Store>,
    wants: Wants,
    PageQuery(query): PageQuery<Choose<u32>>,
) -> Result<Response, Problem> {
    if let Some(chosen) = query.chosen(wants, &CUSTOMERS) {
        return chosen;
    }
    let mut keys = store.trades.keys();
    if let Some(after) = &query.after {
        keys = keys.after(after);
    }
    let found = keys.limit(Choose::<u32>::needed() as u32).await?.into_iter();
    let choice = |id| Choice {
        id,
        title: format!("Customer {id}"),
    };
    Ok(query.list(wants, &CUSTOMERS, found.map(choice).collect()))
}

async fn to_trades(wants: Wants, Ids(customer): Ids<u32>) -> Redirect {
    Redirect::to(&format!("{}{}", path(customer), wants.suffix()))
}

/// Returns the newest page, or the one at a token. Two pages are read, to know whether another one exists.
async fn list(
    State(store): State<Store>,
    wants: Wants,
    Ids(customer): Ids<u32>,
    PageQuery(cursor): PageQuery<Cursor>,
) -> Result<Response, Problem> {
    let (query, back) = (cursor.query(), cursor.before.is_some());
    let buckets = store.trades.buckets(&customer).newest_first().limit(2);
    let slice = buckets.after(cursor.after).before(cursor.before).page().await?;
    let more = slice.items.len() > 1;
    let shown = if back { slice.items.last() } else { slice.items.first() };
    let token = shown.map(|page| page.token().to_string());
    let has_newer = if back { more } else { slice.previous.is_some() };
    let has_older = back || more;
    let trades: Vec<&Trade> = shown.map(|page| page.items.iter().rev().collect()).unwrap_or_default();

    if trades.is_empty() && query.is_empty() {
        return Ok(no_trades(wants, customer));
    }

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
            (form(customer))
            h2 { "All trades" }
            (table(customer, &trades, &query))
            (pager(newer.as_deref().map(|path| (path, "Newer")), older.as_deref().map(|path| (path, "Older"))))
            @if !query.is_empty() {
                p { a href=(path(customer)) { "The newest trades" } }
            }
            (CUSTOMERS.link())
        }
    };
    Ok(reply::found(
        wants,
        &page,
        &format!("Trades of customer {customer}"),
        html,
    ))
}

/// Responds for a customer without trades: a customer exists as long as they have one. The page has the form for it.
fn no_trades(wants: Wants, customer: u32) -> Response {
    if wants == Wants::Json {
        return Problem::unknown(&CUSTOMERS).into_response();
    }
    let page = html! {
        p { (CUSTOMERS.unknown) }
        (CUSTOMERS.link())
        (form(customer))
    };
    let title = format!("Customer {customer} not found");
    (StatusCode::NOT_FOUND, layout::document(&title, &page)).into_response()
}

fn table(customer: u32, trades: &[&Trade], query: &str) -> Markup {
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
                                    (remove_link(&path_of(customer, &trade.id), query, &trade.describe()))
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
    let html = || {
        html! {
            (table(customer, &[&trade], ""))
            p { a href=(path(customer)) { "All trades of the customer" } }
        }
    };
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

/// Asks before a removal.
async fn confirm(
    State(store): State<Store>,
    wants: Wants,
    Ids((customer, id)): Ids<(u32, String)>,
    PageQuery(cursor): PageQuery<Cursor>,
) -> Result<Response, Problem> {
    let trade = store.trades.item(&customer, id).await?;
    let trade = trade.ok_or_else(|| Problem::of(&problem::NOT_FOUND))?;
    let html = || {
        let query = cursor.query();
        let what = html! { (trade.describe()) ", " (layout::time(trade.date)) };
        let back = format!("{}{query}", path(customer));
        layout::confirm(&path_of(customer, &trade.id), &query, &what, &back)
    };
    Ok(reply::found(wants, &View::from(&trade), "Remove this trade?", html))
}

async fn remove(
    State(store): State<Store>,
    wants: Wants,
    Ids((customer, id)): Ids<(u32, String)>,
    PageQuery(cursor): PageQuery<Cursor>,
) -> Result<Response, Problem> {
    store.trades.remove_item(&customer, id).await?;
    Ok(reply::removed(wants, &format!("{}{}", path(customer), cursor.query())))
}
