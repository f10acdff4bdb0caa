//! A buyer, the source of the copies in their orders. A change of the name or the city reaches all of the orders before the
//! response.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use futures::TryStreamExt;
use maud::{Markup, html};
use mongo_patterns::ErrorKind;
use mongo_patterns::reference::OnReferences;
use mongodb::bson::{Document, doc};
use serde::{Deserialize, Serialize};

use crate::choose::{Choice, Choose};
use crate::input::{Fields, Ids, PageQuery};
use crate::layout::{self, new_id, pager, remove_link};
use crate::model::{Buyer, Order};
use crate::problem::Problem;
use crate::reply::{self, Wants};
use crate::section::{BUYERS, ORDERS, segment};
use crate::store::Store;

/// The number of orders on a page.
const SHOWN: usize = 20;

#[derive(Serialize)]
struct Page<'a> {
    #[serde(flatten)]
    buyer: &'a Buyer,
    orders: &'a [Order],
    next: Option<String>,
}

#[derive(Deserialize)]
struct Cursor {
    after: Option<String>,
}

/// The query of a removal.
#[derive(Deserialize)]
struct Removal {
    #[serde(default)]
    orders: Orders,
}

/// What happens to the orders of a buyer who is removed.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Orders {
    /// A buyer with orders is not removed.
    #[default]
    Restrict,
    /// The orders keep the name and the city.
    Keep,
}

pub(crate) fn routes() -> Router<Store> {
    Router::new()
        .route("/buyers", get(choose))
        .route(
            "/buyers/{buyer}",
            get(show).put(store_buyer).post(store_buyer).delete(remove),
        )
        .route("/buyers/{buyer}/remove", get(confirm).post(remove))
}

fn path(buyer: i32) -> String {
    format!("/buyers/{buyer}")
}

async fn choose(
    State(store): State<Store>,
    wants: Wants,
    PageQuery(query): PageQuery<Choose<i32>>,
) -> Result<Response, Problem> {
    if let Some(chosen) = query.chosen(wants, &BUYERS) {
        return chosen;
    }
    let filter = query.after.map(|after| doc! { "_id": { "$gt": after } });
    let buyers = store.orders.sources_collection();
    let found = buyers.find(filter.unwrap_or_default());
    let found = found
        .sort(doc! { "_id": 1 })
        .limit(Choose::<i32>::needed() as i64)
        .await;
    let found = found.map_err(mongo_patterns::Error::from)?.map_ok(|buyer| Choice {
        id: buyer.id,
        title: format!("{}: {}, {}", buyer.id, buyer.name, buyer.city),
    });
    let found = found.try_collect().await.map_err(mongo_patterns::Error::from)?;
    Ok(query.list(wants, &BUYERS, found))
}

async fn read(store: &Store, id: i32) -> Result<Buyer, Problem> {
    let found = store.orders.sources_collection().find_one(doc! { "_id": id }).await;
    let found = found.map_err(mongo_patterns::Error::from)?;
    found.ok_or_else(|| Problem::unknown(&BUYERS))
}

async fn show(
    State(store): State<Store>,
    wants: Wants,
    Ids(id): Ids<i32>,
    PageQuery(cursor): PageQuery<Cursor>,
) -> Result<Response, Problem> {
    let buyer = read(&store, id).await?;
    let mut orders = orders_of(&store, id, cursor.after.as_deref()).await?;
    let has_next = orders.len() > SHOWN;
    orders.truncate(SHOWN);
    let next = |suffix: &str| {
        let last = orders.last().filter(|_| has_next)?;
        Some(format!("{}{suffix}?after={}", path(id), segment(&last.id)))
    };
    let view = Page {
        buyer: &buyer,
        orders: &orders,
        next: next(".json"),
    };
    let html = || {
        html! {
            (change_form(&buyer))
            h2 { "Order" }
            form method="post" action=(format!("{}/orders", path(id))) {
                (new_id())
                label { "Total" input name="total" type="number" required min="1" max="1000000"; }
                button { "Order" }
            }
            h2 { "Orders" }
            (list(&orders))
            (pager(None, next("").as_deref().map(|path| (path, "Next"))))
            (remove_link(&path(id), "", &buyer.name))
            (BUYERS.link())
        }
    };
    Ok(reply::found(wants, &view, &buyer.name, html))
}

