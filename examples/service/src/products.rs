//! A product and its reviews: the subset pattern. The page of a product is one document with the ten newest reviews.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};
use mongo_patterns::prelude::*;
use mongodb::bson::{DateTime, doc};
use serde::{Deserialize, Serialize};

use crate::choose::{self, Choose};
use crate::input::{Fields, Ids, PageQuery};
use crate::layout::{self, new_id, pager, remove_link};
use crate::model::Review;
use crate::problem::{self, Problem};
use crate::reply::{self, Wants};
use crate::section::{PRODUCTS, segment};
use crate::store::Store;

/// The number of reviews on a page of all reviews.
const SHOWN: u32 = 20;

/// A review as sent to clients.
#[derive(Serialize)]
struct View<'a> {
    id: &'a str,
    author: &'a str,
    text: &'a str,
    date: String,
}

impl<'a> From<&'a Review> for View<'a> {
    fn from(review: &'a Review) -> Self {
        Self {
            id: &review.review_id,
            author: &review.review_author,
            text: &review.review_text,
            date: layout::rfc3339(review.published_date),
        }
    }
}

#[derive(Serialize)]
struct ProductPage<'a> {
    id: i32,
    name: &'a str,
    description: &'a str,
    price: String,
    newest_reviews: Vec<View<'a>>,
    all_reviews: String,
}

#[derive(Serialize)]
struct ReviewsPage<'a> {
    product: i32,
    reviews: Vec<View<'a>>,
    previous: Option<String>,
    next: Option<String>,
}

pub(crate) fn routes() -> Router<Store> {
    Router::new()
        .route("/products", get(choose))
        .route("/products/{product}", get(show))
        .route("/products/{product}/reviews", get(list).post(add))
        .route(
            "/products/{product}/reviews/{review}",
            get(show_one).put(change).delete(remove),
        )
        .route("/products/{product}/reviews/{review}/remove", get(confirm).post(remove))
}

fn path(product: i32) -> String {
    format!("/products/{product}")
}

fn path_of(product: i32, review: &str) -> String {
    format!("{}/reviews/{}", path(product), segment(review))
}

async fn choose(
    State(store): State<Store>,
    wants: Wants,
    PageQuery(query): PageQuery<Choose<i32>>,
) -> Result<Response, Problem> {
    if let Some(chosen) = query.chosen(wants, &PRODUCTS) {
        return chosen;
    }
    let found = choose::documents(&store, "product", "name", query.after).await?;
    Ok(query.list(wants, &PRODUCTS, found))
}

/// Reads one document, for any number of reviews.
async fn show(State(store): State<Store>, wants: Wants, Ids(id): Ids<i32>) -> Result<Response, Problem> {
    let product = store.products.get(id).await?;
    let product = product.ok_or_else(|| Problem::unknown(&PRODUCTS))?;
    let price = format!("{} {}", product.price.value, product.price.currency);
    let page = ProductPage {
        id,
        name: &product.name,
        description: &product.description,
        price: price.clone(),
        newest_reviews: product.reviews.iter().map(View::from).collect(),
        all_reviews: format!("{}/reviews.json", path(id)),
    };
    let html = || {
        html! {
            p { (product.description) }
            p { strong { (price) } }
            (form(id))
            h2 { "The newest reviews" }
            (reviews(id, &product.reviews, ""))
            p { a href=(format!("{}/reviews", path(id))) { "All reviews" } }
            (PRODUCTS.link())
        }
    };
    Ok(reply::found(wants, &page, &product.name, html))
}

#[derive(Deserialize)]
struct Cursor {
    after: Option<ChildToken>,
    before: Option<ChildToken>,
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

    /// Returns the path of the page: a later page of all reviews, or the product.
    fn path(&self, product: i32) -> String {
        match self.query() {
            query if query.is_empty() => path(product),
            query => format!("{}/reviews{query}", path(product)),
        }
    }
}

async fn list(
    State(store): State<Store>,
    wants: Wants,
    Ids(product): Ids<i32>,
    PageQuery(cursor): PageQuery<Cursor>,
) -> Result<Response, Problem> {
    let query = cursor.query();
    let children = store.products.children(product).limit(SHOWN);
    let found = children.after(cursor.after).before(cursor.before).page().await?;
    let shown = &found.items;
    if shown.is_empty() && store.products.get(product).await?.is_none() {
        return Err(Problem::unknown(&PRODUCTS));
    }

    let newer = |suffix: &str| {
        let token = found.previous.as_ref()?;
        Some(format!("{}/reviews{suffix}?before={token}", path(product)))
    };
    let older = |suffix: &str| {
        let token = found.next.as_ref()?;
        Some(format!("{}/reviews{suffix}?after={token}", path(product)))
    };
    let page = ReviewsPage {
        product,
        reviews: shown.iter().map(View::from).collect(),
        previous: newer(".json"),
        next: older(".json"),
    };
    let html = || {
        let (newer, older) = (newer(""), older(""));
        html! {
            p { a href=(path(product)) { "Back to the product" } }
            (reviews(product, shown, &query))
            (pager(newer.as_deref().map(|path| (path, "Newer")), older.as_deref().map(|path| (path, "Older"))))
        }
    };
    Ok(reply::found(
        wants,
        &page,
        &format!("Reviews of product {product}"),
        html,
    ))
}

