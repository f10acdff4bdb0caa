//! An insurance policy and its revisions: the history pattern. Every change says who made it, and expects the revision that
//! its form showed, so a repeated request is stored once, and two visitors do not overwrite each other.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use maud::{Markup, html};
use mongo_patterns::ErrorKind;
use mongo_patterns::history::{Diff, Revision, RevisionToken};
use mongodb::bson::{Bson, Document, doc};
use serde::{Deserialize, Serialize};

use crate::choose::{Choice, Choose};
use crate::input::{Fields, Ids, PageQuery};
use crate::layout::{self, pager};
use crate::model::{CHANGED_BY, Policy};
use crate::problem::{self, Problem};
use crate::reply::{self, Wants};
use crate::section::POLICIES;
use crate::store::Store;

/// The number of revisions on a page.
const SHOWN: u32 = 10;
/// The current policy.
#[derive(Serialize)]
struct PolicyView<'a> {
    #[serde(flatten)]
    policy: &'a Policy,
    revision: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RevisionView<'a> {
    revision: u64,
    time: String,
    changed_by: Option<&'a str>,
    policy: Option<&'a Policy>,
}

impl<'a> From<&'a Revision<Policy>> for RevisionView<'a> {
    fn from(revision: &'a Revision<Policy>) -> Self {
        Self {
            revision: revision.revision,
            time: layout::rfc3339(revision.time),
            changed_by: revision.change.get_str(CHANGED_BY).ok(),
            policy: revision.document.as_ref(),
        }
    }
}

#[derive(Serialize)]
struct ListView<'a> {
    revisions: Vec<RevisionView<'a>>,
    next: Option<String>,
}

#[derive(Serialize)]
struct OneView<'a> {
    #[serde(flatten)]
    revision: RevisionView<'a>,
    /// What changed since the previous revision.
    changes: Vec<ChangeView<'a>>,
}

#[derive(Serialize)]
struct ChangeView<'a> {
    path: &'a str,
    before: Option<&'a Bson>,
    after: Option<&'a Bson>,
}

pub(crate) fn routes() -> Router<Store> {
    Router::new()
        .route("/policies", get(choose))
        .route("/policies/{policy}", get(show))
        .route("/policies/{policy}/items", post(insure))
        .route("/policies/{policy}/revisions", get(list))
        .route("/policies/{policy}/revisions/{revision}", get(show_one))
        .route("/policies/{policy}/revisions/{revision}/restore", post(restore))
}

fn path(policy: i32) -> String {
    format!("/policies/{policy}")
}

fn path_of(policy: i32, revision: u64) -> String {
    format!("{}/revisions/{revision}", path(policy))
}

async fn choose(
    State(store): State<Store>,
    wants: Wants,
    PageQuery(query): PageQuery<Choose<i32>>,
) -> Result<Response, Problem> {
    if let Some(chosen) = query.chosen(wants, &POLICIES) {
        return chosen;
    }
    let mut filter = doc! {};
    if let Some(after) = query.after {
        filter.insert("policyId", doc! { "$gt": after });
    }
    let found = store.policies.find(filter).sort(doc! { "policyId": 1 });
    let found = found.limit(Choose::<i32>::needed() as u32).await?.into_iter();
    let found = found.map(|current| Choice {
        id: current.document.policy_id,
        title: format!("{}: {}", current.document.policy_id, current.document.customer_name),
    });
    Ok(query.list(wants, &POLICIES, found.collect()))
}

async fn show(State(store): State<Store>, wants: Wants, Ids(id): Ids<i32>) -> Result<Response, Problem> {
    let current = store.policies.get(id).await?;
    let current = current.ok_or_else(|| Problem::unknown(&POLICIES))?;
    let (policy, revision) = (&current.document, current.revision);
    let html = || {
        html! {
            p { "Insured by " (policy.customer_name) ", revision " (revision) "." }
            (items(policy))
            h2 { "Insure an item" }
            form method="post" action=(format!("{}/items", path(id))) {
                (expected(revision))
                label { "Item" input name="item" required maxlength="60"; }
                (who())
                button { "Insure" }
            }
            p { a href=(format!("{}/revisions", path(id))) { "All revisions" } }
            (POLICIES.link())
        }
    };
    let view = PolicyView { policy, revision };
    Ok(reply::found(wants, &view, &format!("Policy {id}"), html))
}