/// Reads the orders of a buyer by an index of this service.
async fn orders_of(store: &Store, buyer: i32, after: Option<&str>) -> mongo_patterns::Result<Vec<Order>> {
    let mut filter = doc! { "buyer._id": buyer };
    if let Some(after) = after {
        filter.insert("_id", doc! { "$gt": after });
    }
    let found = store.orders.find(filter).sort(doc! { "_id": 1 });
    found.limit(SHOWN as u32 + 1).await
}

fn change_form(buyer: &Buyer) -> Markup {
    html! {
        form method="post" action=(path(buyer.id)) {
            label { "Name" input name="name" required maxlength="60" autocomplete="name" value=(buyer.name); }
            label { "City" input name="city" required maxlength="60" autocomplete="address-level2" value=(buyer.city); }
            button { "Change" }
        }
    }
}

fn list(orders: &[Order]) -> Markup {
    html! {
        @if orders.is_empty() {
            p { "No orders." }
        } @else {
            ul {
                @for order in orders {
                    li { a href=(ORDERS.path_of(&order.id, "")) { (order.id) } ": " (order.total) }
                }
            }
        }
    }
}

/// Creates a buyer, or changes one and the copies in all of their orders. It is idempotent, so it can be repeated.
async fn store_buyer(
    State(store): State<Store>,
    wants: Wants,
    Ids(id): Ids<i32>,
    mut fields: Fields,
) -> Result<Response, Problem> {
    let buyer = Buyer {
        id,
        name: fields.text("name", 60),
        city: fields.text("city", 60),
    };
    fields.done()?;
    let values = doc! { "name": &buyer.name, "city": &buyer.city };
    let is_new = match change(&store, id, &values).await {
        Err(error) if error.kind() == ErrorKind::NotFound => create(&store, id, &values).await?,
        changed => changed.map(|()| false)?,
    };
    Ok(reply::stored(wants, is_new, &buyer, &path(id), &path(id)))
}

async fn change(store: &Store, id: i32, values: &Document) -> mongo_patterns::Result<()> {
    store.orders.update_source(id, doc! { "$set": values }).await.map(drop)
}

/// Inserts a buyer. Returns `false` if another request has inserted them, and changes them then.
async fn create(store: &Store, id: i32, values: &Document) -> mongo_patterns::Result<bool> {
    let buyers = store.orders.sources_collection();
    let insert = buyers.update_one(doc! { "_id": id }, doc! { "$setOnInsert": values });
    let is_new = insert.upsert(true).await?.upserted_id.is_some();
    if !is_new {
        change(store, id, values).await?;
    }
    Ok(is_new)
}

/// Asks before a removal.
async fn confirm(State(store): State<Store>, wants: Wants, Ids(id): Ids<i32>) -> Result<Response, Problem> {
    let buyer = read(&store, id).await?;
    let what = html! { (buyer.name) ", " (buyer.city) };
    let html = || {
        html! {
            (layout::confirm(&path(id), "", &what, &path(id)))
            p { "A buyer with orders is only removed if their orders are kept. They still show the name and the city." }
            form method="post" action=(format!("{}/remove?orders=keep", path(id))) {
                button { "Remove, and keep the orders" }
            }
        }
    };
    Ok(reply::found(wants, &buyer, "Remove this buyer?", html))
}

async fn remove(
    State(store): State<Store>,
    wants: Wants,
    Ids(id): Ids<i32>,
    PageQuery(query): PageQuery<Removal>,
) -> Result<Response, Problem> {
    let rule = match query.orders {
        Orders::Restrict => OnReferences::Restrict,
        Orders::Keep => OnReferences::KeepCopy,
    };
    store.orders.delete_source(id).on_references(rule).await?;
    Ok(reply::removed(wants, BUYERS.path))
}
