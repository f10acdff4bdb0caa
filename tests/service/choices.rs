//! The visitor of the example `service` chooses a customer, a book, a product or a patron.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::service::pages::{json_of, walk};
use crate::service::support::*;

#[tokio::test]
async fn lists_lead_to_pages_and_ids_are_values() {
    let service = started().await;
    lists_lead_to_each_page_by_a_link_or_by_an_id(service.address).await;
    forms_come_before_lists_and_short_paths_lead_on(service.address).await;
    hostile_ids_have_no_effect(service.address).await;
    unknown_ids_are_not_found(service.address).await;
    long_lists_have_pages(service.address).await;
}

async fn lists_lead_to_each_page_by_a_link_or_by_an_id(service: SocketAddr) {
    let home = get(service, "/").await.body;
    for (list, page, ids) in [
        ("/customers", "/trades", vec![json!(123), json!(456)]),
        ("/books", "", vec![json!(1), json!(2)]),
        ("/products", "", vec![json!(1), json!(2)]),
        ("/patrons", "", vec![json!("jane"), json!("joe")]),
        ("/policies", "", vec![json!(1), json!(2)]),
        (
            "/orders",
            "",
            ["sample-1", "sample-2", "sample-3"].map(Value::from).to_vec(),
        ),
    ] {
        assert!(home.contains(&format!("href=\"{list}\"")), "{list}: {home}");
        let html = get(service, list).await.body;
        let form = format!("<form method=\"get\" action=\"{list}\"");
        assert!(html.contains(&form), "{html}");
        let view = json_of(service, &format!("{list}.json")).await;
        assert_eq!(view["next"], Value::Null);
        let choices = view["choices"].as_array().unwrap();
        let found: Vec<&Value> = choices.iter().map(|choice| &choice["id"]).collect();
        assert_eq!(found, ids.iter().collect::<Vec<_>>(), "{list}");
        for choice in choices {
            let id = choice["id"].to_string().replace('"', "");
            let path = format!("{list}/{id}{page}");
            assert!(html.contains(&format!("href=\"{path}\"")), "{path}: {html}");
            assert_eq!(choice["path"], format!("{path}.json"));
            json_of(service, choice["path"].as_str().unwrap()).await;
            // The form sends what the visitor typed.
            let chosen = get(service, &format!("{list}?id=+{id}+")).await;
            assert_eq!((chosen.status, chosen.header("location")), (303, Some(path.as_str())));
            let chosen = get(service, &format!("{list}.json?id={id}")).await;
            assert_eq!(chosen.header("location"), choice["path"].as_str());
            let shown = get(service, &path).await;
            assert_eq!(shown.status, 200);
            let has_link = shown.body.contains(&format!("href=\"{list}\""));
            assert!(has_link, "a link to the list: {shown:?}");
        }
        assert_eq!(get(service, &format!("{list}?id=")).await.status, 200);
    }
}

async fn long_lists_have_pages(service: SocketAddr) {
    for n in 0..50 {
        let name = json!({ "name": format!("<b>Patron {n}</b>") });
        let created = send(service, "PUT", &format!("/patrons/p{n:02}"), &name).await;
        assert_eq!(created.status, 201);
        let trade = json!({ "id": "a", "kind": "buy", "ticker": "MDB", "qty": 5 });
        let path = format!("/customers/{}/trades", 1000 + n);
        assert_eq!(send(service, "POST", &path, &trade).await.status, 201);
    }
    for list in ["/customers", "/patrons"] {
        let (pages, _) = walk(service, &format!("{list}.json"), "next", "choices").await;
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [50, 2], "{list}");
        let mut ids: Vec<String> = pages.iter().flatten().map(|choice| choice["id"].to_string()).collect();
        ids.dedup();
        assert_eq!(ids.len(), 52, "{list}");
        assert!(ids.is_sorted(), "{list}");
    }
    let page = get(service, "/patrons").await.body;
    let is_escaped = page.contains("&lt;b&gt;Patron 1&lt;/b&gt;") && !page.contains("<b>");
    assert!(is_escaped, "{page}");
}

