//! The common parts of all pages. The pages need no scripts, and escape all values.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use maud::{DOCTYPE, Markup, html};
use mongodb::bson::DateTime;
use mongodb::bson::oid::ObjectId;

use crate::section::{BOOKS, CUSTOMERS, ORDERS, PATRONS, POLICIES, PRODUCTS, SECTIONS};

const NAME: &str = "mongo-patterns";

pub(crate) fn document(title: &str, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " – " (NAME) }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="/style.css";
            }
            body {
                a .skip href="#content" { "Skip to the content" }
                header {
                    a .name href="/" { (NAME) }
                    nav aria-label="Pages of the service" {
                        @for section in SECTIONS {
                            a href=(section.path) { (section.title) }
                        }
                    }
                }
                main #content {
                    h1 { (title) }
                    (content)
                }
                footer {
                    p {
                        "Each page is also available as JSON: add " code { ".json" } " to its path. "
                        a href="/problems" { "Problems" } " " a href="/health" { "Health" }
                    }
                }
            }
        }
    }
}

pub(crate) async fn style() -> impl IntoResponse {
    let headers = [
        (CONTENT_TYPE, "text/css; charset=utf-8"),
        (CACHE_CONTROL, "max-age=3600"),
    ];
    (headers, include_str!("style.css"))
}

pub(crate) async fn home() -> Markup {
    let pages = [
        (
            &CUSTOMERS,
            "The trades of a customer",
            "Bucket: a history in pages of ten, one document per page.",
        ),
        (
            &BOOKS,
            "A book and its buyers",
            "Outlier: fifty buyers in the book, the rest of a bestseller's in a second collection.",
        ),
        (
            &PRODUCTS,
            "A product and its reviews",
            "Subset: the ten newest reviews in the product, all of them in a second collection.",
        ),
        (
            &PATRONS,
            "A patron and their addresses",
            "Embedded: up to twenty addresses in the patron's document.",
        ),
        (
            &POLICIES,
            "A policy and its revisions",
            "History: the current policy, and all of its revisions in a second collection.",
        ),
        (
            &ORDERS,
            "An order and its buyer",
            "Reference: an order has the name and the address of its buyer, and follows when they change.",
        ),
    ];
    document(
        "Schema design patterns in use",
        &html! {
            p { "Choose a customer, a book, a product, a patron, a policy or an order. Each has a pattern of MongoDB's manual. All requests are idempotent: repeat a form, and its data is stored once." }
            ul .cards {
                @for (section, title, text) in pages {
                    li {
                        a href=(section.path) { (title) }
                        p { (text) }
                    }
                }
            }
        },
    )
}

/// Returns links to the previous and next page.
pub(crate) fn pager(previous: Option<(&str, &str)>, next: Option<(&str, &str)>) -> Markup {
    html! {
        @if previous.is_some() || next.is_some() {
            nav .pager aria-label="More pages" {
                @if let Some((path, text)) = previous { a rel="prev" href=(path) { "← " (text) } }
                @if let Some((path, text)) = next { a .next rel="next" href=(path) { (text) " →" } }
            }
        }
    }
}

/// Returns a hidden input with a new id, so that a form that is sent twice is stored once.
pub(crate) fn new_id() -> Markup {
    html! { input type="hidden" name="id" value=(ObjectId::new().to_hex()); }
}

/// Returns a link to the page that asks before it removes an item. The query leads back to the page of the list.
pub(crate) fn remove_link(path: &str, query: &str, what: &str) -> Markup {
    html! { a .quiet href=(format!("{path}/remove{query}")) aria-label=(format!("Remove {what}")) { "Remove" } }
}

/// Returns the content of the page that asks before it removes an item. Only its form removes it.
pub(crate) fn confirm(path: &str, query: &str, what: &Markup, back: &str) -> Markup {
    html! {
        p { strong { (what) } }
        p { "A removed item cannot be restored." }
        form .confirm method="post" action=(format!("{path}/remove{query}")) {
            button { "Remove" }
            a href=(back) { "Cancel" }
        }
    }
}

pub(crate) fn time(date: DateTime) -> Markup {
    let text = rfc3339(date);
    let (day, minute) = (text.get(..10).unwrap_or_default(), text.get(11..16).unwrap_or_default());
    html! { time datetime=(text) { span .day { (day) } " " (minute) } }
}

pub(crate) fn rfc3339(date: DateTime) -> String {
    date.try_to_rfc3339_string().unwrap_or_default()
}
