//! Tests of the service against a real MongoDB.

#![allow(clippy::unwrap_used)] // a test fails with a panic

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use mongo_patterns::Repository;
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use serde_json::{Value, json};
use tower::ServiceExt;

// ANCHOR: helpers
async fn service(db: &TestDatabase) -> Router {
    let trades = tutorial::trades(db.database()).unwrap();
    trades.ensure_indexes().await.unwrap();
    tutorial::router(trades)
}

async fn send(service: &Router, request: Request<Body>) -> (StatusCode, String) {
    let response = service.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), 1024 * 1024).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}
// ANCHOR_END: helpers

fn add(trade: &Value) -> Request<Body> {
    Request::post("/customers/123/trades")
        .header("content-type", "application/json")
        .body(Body::from(trade.to_string()))
        .unwrap()
}

fn list(query: &str) -> Request<Body> {
    let path = format!("/customers/123/trades{query}");
    Request::get(path).body(Body::empty()).unwrap()
}

async fn ids(service: &Router, query: &str) -> (Vec<String>, Option<String>) {
    let (status, body) = send(service, list(query)).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let page: Value = serde_json::from_str(&body).unwrap();
    let trades = page["trades"].as_array().unwrap();
    let ids = trades.iter().map(|trade| trade["id"].as_str().unwrap().to_owned());
    (ids.collect(), page["next"].as_str().map(str::to_owned))
}

// ANCHOR: pages
#[tokio::test]
async fn pages_are_listed_newest_first() {
    testkit::run(async |db| {
        let service = service(db).await;
        for number in 1..=12 {
            let trade = json!({ "id": format!("t-{number}"), "ticker": "MDB", "qty": 1 });
            assert_eq!(send(&service, add(&trade)).await.0, StatusCode::CREATED);
        }

        db.recorder().clear();
        let (newest, next) = ids(&service, "").await;
        assert_eq!(newest, ["t-12", "t-11"]);
        assert_eq!(db.recorder().names(), ["find"], "a page is one round trip");
        let (older, _) = ids(&service, &format!("?after={}", next.unwrap())).await;
        assert_eq!(older.len(), 10);
        assert_eq!(older[0], "t-10");
    })
    .await;
}
// ANCHOR_END: pages

// ANCHOR: retry
#[tokio::test]
async fn a_retried_request_is_stored_once() {
    testkit::run(async |db| {
        let service = service(db).await;
        let trade = json!({ "id": "t-1", "ticker": "MDB", "qty": 419 });

        // The server executes the write, but reports that it shuts down: the client cannot know the outcome.
        let fault = FailPoint::on(&["update"])
            .write_concern_error(91)
            .times(2)
            .enable(db)
            .await;
        let (status, _) = send(&service, add(&trade)).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        fault.disable().await;

        assert_eq!(send(&service, add(&trade)).await.0, StatusCode::OK);
        assert_eq!(ids(&service, "").await.0, ["t-1"]);
    })
    .await;
}
// ANCHOR_END: retry

#[tokio::test]
async fn invalid_requests_are_refused() {
    testkit::run(async |db| {
        let service = service(db).await;
        db.recorder().clear();
        let (status, _) = send(&service, list("?after=forged")).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        let (status, _) = send(&service, add(&json!({ "id": "t-1" }))).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!(db.recorder().round_trips(), 0);
    })
    .await;
}
