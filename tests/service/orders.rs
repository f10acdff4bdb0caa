//! The pages of an order and its buyer in the example `service`.

use std::net::SocketAddr;

use mongodb::Client;
use mongodb::bson::{Document, doc};
use serde_json::{Value, json};

use crate::service::pages::{json_of, walk};
use crate::service::support::*;
use support::common::pause;

#[tokio::test]
async fn orders_and_buyers_change_and_are_removed() {
    let service = started().await;
    an_order_shows_its_buyer_and_follows_each_change(service.address).await;
    a_buyer_is_created_once_and_removed_as_the_request_says(service.address).await;
    the_orders_of_a_buyer_are_read_in_pages(service.address).await;
}

async fn an_order_shows_its_buyer_and_follows_each_change(service: SocketAddr) {
    let order = json!({ "id": "o-1", "total": 7 });
    for status in [201, 200] {
        let stored = send(service, "POST", "/buyers/1/orders", &order).await;
        assert_eq!(stored.status, status, "{stored:?}");
        let location = (status == 201).then_some("/orders/o-1");
        assert_eq!(stored.header("location"), location);
        let ann = json!({ "_id": 1, "name": "Ann", "city": "Dublin" });
        assert_eq!(stored.json()["buyer"], ann);
    }
    for (path, body) in [
        ("/buyers/1/orders", json!({ "id": "o-1", "total": 8 })),
        ("/buyers/2/orders", order),
    ] {
        let taken = send(service, "POST", path, &body).await;
        assert_eq!((taken.status, taken.kind()), (409, "taken".to_owned()));
    }

    let changed = json!({ "name": "<b>Bea</b>", "city": "Galway" });
    for _ in 0..2 {
        let stored = send(service, "PUT", "/buyers/1", &changed).await;
        assert_eq!(stored.status, 200, "{stored:?}");
    }
    for id in ["o-1", "sample-1", "sample-2"] {
        let shown = json_of(service, &format!("/orders/{id}.json")).await;
        let bea = json!({ "_id": 1, "name": "<b>Bea</b>", "city": "Galway" });
        assert_eq!(shown["buyer"], bea);
    }
    let buyer = json_of(service, "/buyers/1.json").await;
    assert_eq!(buyer["orders"].as_array().unwrap().len(), 3);
    for path in ["/orders/o-1", "/orders", "/buyers/1", "/buyers"] {
        let page = get(service, path).await.body;
        let is_escaped = page.contains("&lt;b&gt;Bea&lt;/b&gt;") && !page.contains("<b>");
        assert!(is_escaped, "{page}");
    }
    let other = json_of(service, "/orders/sample-3.json").await;
    assert_eq!(other["buyer"]["name"], "Bob");

    let removed = post(service, "/orders/o-1/remove", "").await;
    assert_eq!((removed.status, removed.header("location")), (303, Some("/orders")));
    assert_eq!(get(service, "/orders/o-1").await.status, 404);
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_change_by_another_program_reaches_the_orders_in_the_background() {
    let uri = uri().await;
    let service = Service::start(&uri).await;
    let database = Client::with_uri_str(&uri).await.unwrap().default_database().unwrap();
    let buyers = database.collection::<Document>("buyers");
    // The first change can be before the follower has started. The last one is after its error, of which it recovers.
    for (name, is_dropped) in [("Bea", false), ("Cleo", false), ("Dora", true)] {
        if is_dropped {
            buyers.drop().await.unwrap();
            let buyer = doc! { "_id": 1, "name": "Ann", "city": "Dublin" };
            buyers.insert_one(buyer).await.unwrap();
        }
        let renamed = buyers.update_one(doc! { "_id": 1 }, doc! { "$set": { "name": name } });
        assert_eq!(renamed.await.unwrap().modified_count, 1);
        let shown = async {
            while json_of(service.address, "/orders/sample-1.json").await["buyer"]["name"] != name {
                pause().await;
            }
        };
        in_time(&format!("the order never had the name {name}"), shown).await;
    }
}

async fn a_buyer_is_created_once_and_removed_as_the_request_says(service: SocketAddr) {
    let buyer = json!({ "name": "Cleo", "city": "Sligo" });
    for status in [201, 200] {
        let stored = send(service, "PUT", "/buyers/3", &buyer).await;
        assert_eq!(stored.status, status, "{stored:?}");
    }
    let ordered = post(service, "/buyers/3/orders", "id=o-3&total=1").await;
    assert_eq!((ordered.status, ordered.header("location")), (303, Some("/orders/o-3")));

    let refused = post(service, "/buyers/3/remove", "").await;
    assert_eq!(refused.status, 409);
    assert!(refused.body.contains("Something refers to it"), "{refused:?}");
    let page = get(service, "/buyers/3/remove").await.body;
    assert!(page.contains("action=\"/buyers/3/remove?orders=keep\""), "{page}");
    for _ in 0..2 {
        let removed = post(service, "/buyers/3/remove?orders=keep", "").await;
        assert_eq!((removed.status, removed.header("location")), (303, Some("/buyers")));
    }
    assert_eq!(get(service, "/buyers/3").await.status, 404);
    let kept = json_of(service, "/orders/o-3.json").await;
    let cleo = json!({ "_id": 3, "name": "Cleo", "city": "Sligo", "deleted": true });
    assert_eq!(kept["buyer"], cleo);
    let page = get(service, "/orders/o-3").await.body;
    assert!(page.contains("Cleo") && !page.contains("/buyers/3"), "{page}");
    let gone = send(service, "POST", "/buyers/3/orders", &json!({ "id": "o-4", "total": 1 })).await;
    assert_eq!(gone.status, 404);

    // A buyer without orders is removed by the plain request.
    assert_eq!(send(service, "PUT", "/buyers/4", &buyer).await.status, 201);
    for _ in 0..2 {
        let removed = send(service, "DELETE", "/buyers/4", &json!({})).await;
        assert_eq!(removed.status, 204, "{removed:?}");
    }
}

async fn the_orders_of_a_buyer_are_read_in_pages(service: SocketAddr) {
    for n in 0..25 {
        let order = json!({ "id": format!("o-{n:02}"), "total": 1 });
        let stored = send(service, "POST", "/buyers/2/orders", &order).await;
        assert_eq!(stored.status, 201);
    }
    let (pages, _) = walk(service, "/buyers/2.json", "next", "orders").await;
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [20, 6]);
    let found: Vec<Value> = pages.iter().flatten().map(|order| order["_id"].clone()).collect();
    let expected: Vec<Value> = (0..25).map(|n| json!(format!("o-{n:02}"))).collect();
    assert_eq!(found[..25], expected);
    assert_eq!(found[25..], ["sample-3"]);
    let html = get(service, "/buyers/2").await.body;
    assert!(html.contains("/buyers/2?after=o-19"), "{html}");
}
