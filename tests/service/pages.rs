//! The responses of the example `service`: pages, JSON, cursors, and problem details without values of users.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::service::support::*;

pub(crate) async fn json_of(service: SocketAddr, path: &str) -> Value {
    let answer = get(service, path).await;
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    answer.json()
}

/// Follows links from a page on. Returns the items of each page, and the path of the last one.
pub(crate) async fn walk(service: SocketAddr, from: &str, link: &str, list: &str) -> (Vec<Vec<Value>>, String) {
    let (mut pages, mut path) = (vec![], from.to_owned());
    loop {
        let page = json_of(service, &path).await;
        pages.push(page[list].as_array().unwrap().clone());
        match page[link].as_str() {
            Some(next) => path = next.to_owned(),
            None => return (pages, path),
        }
    }
}

#[tokio::test]
async fn responses_are_pages_json_or_problems() {
    let service = started().await;
    pages_are_html_or_json_and_cursors_lead_there_and_back(service.address).await;
    a_repeated_request_is_stored_once_and_can_be_changed_and_removed(service.address).await;
    texts_of_users_are_escaped(service.address).await;
    problems_name_the_field_and_never_the_value(service.address).await;
}

async fn pages_are_html_or_json_and_cursors_lead_there_and_back(service: SocketAddr) {
    for path in [
        "/",
        "/customers",
        "/customers/123/trades",
        "/customers/123/trades/sample-0",
        "/books",
        "/books/1",
        "/books/1/buyers/user00",
        "/books/2",
        "/products",
        "/products/1",
        "/products/1/reviews",
        "/products/1/reviews/786",
        "/patrons",
        "/patrons/joe",
        "/patrons/joe/addresses/1",
        "/policies",
        "/policies/1",
        "/policies/1/revisions",
        "/policies/1/revisions/1",
        "/policies/1/revisions/2",
        "/orders",
        "/orders/sample-1",
        "/orders/sample-1/remove",
        "/buyers",
        "/buyers/1",
        "/buyers/1/remove",
        "/problems",
    ] {
        let page = get(service, path).await;
        assert_eq!(page.status, 200, "{path}");
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"), "{path}");
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        assert!(page.body.starts_with("<!DOCTYPE html>"), "{path}");
    }
    let accept = "accept: text/html;q=0.5, application/json\r\n";
    let asked = ask(service, "GET", "/patrons/joe", accept, "").await;
    assert_eq!(asked.json()["name"], "Joe Bookreader");

    for (from, list, items) in [
        ("/customers/123/trades.json", "trades", 34),
        ("/customers/456/trades.json", "trades", 7),
        ("/books/1.json", "buyers", 3),
        ("/books/2.json", "buyers", 1000),
        ("/products/1/reviews.json", "reviews", 45),
    ] {
        let ids_of = |pages: Vec<Vec<Value>>| -> Vec<String> {
            let id = |item: Value| item.get("id").unwrap_or(&item).as_str().unwrap().to_owned();
            pages.into_iter().flatten().map(id).collect()
        };
        let (there, last) = walk(service, from, "next", list).await;
        let there = ids_of(there);
        let mut ids = there.clone();
        assert_eq!(ids.len(), items, "{from}");
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), items, "{from} has no duplicates");
        let (mut back, _) = walk(service, &last, "previous", list).await;
        back.reverse();
        assert_eq!(ids_of(back), there, "{from}, and back");
    }
}

async fn a_repeated_request_is_stored_once_and_can_be_changed_and_removed(service: SocketAddr) {
    let cases = [
        (
            "/customers/7/trades",
            json!({ "id": "a", "kind": "buy", "ticker": "MDB", "qty": 5 }),
            json!({ "id": "a", "kind": "sell", "ticker": "MDB", "qty": 6 }),
        ),
        (
            "/products/1/reviews",
            json!({ "id": "a", "author": "Ann", "text": "<script>alert(1)</script>" }),
            json!({ "id": "a", "author": "Ann", "text": "Better now." }),
        ),
        (
            "/patrons/joe/addresses",
            json!({ "id": "a", "street": "1 A Street", "city": "Boston", "state": "MA", "zip": "12345" }),
            json!({ "id": "a", "street": "2 B Street", "city": "Boston", "state": "MA", "zip": "12345" }),
        ),
    ];
    for (path, item, other) in cases {
        let one = format!("{path}/a");
        let first = send(service, "POST", path, &item).await;
        assert_eq!(first.status, 201, "{first:?}");
        assert_eq!(first.header("location"), Some(one.as_str()));
        let again = send(service, "POST", path, &item).await;
        assert_eq!((again.status, again.json()), (200, first.json()));
        let taken = send(service, "POST", path, &other).await;
        assert_eq!((taken.status, taken.kind()), (409, "taken".to_owned()));
        assert_eq!(json_of(service, &format!("{one}.json")).await, first.json());

        let changed = send(service, "PUT", &one, &other).await;
        assert_eq!(changed.status, 200, "{changed:?}");
        let now = json_of(service, &format!("{one}.json")).await;
        for (field, value) in other.as_object().unwrap() {
            assert_eq!(&now[field], value);
        }
        for _ in 0..2 {
            assert_eq!(send(service, "DELETE", &one, &json!({})).await.status, 204);
        }
        assert_eq!(get(service, &one).await.status, 404);
        assert_eq!(send(service, "PUT", &one, &other).await.status, 404);
    }
    for status in [201, 200] {
        let bought = send(service, "PUT", "/books/1/buyers/new", &json!({})).await;
        assert_eq!(bought.status, status);
    }
    for _ in 0..2 {
        let posted = post(service, "/customers/7/trades", "id=f&kind=buy&ticker=A%26B&qty=1").await;
        assert_eq!(posted.status, 303);
        assert_eq!(posted.header("location"), Some("/customers/7/trades"));
    }
    let trades = json_of(service, "/customers/7/trades.json").await;
    assert_eq!(trades["trades"].as_array().unwrap().len(), 1);
    assert_eq!(trades["trades"][0]["ticker"], "A&B");
    let removed = post(service, "/customers/7/trades/f/remove", "").await;
    assert_eq!(removed.status, 303);
}

