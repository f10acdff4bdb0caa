//! The example `service` asks before it removes an item, and leads back to the page with the list.

use std::net::SocketAddr;

use serde_json::json;

use crate::service::support::*;

/// Returns the first value of an attribute that contains a text.
fn attribute(page: &str, name: &str, text: &str) -> String {
    let start = format!("{name}=\"");
    let values = page.split(&start).skip(1);
    let mut values = values.filter_map(|rest| rest.split('"').next());
    let found = values.find(|value| value.contains(text)).map(str::to_owned);
    found.unwrap_or_else(|| panic!("no {name} with {text}: {page}"))
}

async fn page(service: SocketAddr, path: &str) -> String {
    let answer = get(service, path).await;
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.body
}

#[tokio::test]
async fn removals_are_confirmed_and_lead_back() {
    let service = started().await;
    let service = service.address;
    a_removal_leads_only_to_pages_of_the_service(service).await;
    let older = attribute(&page(service, "/customers/123/trades").await, "href", "?after=");
    let later = attribute(&page(service, "/products/1/reviews").await, "href", "?after=");
    for (list, what) in [
        ("/customers/123/trades", "buy 56 AAPL"),
        (&older, "IBM"),
        ("/books/1", "user00"),
        ("/books/2?from=50", "user50"),
        ("/products/1", "By Kristina"),
        (&later, "By "),
        ("/patrons/joe", "123 Fake Street"),
    ] {
        let before = page(service, list).await;
        let forms = before.matches("<form").count();
        assert_eq!(
            forms,
            usize::from(list != later),
            "no list has a form that removes an item"
        );
        let link = attribute(&before, "href", "/remove");
        let item = link.split("/remove").next().unwrap();

        // The page only asks, as often as it is read.
        for _ in 0..2 {
            let asked = page(service, &link).await;
            assert!(asked.contains(what), "{what}: {asked}");
            let cancel = format!("<a href=\"{list}\">Cancel</a>");
            assert!(asked.contains(&cancel), "{list}: {asked}");
            assert!(asked.contains("<form class=\"confirm\" method=\"post\""), "{asked}");
        }
        assert_eq!(get(service, item).await.status, 200, "{item} is still stored");

        let action = attribute(&page(service, &link).await, "action", "/remove");
        for _ in 0..2 {
            let removed = post(service, &action, "").await;
            assert_eq!(removed.status, 303, "{removed:?}");
            assert_eq!(removed.header("location"), Some(&*list.to_ascii_lowercase()));
        }
        assert_eq!(get(service, list).await.status, 200);
        for gone in [item, &link] {
            assert_eq!(get(service, gone).await.status, 404, "{gone}");
        }
    }
}

async fn a_removal_leads_only_to_pages_of_the_service(service: SocketAddr) {
    for query in [
        "?after=https://example.com",
        "?before=%0d%0aset-cookie:a=b",
        "?after=1&after=2",
    ] {
        for item in ["/customers/123/trades/sample-0", "/products/1/reviews/786"] {
            for (method, path) in [
                ("GET", format!("{item}/remove{query}")),
                ("POST", format!("{item}/remove{query}")),
                ("DELETE", format!("{item}{query}")),
            ] {
                let refused = send(service, method, &path, &json!({})).await;
                assert_eq!(refused.status, 400, "{method} {path}: {refused:?}");
            }
            assert_eq!(get(service, item).await.status, 200, "{item} is still stored");
        }
    }
    let refused = send(service, "POST", "/books/1/buyers/user00/remove?from=-1", &json!({})).await;
    assert_eq!(refused.status, 400);
    assert_eq!(get(service, "/books/1/buyers/user00").await.status, 200);
    for list in ["/customers/123/trades", "/books/1/buyers", "/patrons/joe/addresses"] {
        let asked = get(service, &format!("{list}/none/remove")).await;
        assert_eq!(asked.status, 404, "{list}");
    }
    // Only the form and DELETE remove.
    for method in ["PUT", "PATCH", "DELETE"] {
        let refused = send(service, method, "/books/1/buyers/user00/remove", &json!({})).await;
        assert_eq!(refused.status, 405, "{method}");
    }
}

/// A patron is deleted, restored, and not restored when another one has the id.
#[tokio::test]
async fn a_deleted_patron_is_restored() {
    let service = started().await;
    let service = service.address;
    let link = attribute(&page(service, "/patrons/joe").await, "href", "/patrons/joe/remove");
    let asked = page(service, &link).await;
    assert!(asked.contains("for 30 days") && asked.contains("<form class=\"confirm\""));
    for _ in 0..2 {
        let deleted = post(service, &link, "").await;
        assert_eq!(deleted.header("location"), Some("/deleted-patrons"), "{deleted:?}");
        assert_eq!(get(service, "/patrons/joe").await.status, 404);
    }
    let listed = page(service, "/deleted-patrons").await;
    let restore = attribute(&listed, "action", "/restore");
    for _ in 0..2 {
        let restored = post(service, &restore, "").await;
        assert_eq!(restored.header("location"), Some("/patrons/joe"), "{restored:?}");
        assert!(page(service, "/patrons/joe").await.contains("123 Fake Street"));
    }
    assert!(page(service, "/deleted-patrons").await.contains("No deleted patrons."));

    let deleted = send(service, "DELETE", "/patrons/joe.json", &json!({})).await;
    assert_eq!(deleted.status, 204);
    let other = send(service, "PUT", "/patrons/joe.json", &json!({ "name": "Another" })).await;
    assert_eq!(other.status, 201);
    let refused = send(service, "POST", "/deleted-patrons/joe/restore.json", &json!({})).await;
    assert_eq!(refused.status, 409);
    let unknown = send(service, "POST", "/deleted-patrons/none/restore.json", &json!({})).await;
    assert_eq!(unknown.status, 404);
    assert_eq!(get(service, "/deleted-patrons?after=nonsense").await.status, 400);
}