async fn unknown_ids_are_not_found(service: SocketAddr) {
    for (path, list, text) in [
        (
            "/customers/999/trades",
            "/customers",
            "There is no customer with this id",
        ),
        (
            "/customers/-1/trades",
            "/customers",
            "There is no customer with this id",
        ),
        ("/books/3", "/books", "There is no book with this id."),
        ("/books/abc", "/books", "There is no book with this id."),
        ("/books/2147483648", "/books", "There is no book with this id."),
        ("/products/3", "/products", "There is no product with this id."),
        ("/products/3/reviews", "/products", "There is no product with this id."),
        ("/patrons/jo", "/patrons", "There is no patron with this id."),
        ("/books/1/buyers/unknown", "/books", "It does not exist"),
        ("/patrons/joe/addresses/9", "/patrons", "It does not exist"),
    ] {
        let page = get(service, path).await;
        assert_eq!(page.status, 404, "{path}: {page:?}");
        assert!(page.body.contains(text), "{path}: {page:?}");
        assert!(page.body.contains(&format!("href=\"{list}\"")), "{path}: {page:?}");
        let problem = get(service, &format!("{path}.json")).await;
        assert_eq!((problem.status, problem.kind()), (404, "not-found".to_owned()));
        let problem = problem.json();
        assert!(problem["detail"].as_str().unwrap().starts_with(text), "{problem}");
    }
    // The first trade makes a customer.
    let page = get(service, "/customers/999/trades").await.body;
    let form = "<form method=\"post\" action=\"/customers/999/trades\"";
    assert!(page.contains(form), "{page}");
    let trade = json!({ "id": "a", "kind": "buy", "ticker": "MDB", "qty": 5 });
    assert_eq!(send(service, "POST", "/customers/999/trades", &trade).await.status, 201);
    assert_eq!(get(service, "/customers/999/trades").await.status, 200);
    let removed = send(service, "DELETE", "/customers/999/trades/a", &json!({})).await;
    assert_eq!(removed.status, 204);
    assert_eq!(get(service, "/customers/999/trades").await.status, 404);
    let choices = json_of(service, "/customers.json").await;
    assert_eq!(choices["choices"].as_array().unwrap().len(), 2, "{choices}");
}

async fn hostile_ids_have_no_effect(service: SocketAddr) {
    let lists = ["/customers", "/books", "/products", "/patrons"];
    let mut before = vec![];
    for list in lists {
        before.push(json_of(service, &format!("{list}.json")).await);
    }
    let ids = [
        "%7B%22%24ne%22%3Anull%7D",
        "%7B%22%24gt%22%3A%22%22%7D",
        "$where",
        ".*",
        "%00",
        "%FF",
        "%2E%2E%2F%2E%2E",
        "%0D%0Alocation%3A%20https%3A%2F%2Fexample.com",
        "https%3A%2F%2Fexample.com",
        "%2F%2Fexample.com",
        "%3Cscript%3Ealert(1)%3C%2Fscript%3E",
        "1%27%3B--",
        "99999999999999999999",
        "NaN",
    ];
    for id in ids.map(str::to_owned).into_iter().chain(["x".repeat(5000)]) {
        for list in lists {
            let page = if list == "/customers" { "/trades" } else { "" };
            for path in [
                format!("{list}/{id}{page}"),
                format!("{list}/{id}{page}.json"),
                format!("{list}/{id}"),
            ] {
                let answer = get(service, &path).await;
                assert_eq!(answer.status, 404, "{path}: {answer:?}");
                assert!(!answer.body.contains("<script>alert"), "{answer:?}");
            }
            let chosen = get(service, &format!("{list}?id={id}")).await;
            match chosen.header("location") {
                // It leads to the page of the section that reports an unknown id.
                Some(location) => {
                    assert!(location.starts_with(&format!("{list}/")), "{location}");
                    assert_eq!(chosen.head.matches("location:").count(), 1, "{chosen:?}");
                    assert_eq!(get(service, location).await.status, 404, "{location}");
                }
                None => assert_eq!(chosen.status, if id == "%FF" { 400 } else { 404 }, "{chosen:?}"),
            }
            let after = get(service, &format!("{list}?after={id}")).await;
            assert!([200, 400].contains(&after.status), "{list} {id}: {after:?}");
        }
    }
    for (list, before) in lists.into_iter().zip(before) {
        assert_eq!(json_of(service, &format!("{list}.json")).await, before);
    }
}

async fn forms_come_before_lists_and_short_paths_lead_on(service: SocketAddr) {
    for (path, list) in [
        ("/customers/123/trades", "<table"),
        ("/books/2", "<ol"),
        ("/products/1", "<article"),
        ("/patrons/joe", "<address"),
    ] {
        let page = get(service, path).await.body;
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{path} has no {text}"));
        assert!(at("<form") < at(list), "{path}");
    }
    for (path, location) in [
        ("/customers/123", "/customers/123/trades"),
        ("/books/1/buyers", "/books/1"),
        ("/patrons/joe/addresses", "/patrons/joe"),
        ("/patrons/joe/addresses.json", "/patrons/joe.json"),
    ] {
        let answer = get(service, path).await;
        assert_eq!(
            (answer.status, answer.header("location")),
            (303, Some(location)),
            "{path}"
        );
    }
}
