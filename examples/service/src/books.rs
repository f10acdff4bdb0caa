//! A book and its buyers: the outlier pattern. The page of any book except a bestseller is one document.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post, put};
use maud::{Markup, html};
use mongo_patterns::prelude::*;
use serde::{Deserialize, Serialize};

use crate::input::{Fields, Ids, PageQuery, check_id};
use crate::layout::{pager, remove_button, segment};
use crate::problem::{self, Problem};
use crate::reply::{self, Wants};
use crate::store::Store;

/// The number of buyers on a page.
const SHOWN: usize = 50;

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

#[derive(Serialize)]
struct Page<'a> {
    id: i32,
    title: &'a str,
    author: &'a str,
    /// The number of buyers.
    sold: u64,
    /// The buyers on this page.
    buyers: &'a [String],
    previous: Option<String>,
    next: Option<String>,
}

#[derive(Serialize)]
struct Buyer<'a> {
    customer: &'a str,
}

pub(crate) fn routes() -> Router<Store> {
    Router::new()
        .route("/books/{book}", get(show))
        .route("/books/{book}/buyers", post(add_from_form))
        .route("/books/{book}/buyers/{customer}", put(add).delete(remove))
        .route("/books/{book}/buyers/{customer}/remove", post(remove))
}

fn path(book: i32) -> String {
    format!("/books/{book}")
}

#[derive(Deserialize)]
struct Offset {
    #[serde(default)]
    from: usize,
}

/// Reads one document, unless the book is a bestseller. For a bestseller it also reads the number of buyers, and the
/// buyers of a later page.
async fn show(
    State(store): State<Store>,
    wants: Wants,
    Ids(id): Ids<i32>,
    PageQuery(Offset { from }): PageQuery<Offset>,
) -> Result<Response, Problem> {
    let found = store.books.get(id).await?;
    let found = found.ok_or_else(|| Problem::of(&problem::NOT_FOUND))?;
    let book = found.document;
    let (sold, buyers) = if found.has_extras {
        let sold = store.books.count(id).await?.total();
        (
            sold,
            store.books.elements(id).skip(from as u64).limit(SHOWN as u64).await?,
        )
    } else {
        let inline = &book.customers_purchased;
        (
            inline.len() as u64,
            inline.iter().skip(from).take(SHOWN).cloned().collect(),
        )
    };

    let link = |suffix: &str, from: usize| match from {
        0 => format!("{}{suffix}", path(id)),
        from => format!("{}{suffix}?from={from}", path(id)),
    };
    let previous = (from > 0).then(|| from.saturating_sub(SHOWN));
    let next = from.checked_add(SHOWN).filter(|next| (*next as u64) < sold);
    let page = Page {
        id,
        title: &book.title,
        author: &book.author,
        sold,
        buyers: &buyers,
        previous: previous.map(|from| link(".json", from)),
        next: next.map(|from| link(".json", from)),
    };
    let html = || {
        let (previous, next) = (previous.map(|from| link("", from)), next.map(|from| link("", from)));
        html! {
            p { "By " (book.author) ". Buyers: " (sold) "." }
            (list(id, from, &buyers))
            (pager(previous.as_deref().map(|path| (path, "Earlier")), next.as_deref().map(|path| (path, "Later"))))
            (form(id))
        }
    };
    Ok(reply::found(wants, &page, &book.title, html))
}

fn list(book: i32, from: usize, buyers: &[String]) -> Markup {
    html! {
        @if buyers.is_empty() {
            p { "No buyers on this page." }
        } @else {
            ol .tiles start=(from.saturating_add(1)) {
                @for buyer in buyers {
                    li {
                        span { (buyer) } " "
                        (remove_button(&format!("{}/buyers/{}", path(book), segment(buyer)), buyer))
                    }
                }
            }
        }
    }
}

fn form(book: i32) -> Markup {
    html! {
        h2 { "Add a buyer" }
        form method="post" action=(format!("{}/buyers", path(book))) {
            label {
                "Customer"
                input name="customer" required maxlength="64" pattern="[A-Za-z0-9_\\-]+" autocomplete="off"
                    aria-describedby="customer-hint";
            }
            p #customer-hint .hint { "Letters, digits, - and _. A customer buys a book once." }
            button { "Add" }
        }
    }
}

async fn add_from_form(
    state: State<Store>,
    wants: Wants,
    Ids(book): Ids<i32>,
    mut fields: Fields,
) -> Result<Response, Problem> {
    let customer = fields.id("customer");
    fields.done()?;
    add(state, wants, Ids((book, customer))).await
}

/// Adds a buyer. Idempotent by the customer.
async fn add(
    State(store): State<Store>,
    wants: Wants,
    Ids((book, customer)): Ids<(i32, String)>,
) -> Result<Response, Problem> {
    check_id("customer", &customer)?;
    let pushed = store.books.push_unique(book, &customer).await?;
    let is_new = pushed != Pushed::AlreadyThere;
    let new_path = format!("{}/buyers/{}", path(book), segment(&customer));
    let data = Buyer { customer: &customer };
    Ok(reply::stored(wants, is_new, &data, &new_path, &path(book)))
}

async fn remove(
    State(store): State<Store>,
    wants: Wants,
    Ids((book, customer)): Ids<(i32, String)>,
) -> Result<Response, Problem> {
    store.books.remove(book, &customer).await?;
    Ok(reply::removed(wants, &path(book)))
}
