//! The pages of a policy in the example `service`: its revisions, their differences, and a restoration.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::service::pages::{json_of, walk};
use crate::service::support::*;

#[tokio::test]
async fn a_repeated_change_is_one_revision_and_a_stale_one_is_refused() {
    let service = started().await;
    let service = service.address;
    revisions_are_read_in_pages(service).await;
    let before = json_of(service, "/policies/1.json").await;
    assert_eq!(before["itemsInsured"], json!(["golf clubs", "car", "watch"]));
    assert_eq!(before["revision"], 2);
    let ring = json!({ "item": "<b>ring</b>", "by": "Ann", "revision": 2 });
    for (status, location) in [(201, Some("/policies/1/revisions/3")), (200, None)] {
        let stored = send(service, "POST", "/policies/1/items", &ring).await;
        assert_eq!(
            (stored.status, stored.header("location")),
            (status, location),
            "{stored:?}"
        );
        assert_eq!(stored.json()["policy"]["itemsInsured"][3], "<b>ring</b>");
    }
    // Another item, or another visitor, at the same revision.
    for (item, name) in [("boat", "Ann"), ("<b>ring</b>", "Bob")] {
        let stale = json!({ "item": item, "by": name, "revision": 2 });
        let refused = send(service, "POST", "/policies/1/items", &stale).await;
        assert_eq!((refused.status, refused.kind()), (409, "changed".to_owned()));
    }
    let list = json_of(service, "/policies/1/revisions.json").await;
    let names = list["revisions"].as_array().unwrap().iter();
    let names: Vec<&Value> = names.map(|one| &one["changedBy"]).collect();
    assert_eq!(names, ["Ann", "sample", "sample"]);
    for path in ["/policies/1", "/policies/1/revisions/3"] {
        let page = get(service, path).await.body;
        let is_escaped = page.contains("&lt;b&gt;ring&lt;/b&gt;") && !page.contains("<b>");
        assert!(is_escaped, "{page}");
    }
}

#[tokio::test]
async fn a_revision_shows_its_differences_and_is_restored_once() {
    let service = started().await;
    let service = service.address;
    let second = json_of(service, "/policies/1/revisions/2.json").await;
    let watch = json!([{ "path": "itemsInsured.2", "before": null, "after": "watch" }]);
    assert_eq!(second["changes"], watch);
    let first = json_of(service, "/policies/1/revisions/1.json").await;
    assert_eq!(first["changes"], json!([]));
    let page = get(service, "/policies/1/revisions/2").await.body;
    assert!(
        !page.contains("<form"),
        "the current revision needs no restoration: {page}"
    );
    let page = get(service, "/policies/1/revisions/1").await.body;
    assert!(page.contains("action=\"/policies/1/revisions/1/restore\""), "{page}");
    assert!(page.contains("name=\"revision\" value=\"2\""), "{page}");

    for _ in 0..2 {
        let restored = post(service, "/policies/1/revisions/1/restore", "revision=2&by=Ann").await;
        assert_eq!(restored.status, 303, "{restored:?}");
        assert_eq!(restored.header("location"), Some("/policies/1"));
    }
    let now = json_of(service, "/policies/1.json").await;
    assert_eq!(now["itemsInsured"], first["policy"]["itemsInsured"]);
    assert_eq!(now["revision"], 3);
    let by = json!({ "by": "Bob", "revision": 2 });
    for (path, status) in [
        ("/policies/1/revisions/2/restore", 409),
        ("/policies/1/revisions/9/restore", 404),
        ("/policies/77/revisions/1/restore", 404),
    ] {
        let refused = send(service, "POST", path, &by).await;
        assert_eq!(refused.status, status, "{path}: {refused:?}");
    }
    for missing in ["1/revisions/9", "1/revisions/x", "77/revisions"] {
        let missing = format!("/policies/{missing}");
        assert_eq!(get(service, &missing).await.status, 404, "{missing}");
    }
}

async fn revisions_are_read_in_pages(service: SocketAddr) {
    for revision in 1..12 {
        let item = json!({ "item": format!("item{revision}"), "by": "Ann", "revision": revision });
        assert_eq!(send(service, "POST", "/policies/2/items", &item).await.status, 201);
    }
    let (pages, _) = walk(service, "/policies/2/revisions.json", "next", "revisions").await;
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [10, 2]);
    let found = pages.iter().flatten().map(|one| one["revision"].as_u64().unwrap());
    assert!(found.eq((1..=12).rev()), "{pages:?}");
    let html = get(service, "/policies/2/revisions").await.body;
    assert!(html.contains("/policies/2/revisions?after=3"), "{html}");
}
