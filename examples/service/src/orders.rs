//! An order and its buyer: the extended reference pattern. The page of an order is one document, also with the name and the
//! city of the buyer.

use axum::Router;
use axum::extract::State;
use axum::response::{Redirect, Response};
use axum::routing::get;
use maud::{Markup, html};
use mongo_patterns::ErrorKind;
use mongodb::bson::doc;

use crate::choose::{Choice, Choose};
use crate::input::{Fields, Ids, PageQuery};
use crate::layout::{self, remove_link};
use crate::model::Order;
use crate::problem::{self, Problem};
use crate::reply::{self, Wants};
use crate::section::{BUYERS, ORDERS, segment};
use crate::store::Store;

pub(crate) fn routes() -> Router<Store> {
    Router::new()
        .route("/orders", get(choose))
        .route("/orders/{order}", get(show).delete(remove))
        .route("/orders/{order}/remove", get(confirm).post(remove))
        .route("/buyers/{buyer}/orders", get(to_buyer).post(add))
}

fn path(order: &str) -> String {
    format!("/orders/{}", segment(order))
}

async fn to_buyer(wants: Wants, Ids(id): Ids<i32>) -> Redirect {
    Redirect::to(&BUYERS.path_of(&id.to_string(), wants.suffix()))
}

async fn choose(
    State(store): State<Store>,
    wants: Wants,
    PageQuery(query): PageQuery<Choose<String>>,
) -> Result<Response, Problem> {
    if let Some(chosen) = query.chosen(wants, &ORDERS) {
        return chosen;
    }
    let filter = match &query.after {
        Some(after) => doc! { "_id": { "$gt": after } },
        None => doc! {},
    };
    let found = store.orders.find(filter).sort(doc! { "_id": 1 });
    let found = found.limit(Choose::<String>::needed() as u32).await?.into_iter();
    let found = found.map(|order| Choice {
        title: format!("{}: {} by {}", order.id, order.total, order.buyer.name),
        id: order.id,
    });
    Ok(query.list(wants, &ORDERS, found.collect()))
}

async fn read(store: &Store, id: &str) -> Result<Order, Problem> {
    let order = store.orders.get(id).await?;
    order.ok_or_else(|| Problem::unknown(&ORDERS))
}

async fn show(State(store): State<Store>, wants: Wants, Ids(id): Ids<String>) -> Result<Response, Problem> {
    let order = read(&store, &id).await?;
    let html = || {
        html! {
            (line(&order))
            (remove_link(&path(&id), "", "the order"))
            (ORDERS.link())
        }
    };
    Ok(reply::found(wants, &order, "An order", html))
}

fn line(order: &Order) -> Markup {
    let buyer = &order.buyer;
    html! {
        p {
            (order.total) ", by "
            @if buyer.deleted {
                (buyer.name)
            } @else {
                a href=(BUYERS.path_of(&buyer.id.to_string(), "")) { (buyer.name) }
            }
            ", " (buyer.city) "."
        }
    }
}

/// Stores an order with a copy of its buyer. A repeated request finds the order stored.
async fn add(
    State(store): State<Store>,
    wants: Wants,
    Ids(buyer): Ids<i32>,
    mut fields: Fields,
) -> Result<Response, Problem> {
    let new = Order::new(&fields.id("id"), buyer, fields.number("total", 1_000_000));
    fields.done()?;
    let is_new = match store.orders.insert(&new).await {
        Ok(_) => true,
        // If the request before was dropped before it saw a concurrent change of the buyer, the follower updates the copy.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
        Err(error) => return Err(error.into()),
    };
    let stored = read(&store, &new.id).await?;
    if (stored.buyer.id, stored.total) != (new.buyer.id, new.total) {
        return Err(Problem::of(&problem::TAKEN));
    }
    let path = path(&stored.id);
    Ok(reply::stored(wants, is_new, &stored, &path, &path))
}

/// Asks before a removal.
async fn confirm(State(store): State<Store>, wants: Wants, Ids(id): Ids<String>) -> Result<Response, Problem> {
    let order = read(&store, &id).await?;
    let html = || layout::confirm(&path(&id), "", &line(&order), &path(&id));
    Ok(reply::found(wants, &order, "Remove this order?", html))
}

/// Removes an order. Its buyer does not know of it, so this is a plain deletion.
async fn remove(State(store): State<Store>, wants: Wants, Ids(id): Ids<String>) -> Result<Response, Problem> {
    let removed = store.orders.collection().delete_one(doc! { "_id": id }).await;
    removed.map_err(mongo_patterns::Error::from)?;
    Ok(reply::removed(wants, ORDERS.path))
}