fn items(policy: &Policy) -> Markup {
    html! {
        @if policy.items_insured.is_empty() {
            p { "No insured items." }
        } @else {
            ul { @for item in &policy.items_insured { li { (item) } } }
        }
    }
}

/// Returns a hidden input with the revision that the page shows.
fn expected(revision: u64) -> Markup {
    html! { input type="hidden" name="revision" value=(revision); }
}

fn who() -> Markup {
    html! { label { "Your name" input name="by" required maxlength="60" autocomplete="name"; } }
}

/// Reads who makes a change, and the revision that they have seen.
fn change(fields: &mut Fields) -> (String, u64) {
    let revision = fields.number("revision", i32::MAX);
    (fields.text("by", 60), u64::try_from(revision).unwrap_or_default())
}

fn by(name: &str) -> Document {
    doc! { CHANGED_BY: name }
}

async fn insure(
    State(store): State<Store>,
    wants: Wants,
    Ids(id): Ids<i32>,
    mut fields: Fields,
) -> Result<Response, Problem> {
    let item = fields.text("item", 60);
    let (name, expected) = change(&mut fields);
    fields.done()?;
    let update = doc! { "$push": { "itemsInsured": &item } };
    let update = store.policies.update(id, update).expecting(expected).with(by(&name));
    let is_new = match update.await {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::RevisionMismatch => {
            let last = |policy: &Policy| policy.items_insured.last() == Some(&item);
            is_stored(&store, id, expected, &name, last).await?;
            false
        }
        Err(error) => return Err(error.into()),
    };
    stored(&store, wants, is_new, id, expected + 1).await
}

/// Checks that a repeated request has stored its revision. Otherwise somebody else has changed the policy.
async fn is_stored(
    store: &Store,
    id: i32,
    expected: u64,
    name: &str,
    is_own: impl Fn(&Policy) -> bool,
) -> Result<(), Problem> {
    let next = store.policies.at(id, expected + 1).await?;
    let next = next.filter(|next| next.change == by(name) && next.document.as_ref().is_some_and(is_own));
    next.map(drop).ok_or_else(|| Problem::of(&problem::CHANGED))
}

async fn stored(store: &Store, wants: Wants, is_new: bool, id: i32, revision: u64) -> Result<Response, Problem> {
    let stored = store.policies.at(id, revision).await?;
    let stored = stored.ok_or_else(|| Problem::of(&problem::NOT_FOUND))?;
    let view = RevisionView::from(&stored);
    Ok(reply::stored(wants, is_new, &view, &path_of(id, revision), &path(id)))
}

#[derive(Deserialize)]
struct Cursor {
    after: Option<RevisionToken>,
}

async fn list(
    State(store): State<Store>,
    wants: Wants,
    Ids(id): Ids<i32>,
    PageQuery(cursor): PageQuery<Cursor>,
) -> Result<Response, Problem> {
    let revisions = store.policies.revisions(id).newest_first().limit(SHOWN);
    let page = revisions.after(cursor.after).page().await?;
    if page.items.is_empty() {
        return Err(Problem::unknown(&POLICIES));
    }
    let older = |suffix: &str| {
        let token = page.next?;
        Some(format!("{}/revisions{suffix}?after={token}", path(id)))
    };
    let view = ListView {
        revisions: page.items.iter().map(RevisionView::from).collect(),
        next: older(".json"),
    };
    let html = || {
        html! {
            p { a href=(path(id)) { "Back to the policy" } }
            (table(id, &page.items))
            (pager(None, older("").as_deref().map(|path| (path, "Older"))))
        }
    };
    Ok(reply::found(wants, &view, &format!("Revisions of policy {id}"), html))
}

