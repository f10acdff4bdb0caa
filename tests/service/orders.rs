//! The pages of an order and its buyer in the example `service`.

use mongodb::bson::{Document, doc};
use serde_json::{Value, json};

use crate::common::support::pause;
use crate::service::pages::json_of;
use crate::service::process::server;
use crate::service::support::*;

const FORM: &str = "content-type: application/x-www-form-urlencoded\r\n";

#[tokio::test]
async fn an_order_shows_its_buyer_and_follows_each_change() {
    let service = started().await;
    let service = service.address;
    let order = json!({ "id": "o-1", "total": 7 });
    for status in [201, 200] {
        let stored = send(service, "POST", "/buyers/1/orders", &order).await.unwrap();
        assert_eq!(stored.status, status, "{stored:?}");
        let location = (status == 201).then_some("/orders/o-1");
        assert_eq!(stored.header("location"), location);
        assert_eq!(
            stored.json()["buyer"],
            json!({ "_id": 1, "name": "Ann", "city": "Dublin" })
        );
    }
    for (path, body) in [
        ("/buyers/1/orders", json!({ "id": "o-1", "total": 8 })),
        ("/buyers/2/orders", order),
    ] {
        let taken = send(service, "POST", path, &body).await.unwrap();
        assert_eq!((taken.status, &taken.json()["type"]), (409, &json!("/problems#taken")));
    }

    let changed = json!({ "name": "<b>Bea</b>", "city": "Galway" });
    for _ in 0..2 {
        let stored = send(service, "PUT", "/buyers/1", &changed).await.unwrap();
        assert_eq!(stored.status, 200, "{stored:?}");
    }
    for id in ["o-1", "sample-1", "sample-2"] {
        let shown = json_of(service, &format!("/orders/{id}.json")).await;
        assert_eq!(
            shown["buyer"],
            json!({ "_id": 1, "name": "<b>Bea</b>", "city": "Galway" })
        );
    }
    let buyer = json_of(service, "/buyers/1.json").await;
    assert_eq!(buyer["orders"].as_array().unwrap().len(), 3);
    for path in ["/orders/o-1", "/orders", "/buyers/1", "/buyers"] {
        let page = get(service, path).await.unwrap().body;
        assert!(
            page.contains("&lt;b&gt;Bea&lt;/b&gt;") && !page.contains("<b>"),
            "{page}"
        );
    }
    let other = json_of(service, "/orders/sample-3.json").await;
    assert_eq!(other["buyer"]["name"], "Bob");

    let removed = ask(service, "POST", "/orders/o-1/remove", FORM, "").await.unwrap();
    assert_eq!((removed.status, removed.header("location")), (303, Some("/orders")));
    assert_eq!(get(service, "/orders/o-1").await.unwrap().status, 404);
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_change_by_another_program_reaches_the_orders_in_the_background() {
    let (mongod, database) = server().await;
    let service = Service::start(mongod.uri()).await;
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
        let shown = tokio::time::timeout(TIMEOUT, shown).await;
        assert!(shown.is_ok(), "the order never had the name {name}");
    }
}

#[tokio::test]
async fn a_buyer_is_created_once_and_removed_as_the_request_says() {
    let service = started().await;
    let service = service.address;
    let buyer = json!({ "name": "Cleo", "city": "Sligo" });
    for status in [201, 200] {
        let stored = send(service, "PUT", "/buyers/3", &buyer).await.unwrap();
        assert_eq!(stored.status, status, "{stored:?}");
    }
    let ordered = ask(service, "POST", "/buyers/3/orders", FORM, "id=o-3&total=1").await;
    let ordered = ordered.unwrap();
    assert_eq!((ordered.status, ordered.header("location")), (303, Some("/orders/o-3")));

    let refused = ask(service, "POST", "/buyers/3/remove", FORM, "").await.unwrap();
    assert_eq!(refused.status, 409);
    assert!(refused.body.contains("Something refers to it"), "{refused:?}");
    let page = get(service, "/buyers/3/remove").await.unwrap().body;
    assert!(page.contains("action=\"/buyers/3/remove?orders=keep\""), "{page}");
    for _ in 0..2 {
        let removed = ask(service, "POST", "/buyers/3/remove?orders=keep", FORM, "").await;
        let removed = removed.unwrap();
        assert_eq!((removed.status, removed.header("location")), (303, Some("/buyers")));
    }
    assert_eq!(get(service, "/buyers/3").await.unwrap().status, 404);
    let kept = json_of(service, "/orders/o-3.json").await;
    assert_eq!(
        kept["buyer"],
        json!({ "_id": 3, "name": "Cleo", "city": "Sligo", "deleted": true })
    );
    let page = get(service, "/orders/o-3").await.unwrap().body;
    assert!(page.contains("Cleo") && !page.contains("/buyers/3"), "{page}");
    let gone = send(service, "POST", "/buyers/3/orders", &json!({ "id": "o-4", "total": 1 })).await;
    assert_eq!(gone.unwrap().status, 404);

    // A buyer without orders is removed by the plain request.
    assert_eq!(send(service, "PUT", "/buyers/4", &buyer).await.unwrap().status, 201);
    for _ in 0..2 {
        let removed = send(service, "DELETE", "/buyers/4", &json!({})).await.unwrap();
        assert_eq!(removed.status, 204, "{removed:?}");
    }
}

#[tokio::test]
async fn the_orders_of_a_buyer_are_read_in_pages() {
    let service = started().await;
    let service = service.address;
    for n in 0..45 {
        let order = json!({ "id": format!("o-{n:02}"), "total": 1 });
        let stored = send(service, "POST", "/buyers/2/orders", &order).await.unwrap();
        assert_eq!(stored.status, 201);
    }
    let (mut found, mut path) = (Vec::new(), "/buyers/2.json".to_owned());
    loop {
        let page = json_of(service, &path).await;
        let orders = page["orders"].as_array().unwrap();
        assert!(orders.len() <= 20);
        found.extend(orders.iter().map(|order| order["_id"].clone()));
        match page["next"].as_str() {
            Some(next) => path = next.to_owned(),
            None => break,
        }
    }
    let expected: Vec<Value> = (0..45).map(|n| json!(format!("o-{n:02}"))).collect();
    assert_eq!(found[..45], expected);
    assert_eq!(found[45..], ["sample-3"]);
    let html = get(service, "/buyers/2").await.unwrap().body;
    assert!(html.contains("/buyers/2?after=o-19"), "{html}");
}
