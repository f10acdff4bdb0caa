//! The example `service` refuses writes that pages of other sites send.

use std::net::SocketAddr;

use serde_json::json;

use crate::service::support::*;

#[tokio::test]
async fn writes_from_other_sites_are_refused_and_all_others_pass() {
    let service = started().await;
    writes_from_other_sites_are_refused(service.address).await;
    writes_from_the_service_and_from_other_programs_pass(service.address).await;
}

async fn writes_from_other_sites_are_refused(address: SocketAddr) {
    let refused = [
        "sec-fetch-site: cross-site\r\n".to_owned(),
        "sec-fetch-site: same-site\r\n".to_owned(),
        "sec-fetch-site: unknown\r\n".to_owned(),
        "sec-fetch-site: same-origin\r\nsec-fetch-site: cross-site\r\n".to_owned(),
        // The header that a page cannot change decides.
        format!("sec-fetch-site: cross-site\r\norigin: http://{address}\r\n"),
        "origin: https://example.com\r\n".to_owned(),
        format!("origin: http://{address}.example.com\r\n"),
        format!("origin: http://127.0.0.1:{}\r\n", address.port() ^ 1),
        format!("origin: http://{address}\r\norigin: https://example.com\r\n"),
        // A page without an origin, for example in a sandbox.
        "origin: null\r\n".to_owned(),
        "origin: \r\n".to_owned(),
        format!("origin: {address}\r\n"),
        "origin: \u{e9}\r\n".to_owned(),
    ];
    for headers in &refused {
        for (method, path, body) in [
            ("POST", "/customers/7/trades", "id=a&kind=buy&ticker=MDB&qty=1"),
            ("POST", "/customers/123/trades/sample-33/remove", ""),
            ("DELETE", "/customers/123/trades/sample-33", ""),
            ("PUT", "/customers/123/trades/sample-33", "kind=sell&ticker=MDB&qty=1"),
            ("PUT", "/books/1/buyers/new", ""),
            ("POST", "/books/1/buyers", "customer=new"),
            ("POST", "/none", ""),
        ] {
            let answer = ask(address, method, path, &format!("{headers}{FORM}"), body).await;
            assert_eq!(answer.status, 403, "{headers:?} {method} {path}: {answer:?}");
            assert!(answer.body.contains("The request is from another site"), "{answer:?}");
        }
        // A link on another site leads here.
        let read = ask(address, "GET", "/customers/123/trades", headers, "").await;
        assert_eq!(read.status, 200, "{headers:?}");
    }
    let accept = format!("{}accept: application/json\r\n{FORM}", refused[0]);
    let problem = ask(address, "POST", "/books/1/buyers", &accept, "customer=new").await;
    assert_eq!(problem.header("content-type"), Some("application/problem+json"));
    assert_eq!(problem.json()["type"], "/problems#cross-origin");

    let book = get(address, "/books/1.json").await.json();
    assert_eq!(book["buyers"], json!(["user00", "user01", "user02"]));
    let stored = get(address, "/customers/7/trades/a").await;
    assert_eq!(stored.status, 404);
    let kept = get(address, "/customers/123/trades/sample-33.json").await;
    assert_eq!(kept.json()["kind"], "buy");
}

async fn writes_from_the_service_and_from_other_programs_pass(address: SocketAddr) {
    let accepted = [
        // A program that is not a browser.
        String::new(),
        "sec-fetch-site: same-origin\r\n".to_owned(),
        "sec-fetch-site: none\r\n".to_owned(),
        // A reverse proxy can have changed the header `Host`.
        "sec-fetch-site: same-origin\r\norigin: https://example.com\r\n".to_owned(),
        format!("origin: http://{address}\r\n"),
        // A reverse proxy can end TLS.
        format!("origin: https://{address}\r\n"),
    ];
    for (n, headers) in accepted.iter().enumerate() {
        let (headers_of_form, body) = (
            format!("{headers}{FORM}"),
            format!("id=trade{n}&kind=buy&ticker=MDB&qty=1"),
        );
        let answer = ask(address, "POST", "/customers/7/trades", &headers_of_form, &body).await;
        assert_eq!(answer.status, 303, "{headers:?}");
    }
    let trades = get(address, "/customers/7/trades.json").await.json();
    assert_eq!(trades["trades"].as_array().unwrap().len(), accepted.len());
}