fn table(id: i32, revisions: &[Revision<Policy>]) -> Markup {
    html! {
        div .scroll {
            table {
                caption { "Newest first; times are UTC" }
                thead {
                    tr {
                        th scope="col" { "Revision" }
                        th scope="col" { "Time" }
                        th scope="col" { "Changed by" }
                        th .number scope="col" { "Items" }
                    }
                }
                tbody {
                    @for revision in revisions {
                        tr {
                            td { a href=(path_of(id, revision.revision)) { (revision.revision) } }
                            td { (layout::time(revision.time)) }
                            td { (revision.change.get_str(CHANGED_BY).unwrap_or("unknown")) }
                            td .number {
                                @match &revision.document {
                                    Some(policy) => (policy.items_insured.len()),
                                    None => "deleted",
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Parses the number of a revision in a path.
fn number(text: &str) -> Result<u64, Problem> {
    text.parse().map_err(|_| Problem::of(&problem::NOT_FOUND))
}

async fn show_one(
    State(store): State<Store>,
    wants: Wants,
    Ids((id, revision)): Ids<(i32, String)>,
) -> Result<Response, Problem> {
    let number = number(&revision)?;
    let revision = store.policies.at(id, number).await?;
    let revision = revision.ok_or_else(|| Problem::of(&problem::NOT_FOUND))?;
    let diff = match store.policies.diff(id, number.saturating_sub(1), number).await {
        // The first revision, or the previous one was deleted.
        Err(error) if error.kind() == ErrorKind::NotFound => Diff::default(),
        diff => diff?,
    };
    let current = store.policies.get(id).await?.map(|current| current.revision);
    let changes = diff.changes.iter().map(|change| ChangeView {
        path: &change.path,
        before: change.before.as_ref(),
        after: change.after.as_ref(),
    });
    let view = OneView {
        revision: RevisionView::from(&revision),
        changes: changes.collect(),
    };
    let html = || {
        html! {
            p { (layout::time(revision.time)) ", changed by " (view.revision.changed_by.unwrap_or("unknown")) }
            @match &revision.document {
                Some(policy) => (items(policy)),
                None => p { "The policy was deleted." },
            }
            (changes_of(&view.changes))
            @if let (Some(current), Some(_)) = (current, &revision.document) {
                @if current != number {
                    h2 { "Restore this revision" }
                    form method="post" action=(format!("{}/restore", path_of(id, number))) {
                        (expected(current))
                        (who())
                        button { "Restore" }
                    }
                }
            }
            p { a href=(format!("{}/revisions", path(id))) { "All revisions" } }
        }
    };
    Ok(reply::found(
        wants,
        &view,
        &format!("Policy {id}, revision {number}"),
        html,
    ))
}

fn changes_of(changes: &[ChangeView<'_>]) -> Markup {
    let side = |value: Option<&Bson>| value.map_or_else(|| "nothing".to_owned(), ToString::to_string);
    html! {
        @if !changes.is_empty() {
            h2 { "Changed since the previous revision" }
            ul {
                @for change in changes {
                    li { code { (change.path) } ": " (side(change.before)) " → " (side(change.after)) }
                }
            }
        }
    }
}

async fn restore(
    State(store): State<Store>,
    wants: Wants,
    Ids((id, revision)): Ids<(i32, String)>,
    mut fields: Fields,
) -> Result<Response, Problem> {
    let revision = number(&revision)?;
    let (name, expected) = change(&mut fields);
    fields.done()?;
    let restore = store.policies.restore(id, revision).expecting(expected).with(by(&name));
    let is_new = match restore.await {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::RevisionMismatch => {
            let restored = store
                .policies
                .at(id, revision)
                .await?
                .and_then(|restored| restored.document);
            let is_same = |policy: &Policy| {
                restored
                    .as_ref()
                    .is_some_and(|restored| restored.is_same_content(policy))
            };
            is_stored(&store, id, expected, &name, is_same).await?;
            false
        }
        Err(error) => return Err(error.into()),
    };
    stored(&store, wants, is_new, id, expected + 1).await
}