async fn texts_of_users_are_escaped(service: SocketAddr) {
    let review = json!({ "id": "x", "author": "\"><img src=x>", "text": "<script>alert(1)</script>" });
    send(service, "POST", "/products/1/reviews", &review).await;
    for path in ["/products/1", "/products/1/reviews", "/products/1/reviews/x"] {
        let page = get(service, path).await.body;
        assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{page}");
    }
}

async fn problems_name_the_field_and_never_the_value(service: SocketAddr) {
    let address = |id: usize| json!({ "id": id.to_string(), "street": "A", "city": "B", "state": "C", "zip": "D" });
    for id in 3..=20 {
        let added = send(service, "POST", "/patrons/joe/addresses", &address(id)).await;
        assert_eq!(added.status, 201);
    }
    let secret = "s3cr3t value";
    let bad = json!({ "id": secret, "kind": secret, "ticker": "MDB", "qty": secret });
    let insured = json!({ "item": secret, "by": secret, "revision": 1 });
    let ordered = json!({ "id": "s3cr3t", "total": 1 });
    let long = json!({ "id": "x".repeat(70_000) });
    for (method, path, body, status, kind) in [
        ("POST", "/customers/1/trades", &bad, 400, "invalid"),
        ("POST", "/customers/1/trades", &json!([secret]), 400, "invalid"),
        ("GET", "/customers/1/trades?after=s3cr3t", &json!({}), 400, "invalid"),
        ("GET", "/products/1/reviews?after=s3cr3t", &json!({}), 400, "invalid"),
        ("PUT", "/books/1/buyers/s3cr3t%20value", &json!({}), 400, "invalid"),
        ("GET", "/customers/s3cr3t/trades", &json!({}), 404, "not-found"),
        ("GET", "/books/3", &json!({}), 404, "not-found"),
        ("GET", "/s3cr3t", &json!({}), 404, "not-found"),
        ("PUT", "/books/3/buyers/x", &json!({}), 404, "not-found"),
        ("POST", "/patrons/s3cr3t/addresses", &address(1), 404, "not-found"),
        ("POST", "/patrons/joe/addresses", &address(21), 409, "full"),
        ("PUT", "/patrons/joe", &json!({ "name": secret }), 409, "taken"),
        ("GET", "/policies/77", &json!({}), 404, "not-found"),
        ("GET", "/policies/1/revisions/s3cr3t", &json!({}), 404, "not-found"),
        ("GET", "/policies/1/revisions?after=s3cr3t", &json!({}), 400, "invalid"),
        ("POST", "/policies/1/items", &bad, 400, "invalid"),
        ("POST", "/policies/77/items", &insured, 404, "not-found"),
        ("GET", "/orders/s3cr3t", &json!({}), 404, "not-found"),
        ("GET", "/buyers/s3cr3t", &json!({}), 404, "not-found"),
        ("PUT", "/buyers/1", &bad, 400, "invalid"),
        ("POST", "/buyers/1/orders", &bad, 400, "invalid"),
        ("POST", "/buyers/77/orders", &ordered, 404, "not-found"),
        ("DELETE", "/buyers/1?orders=s3cr3t", &json!({}), 400, "invalid"),
        ("DELETE", "/buyers/1", &json!({}), 409, "referenced"),
        ("DELETE", "/books/1", &json!({}), 405, "not-allowed"),
        ("POST", "/customers/1/trades", &long, 413, "too-large"),
    ] {
        let answer = send(service, method, path, body).await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        assert_eq!(answer.kind(), kind, "{method} {path}");
        let problem = answer.json();
        assert_eq!(problem["status"], status);
        assert!(problem["title"].is_string() && problem["detail"].is_string());
        assert!(
            !format!("{}{}", answer.body, answer.head).contains("s3cr3t"),
            "{answer:?}"
        );
    }
    let invalid = send(service, "POST", "/customers/1/trades", &bad).await.json();
    let errors = invalid["errors"].as_array().unwrap().iter();
    let fields: Vec<&Value> = errors.map(|wrong| &wrong["field"]).collect();
    assert_eq!(fields, ["id", "kind", "qty"]);
    let text = "content-type: text/plain\r\n";
    let plain = ask(service, "POST", "/customers/1/trades", text, "x").await;
    assert_eq!(plain.status, 415);
    assert!(plain.body.starts_with("<!DOCTYPE html>"), "a browser gets a page");
    let refused = send(service, "DELETE", "/books/1", &json!({})).await;
    assert_eq!(refused.header("allow"), Some("get,head"));
}
