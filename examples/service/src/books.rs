//! A book and its buyers: the outlier pattern. The page of any book except a bestseller is one document.

use axum::Router;
use axum::extract::State;
use axum::response::{Redirect, Response};
use axum::routing::get;
use maud::{Markup, html};
use mongo_patterns::outlier::Pushed;
use serde::{Deserialize, Serialize};

use crate::choose::{self, Choose};
use crate::input::{Fields, Ids, PageQuery, check_id};
use crate::layout::{self, pager, remove_link};
use crate::problem::{self, Problem};
use crate::reply::{self, Wants};
use crate::section::{BOOKS, segment};
use crate::store::Store;

/// The number of buyers on a page.
const SHOWN: usize = 50;

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
        .route("/books", get(choose))
        .route("/books/{book}", get(show))
        .route("/books/{book}/buyers", get(to_book).post(add_from_form))
        .route("/books/{book}/buyers/{customer}", get(show_one).put(add).delete(remove))
        .route("/books/{book}/buyers/{customer}/remove", get(confirm).post(remove))
}

fn path(book: i32) -> String {
    format!("/books/{book}")
}

fn path_of(book: i32, customer: &str) -> String {
    format!("{}/buyers/{}", path(book), segment(customer))
}

#[derive(Deserialize)]
struct Offset {
    #[serde(default)]
    from: usize,
}

impl Offset {
    /// Returns the query of the page, so that a removal leads back to it.
    fn query(&self) -> String {
        match self.from {
            0 => String::new(),
            from => format!("?from={from}"),
        }
    }
}

async fn choose(
    State(store): State<Store>,
    wants: Wants,
    PageQuery(query): PageQuery<Choose<i32>>,
) -> Result<Response, Problem> {
    if let Some(chosen) = query.chosen(wants, &BOOKS) {
        return chosen;
    }
    let found = choose::documents(&store, "sales", "title", query.after).await?;
    Ok(query.list(wants, &BOOKS, found))
}

async fn to_book(wants: Wants, Ids(id): Ids<i32>) -> Redirect {
    Redirect::to(&format!("{}{}", path(id), wants.suffix()))
}

/// Reads one document, unless the book is a bestseller. For a bestseller it also reads the number of buyers, and the
/// buyers of a later page.
async fn show(
    State(store): State<Store>,
    wants: Wants,
    Ids(id): Ids<i32>,
    PageQuery(offset): PageQuery<Offset>,
) -> Result<Response, Problem> {
    let from = offset.from;
    let found = store.books.get(id).await?;
    let found = found.ok_or_else(|| Problem::unknown(&BOOKS))?;
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

    let link = |suffix: &str, from: usize| format!("{}{suffix}{}", path(id), Offset { from }.query());
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
            (form(id))
            h2 { "Buyers" }
            (list(id, &offset, &buyers))
            (pager(previous.as_deref().map(|path| (path, "Earlier")), next.as_deref().map(|path| (path, "Later"))))
            (BOOKS.link())
        }
    };
    Ok(reply::found(wants, &page, &book.title, html))
}

fn list(book: i32, offset: &Offset, buyers: &[String]) -> Markup {
    let query = offset.query();
    html! {
        @if buyers.is_empty() {
            p { "No buyers on this page." }
        } @else {
            ol .tiles start=(offset.from.saturating_add(1)) {
                @for buyer in buyers {
                    li {
                        span { (buyer) } " "
                        (remove_link(&path_of(book, buyer), &query, buyer))
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
    let new_path = path_of(book, &customer);
    let data = Buyer { customer: &customer };
    Ok(reply::stored(wants, is_new, &data, &new_path, &path(book)))
}

/// Returns the problem to report if the customer did not buy the book.
async fn check_buyer(store: &Store, book: i32, customer: &str) -> Result<(), Problem> {
    let is_buyer = store.books.contains(book, customer).await?;
    is_buyer.then_some(()).ok_or_else(|| Problem::of(&problem::NOT_FOUND))
}

async fn show_one(
    State(store): State<Store>,
    wants: Wants,
    Ids((book, customer)): Ids<(i32, String)>,
) -> Result<Response, Problem> {
    check_buyer(&store, book, &customer).await?;
    let html = || {
        html! {
            p { (customer) " " (remove_link(&path_of(book, &customer), "", &customer)) }
            p { a href=(path(book)) { "The book and all buyers" } }
        }
    };
    let data = Buyer { customer: &customer };
    Ok(reply::found(wants, &data, "A buyer", html))
}

/// Asks before a removal.
async fn confirm(
    State(store): State<Store>,
    wants: Wants,
    Ids((book, customer)): Ids<(i32, String)>,
    PageQuery(offset): PageQuery<Offset>,
) -> Result<Response, Problem> {
    check_buyer(&store, book, &customer).await?;
    let html = || {
        let query = offset.query();
        let back = format!("{}{query}", path(book));
        layout::confirm(&path_of(book, &customer), &query, &html! { (customer) }, &back)
    };
    let data = Buyer { customer: &customer };
    Ok(reply::found(wants, &data, "Remove this buyer?", html))
}

async fn remove(
    State(store): State<Store>,
    wants: Wants,
    Ids((book, customer)): Ids<(i32, String)>,
    PageQuery(offset): PageQuery<Offset>,
) -> Result<Response, Problem> {
    store.books.remove(book, &customer).await?;
    Ok(reply::removed(wants, &format!("{}{}", path(book), offset.query())))
}
