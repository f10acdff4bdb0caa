//! A patron and their addresses: the embedded one-to-many pattern. All of it is one small document.

use axum::Router;
use axum::extract::State;
use axum::response::{Redirect, Response};
use axum::routing::get;
use maud::{Markup, html};
use mongo_patterns::ErrorKind;

use crate::choose::{self, Choose};
use crate::deleted;
use crate::input::{Fields, Ids, PageQuery, check_id};
use crate::layout::{self, new_id, remove_link};
use crate::model::{Address, Patron};
use crate::problem::{self, Problem};
use crate::reply::{self, Wants};
use crate::section::{PATRONS, segment};
use crate::store::Store;

pub(crate) fn routes() -> Router<Store> {
    Router::new()
        .route("/patrons", get(choose))
        .route("/patrons/{patron}", get(show).put(create).delete(deleted::delete))
        .route("/patrons/{patron}/addresses", get(to_patron).post(add))
        .route(
            "/patrons/{patron}/addresses/{address}",
            get(show_one).put(replace).delete(remove),
        )
        .route(
            "/patrons/{patron}/addresses/{address}/remove",
            get(confirm).post(remove),
        )
}

fn path(patron: &str) -> String {
    format!("/patrons/{}", segment(patron))
}

fn path_of(patron: &str, address: &str) -> String {
    format!("{}/addresses/{}", path(patron), segment(address))
}

async fn choose(
    State(store): State<Store>,
    wants: Wants,
    PageQuery(query): PageQuery<Choose<String>>,
) -> Result<Response, Problem> {
    if let Some(chosen) = query.chosen(wants, &PATRONS) {
        return chosen;
    }
    let found = choose::documents(&store, "patron", "name", query.after.clone()).await?;
    Ok(query.list(wants, &PATRONS, found))
}

async fn to_patron(wants: Wants, Ids(id): Ids<String>) -> Redirect {
    Redirect::to(&format!("{}{}", path(&id), wants.suffix()))
}

async fn show(State(store): State<Store>, wants: Wants, Ids(id): Ids<String>) -> Result<Response, Problem> {
    let patron = store.patrons.get(id.as_str()).await?;
    let patron = patron.ok_or_else(|| Problem::unknown(&PATRONS))?;
    let most = store.patrons.max_children();
    let html = || {
        html! {
            h2 { "Add an address" }
            @if patron.addresses.len() < most as usize {
                (form(&id))
            } @else {
                p { "A patron has at most " (most) " addresses. Remove one first." }
            }
            h2 { "Addresses" }
            (addresses(&id, &patron.addresses))
            (remove_link(&path(&id), "", &patron.name))
            (PATRONS.link())
            p { a href=(deleted::PATH) { "Deleted patrons" } }
        }
    };
    Ok(reply::found(wants, &patron, &patron.name, html))
}

fn addresses(patron: &str, addresses: &[Address]) -> Markup {
    html! {
        @if addresses.is_empty() {
            p { "No addresses." }
        } @else {
            ul .cards {
                @for address in addresses {
                    li {
                        address { (lines(address)) }
                        (remove_link(&path_of(patron, &address.id), "", &address.street))
                    }
                }
            }
        }
    }
}

fn lines(address: &Address) -> Markup {
    html! {
        (address.street) br;
        (address.city) ", " (address.state) " " (address.zip)
    }
}

fn form(patron: &str) -> Markup {
    html! {
        form method="post" action=(format!("{}/addresses", path(patron))) {
            (new_id())
            label .wide { "Street" input name="street" required maxlength="100" autocomplete="street-address"; }
            label { "City" input name="city" required maxlength="60" autocomplete="address-level2"; }
            label { "State" input name="state" required maxlength="20" autocomplete="address-level1"; }
            label { "ZIP" input name="zip" required maxlength="12" autocomplete="postal-code"; }
            button { "Add" }
        }
    }
}

fn read(mut fields: Fields, id: Option<String>) -> Result<Address, Problem> {
    let address = Address {
        id: id.unwrap_or_else(|| fields.id("id")),
        street: fields.text("street", 100),
        city: fields.text("city", 60),
        state: fields.text("state", 20),
        zip: fields.text("zip", 12),
    };
    fields.done()?;
    Ok(address)
}

/// Creates a patron without addresses.
async fn create(
    State(store): State<Store>,
    wants: Wants,
    Ids(id): Ids<String>,
    mut fields: Fields,
) -> Result<Response, Problem> {
    check_id("patron", &id)?;
    let name = fields.text("name", 100);
    fields.done()?;
    let mut patron = Patron {
        id,
        name,
        addresses: vec![],
    };
    let is_new = match store.patrons.insert(&patron).await {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let stored = store.patrons.get(patron.id.as_str()).await?;
            let stored = stored.filter(|stored| stored.name == patron.name);
            patron = stored.ok_or_else(|| Problem::of(&problem::TAKEN))?;
            false
        }
        Err(error) => return Err(error.into()),
    };
    let path = path(&patron.id);
    Ok(reply::stored(wants, is_new, &patron, &path, &path))
}

async fn add(
    State(store): State<Store>,
    wants: Wants,
    Ids(patron): Ids<String>,
    fields: Fields,
) -> Result<Response, Problem> {
    let address = read(fields, None)?;
    let is_new = match store.patrons.add_child(patron.as_str(), &address).await {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let stored = store.patrons.child(patron.as_str(), address.id.as_str()).await?;
            if stored.as_ref() != Some(&address) {
                return Err(Problem::of(&problem::TAKEN));
            }
            false
        }
        Err(error) => return Err(error.into()),
    };
    let new_path = path_of(&patron, &address.id);
    Ok(reply::stored(wants, is_new, &address, &new_path, &path(&patron)))
}

async fn show_one(
    State(store): State<Store>,
    wants: Wants,
    Ids((patron, id)): Ids<(String, String)>,
) -> Result<Response, Problem> {
    let address = store.patrons.child(patron.as_str(), id).await?;
    let address = address.ok_or_else(|| Problem::of(&problem::NOT_FOUND))?;
    let html = || {
        html! {
            (addresses(&patron, std::slice::from_ref(&address)))
            p { a href=(path(&patron)) { "The patron and all addresses" } }
        }
    };
    Ok(reply::found(wants, &address, "An address", html))
}

async fn replace(
    State(store): State<Store>,
    wants: Wants,
    Ids((patron, id)): Ids<(String, String)>,
    fields: Fields,
) -> Result<Response, Problem> {
    let address = read(fields, Some(id))?;
    store.patrons.replace_child(patron.as_str(), &address).await?;
    Ok(reply::stored(wants, false, &address, "", &path(&patron)))
}

/// Asks before a removal.
async fn confirm(
    State(store): State<Store>,
    wants: Wants,
    Ids((patron, id)): Ids<(String, String)>,
) -> Result<Response, Problem> {
    let address = store.patrons.child(patron.as_str(), id).await?;
    let address = address.ok_or_else(|| Problem::of(&problem::NOT_FOUND))?;
    let html = || layout::confirm(&path_of(&patron, &address.id), "", &lines(&address), &path(&patron));
    Ok(reply::found(wants, &address, "Remove this address?", html))
}

async fn remove(
    State(store): State<Store>,
    wants: Wants,
    Ids((patron, id)): Ids<(String, String)>,
) -> Result<Response, Problem> {
    store.patrons.remove_child(patron.as_str(), id).await?;
    Ok(reply::removed(wants, &path(&patron)))
}
