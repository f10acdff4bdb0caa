//! Lists of customers, books, products, patrons, policies, orders and buyers, from which the visitor chooses one by a link or by its id.

use axum::Json;
use axum::response::{IntoResponse, Redirect, Response};
use futures::TryStreamExt;
use maud::{Markup, html};
use mongodb::bson::{Bson, doc};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::layout::{self, pager};
use crate::problem::Problem;
use crate::reply::Wants;
use crate::section::{Section, segment};
use crate::store::Store;

/// The number of links on a page.
const SHOWN: usize = 50;
const LONGEST_ID: usize = 64;

/// The query of a list: the id from its form, or the last id of the page before.
#[derive(Deserialize)]
pub(crate) struct Choose<T> {
    id: Option<String>,
    pub(crate) after: Option<T>,
}

/// One link of a list.
#[derive(Debug)]
pub(crate) struct Choice<T> {
    pub(crate) id: T,
    pub(crate) title: String,
}

#[derive(Serialize)]
struct ChoiceView<'a, T> {
    id: &'a T,
    title: &'a str,
    path: String,
}

#[derive(Serialize)]
struct ListView<'a, T> {
    choices: Vec<ChoiceView<'a, T>>,
    next: Option<String>,
}

impl<T: ToString> Choose<T> {
    /// Redirects to the page of the id from the form. That page reports an unknown id.
    pub(crate) fn chosen(&self, wants: Wants, section: &'static Section) -> Option<Result<Response, Problem>> {
        let id = self.id.as_deref().map(str::trim).filter(|id| !id.is_empty())?;
        if id.len() > LONGEST_ID {
            return Some(Err(Problem::unknown(section)));
        }
        let path = section.path_of(id, wants.suffix());
        Some(Ok(Redirect::to(&path).into_response()))
    }

    /// Returns how many documents [`list`](Self::list) needs: one more than a page, to know whether another one exists.
    pub(crate) fn needed() -> usize {
        SHOWN + 1
    }

    /// Responds with a page of links.
    pub(crate) fn list(&self, wants: Wants, section: &Section, mut found: Vec<Choice<T>>) -> Response
    where
        T: Serialize,
    {
        let has_next = found.len() > SHOWN;
        found.truncate(SHOWN);
        let last = found.last().filter(|_| has_next).map(|choice| choice.id.to_string());
        let next = |suffix: &str| {
            let last = last.as_deref()?;
            Some(format!("{}{suffix}?after={}", section.path, segment(last)))
        };
        if wants == Wants::Json {
            let choices = found.iter().map(|Choice { id, title }| ChoiceView {
                id,
                title,
                path: section.path_of(&id.to_string(), ".json"),
            });
            let choices = choices.collect();
            return Json(ListView {
                choices,
                next: next(".json"),
            })
            .into_response();
        }
        let first = self.after.as_ref().map(|_| (section.path, "First page"));
        let page = html! {
            (form(section))
            @if found.is_empty() {
                p { "No " (section.title.to_lowercase()) " on this page." }
            } @else {
                ul .choices {
                    @for Choice { id, title } in &found {
                        li { a href=(section.path_of(&id.to_string(), "")) { (title) } }
                    }
                }
            }
            (pager(first, next("").as_deref().map(|path| (path, "Next"))))
        };
        layout::document(section.title, &page).into_response()
    }
}

fn form(section: &Section) -> Markup {
    html! {
        form method="get" action=(section.path) {
            label {
                (section.label)
                @if let Some(largest) = section.largest {
                    input name="id" type="number" required min="0" max=(largest);
                } @else {
                    input name="id" required maxlength=(LONGEST_ID) autocomplete="off" autocapitalize="none";
                }
            }
            button { "Show" }
        }
    }
}

/// Reads the ids and titles of documents after an id, in the order of ids. It examines one document for each link.
pub(crate) async fn documents<T>(
    store: &Store,
    collection: &str,
    title: &str,
    after: Option<T>,
) -> mongo_patterns::Result<Vec<Choice<T>>>
where
    T: Into<Bson> + ToString + DeserializeOwned + Send + Sync,
{
    #[derive(Deserialize)]
    struct Titled<T> {
        #[serde(rename = "_id")]
        id: T,
        title: String,
    }
    let after = after.map(|id| doc! { "_id": { "$gt": id } });
    let found = store
        .database
        .collection::<Titled<T>>(collection)
        .find(after.unwrap_or_default())
        .sort(doc! { "_id": 1 })
        .projection(doc! { "title": format!("${title}") })
        .limit(Choose::<T>::needed() as i64)
        .await?;
    let found = found.map_ok(|Titled { id, title }| Choice { id, title });
    Ok(found.try_collect().await?)
}