fn reviews(product: i32, reviews: &[Review], query: &str) -> Markup {
    html! {
        @if reviews.is_empty() {
            p { "No reviews on this page." }
        }
        @for review in reviews {
            article .review {
                p .text { (review.review_text) }
                div .hint {
                    span { (review.review_author) ", " (layout::time(review.published_date)) }
                    (remove_link(
                        &path_of(product, &review.review_id),
                        query,
                        &format!("the review by {}", review.review_author),
                    ))
                }
            }
        }
    }
}

fn form(product: i32) -> Markup {
    html! {
        h2 { "Add a review" }
        form method="post" action=(format!("{}/reviews", path(product))) {
            (new_id())
            label { "Your name" input name="author" required maxlength="60" autocomplete="name"; }
            label .wide { "Your review" textarea name="text" required maxlength="2000" rows="4" {} }
            button { "Add" }
        }
    }
}

fn read(mut fields: Fields, product: i32, id: Option<String>) -> Result<Review, Problem> {
    let review = Review {
        review_id: id.unwrap_or_else(|| fields.id("id")),
        product_id: product,
        review_author: fields.text("author", 60),
        review_text: fields.text("text", 2000),
        published_date: DateTime::now(),
    };
    fields.done()?;
    Ok(review)
}

async fn add(
    State(store): State<Store>,
    wants: Wants,
    Ids(product): Ids<i32>,
    fields: Fields,
) -> Result<Response, Problem> {
    let mut review = read(fields, product, None)?;
    let is_new = match store.products.insert(&review).await {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let stored = store.products.child(product, review.review_id.as_str()).await?;
            let stored = stored.filter(|stored: &Review| stored.is_same(&review));
            review = stored.ok_or_else(|| Problem::of(&problem::TAKEN))?;
            false
        }
        Err(error) => return Err(error.into()),
    };
    let new_path = path_of(product, &review.review_id);
    Ok(reply::stored(
        wants,
        is_new,
        &View::from(&review),
        &new_path,
        &path(product),
    ))
}

async fn show_one(
    State(store): State<Store>,
    wants: Wants,
    Ids((product, id)): Ids<(i32, String)>,
) -> Result<Response, Problem> {
    let review = store.products.child(product, id).await?;
    let review = review.ok_or_else(|| Problem::of(&problem::NOT_FOUND))?;
    let html = || {
        html! {
            (reviews(product, std::slice::from_ref(&review), ""))
            p { a href=(path(product)) { "Back to the product" } }
        }
    };
    Ok(reply::found(wants, &View::from(&review), "A review", html))
}

/// Changes the text of a review. It keeps its date and so its position.
async fn change(
    State(store): State<Store>,
    wants: Wants,
    Ids((product, id)): Ids<(i32, String)>,
    fields: Fields,
) -> Result<Response, Problem> {
    let review = read(fields, product, Some(id.clone()))?;
    let set = doc! { "review_author": review.review_author, "review_text": review.review_text };
    store
        .products
        .update(product, id.as_str(), doc! { "$set": set })
        .await?;
    show_one(State(store), wants, Ids((product, id))).await
}

/// Asks before a removal.
async fn confirm(
    State(store): State<Store>,
    wants: Wants,
    Ids((product, id)): Ids<(i32, String)>,
    PageQuery(cursor): PageQuery<Cursor>,
) -> Result<Response, Problem> {
    let review = store.products.child(product, id).await?;
    let review = review.ok_or_else(|| Problem::of(&problem::NOT_FOUND))?;
    let html = || {
        let what = html! { "By " (review.review_author) ", " (layout::time(review.published_date)) };
        html! {
            p .text { (review.review_text) }
            (layout::confirm(&path_of(product, &review.review_id), &cursor.query(), &what, &cursor.path(product)))
        }
    };
    Ok(reply::found(wants, &View::from(&review), "Remove this review?", html))
}

async fn remove(
    State(store): State<Store>,
    wants: Wants,
    Ids((product, id)): Ids<(i32, String)>,
    PageQuery(cursor): PageQuery<Cursor>,
) -> Result<Response, Problem> {
    store.products.delete(product, id).await?;
    Ok(reply::removed(wants, &cursor.path(product)))
}
