//! Deleted patrons: a trash. A deletion moves the document, so its id is free, and a patron can be restored for 30 days.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use maud::{Markup, html};
use mongo_patterns::archive::TrashToken;
use mongodb::bson::DateTime;
use serde::{Deserialize, Serialize};

use crate::input::{Ids, PageQuery};
use crate::layout::{self, pager};
use crate::model::Patron;
use crate::problem::Problem;
use crate::reply::{self, Wants};
use crate::section::{PATRONS, segment};
use crate::store::Store;

pub(crate) const PATH: &str = "/deleted-patrons";
/// The number of patrons on a page.
const SHOWN: u32 = 20;

pub(crate) fn routes() -> Router<Store> {
    Router::new()
        .route("/patrons/{patron}/remove", get(confirm).post(delete))
        .route(PATH, get(list))
        .route("/deleted-patrons/{patron}/restore", post(restore))
}

/// The query of the list: the position after the page before.
#[derive(Deserialize)]
struct After {
    after: Option<String>,
}

#[derive(Serialize)]
struct ListView {
    patrons: Vec<DeletedPatron>,
    next: Option<String>,
}

#[derive(Serialize)]
struct DeletedPatron {
    deleted: String,
    #[serde(skip)]
    at: DateTime,
    patron: Patron,
}

/// Asks before a deletion.
async fn confirm(State(store): State<Store>, wants: Wants, Ids(id): Ids<String>) -> Result<Response, Problem> {
    let patron = store.patrons.get(id.as_str()).await?;
    let patron = patron.ok_or_else(|| Problem::unknown(&PATRONS))?;
    let path = PATRONS.path_of(&id, "");
    let html = || {
        html! {
            p { strong { (patron.name) } }
            p { "The patron can be " a href=(PATH) { "restored" } " for 30 days." }
            form .confirm method="post" action=(format!("{path}/remove")) {
                button { "Remove" }
                a href=(path) { "Cancel" }
            }
        }
    };
    Ok(reply::found(wants, &patron, "Remove this patron?", html))
}

/// Moves a patron to the trash. A repeated request finds none, which is the same to its client.
pub(crate) async fn delete(
    State(store): State<Store>,
    wants: Wants,
    Ids(id): Ids<String>,
) -> Result<Response, Problem> {
    store.deleted_patrons.delete(id).await?;
    Ok(reply::removed(wants, PATH))
}

/// Shows the deleted patrons, the newest first.
async fn list(
    State(store): State<Store>,
    wants: Wants,
    PageQuery(query): PageQuery<After>,
) -> Result<Response, Problem> {
    let after: Option<TrashToken> = query.after.map(|text| text.parse()).transpose()?;
    let is_first = after.is_none();
    let list = store.deleted_patrons.list().newest_first().limit(SHOWN);
    let page = list.after(after).page().await?;
    let patrons = page.items.into_iter().map(|entry| DeletedPatron {
        deleted: layout::rfc3339(entry.deleted_at),
        at: entry.deleted_at,
        patron: entry.document,
    });
    let patrons: Vec<_> = patrons.collect();
    let next = page.next.map(|next| format!("{PATH}{}?after={next}", wants.suffix()));
    let view = ListView { patrons, next };
    let html = || {
        html! {
            (entries(&view.patrons))
            (pager((!is_first).then_some((PATH, "First page")), view.next.as_deref().map(|next| (next, "Older"))))
            (PATRONS.link())
        }
    };
    Ok(reply::found(wants, &view, "Deleted patrons", html))
}

fn entries(deleted: &[DeletedPatron]) -> Markup {
    html! {
        @if deleted.is_empty() {
            p { "No deleted patrons." }
        } @else {
            ul .cards {
                @for DeletedPatron { at, patron, .. } in deleted {
                    li {
                        p { (patron.name) ", deleted " (layout::time(*at)) }
                        form method="post" action=(format!("{PATH}/{}/restore", segment(&patron.id))) {
                            button { "Restore" }
                        }
                    }
                }
            }
        }
    }
}

/// Restores a patron. If another one has the id by now, the request is refused, and nothing is changed.
async fn restore(State(store): State<Store>, wants: Wants, Ids(id): Ids<String>) -> Result<Response, Problem> {
    store.deleted_patrons.restore(id.as_str()).await?;
    let patron = store.patrons.get(id.as_str()).await?;
    let patron = patron.ok_or_else(|| Problem::unknown(&PATRONS))?;
    let path = PATRONS.path_of(&id, "");
    Ok(reply::stored(wants, false, &patron, &path, &path))
}
