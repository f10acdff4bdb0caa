//! Deployments as in production: with users, and with TLS.

use std::error::Error as _;
use std::fmt::Debug;
use std::fs;
use std::path::Path;
use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns::{Error, ErrorKind, Repository, Result};
use mongo_patterns_testkit::{Mongod, MongodOptions};
use mongodb::bson::{Document, doc};
use mongodb::options::{ClientOptions, Tls, TlsOptions};
use mongodb::{Client, Database};
use tempfile::TempDir;

use crate::cluster::secured_support::Shop;
use crate::cluster::users::{READER, SECRET, Secured};
use support::common::spread;
use support::reference::rename;

const SHOP: &str = "shop";

/// Checks that the call was refused, and that its error contains no secrets.
#[track_caller]
fn is_refused<T: Debug>(call: &str, outcome: Result<T>) -> Error {
    let error = outcome.expect_err(call);
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{call}: {error:?}");
    assert!(!error.is_outcome_unknown(), "{call}");
    let source = error.source().map(ToString::to_string);
    for text in [error.to_string(), format!("{error:?}"), source.unwrap_or_default()] {
        for secret in [READER, SECRET, "user0", "Kristina", "joe"] {
            assert!(!text.contains(secret), "{call}: {text}");
        }
    }
    error
}

#[tokio::test]
async fn a_user_with_the_role_read_write_can_run_all_calls() {
    let secured = Secured::start(&[SHOP]).await;
    let writer = secured.writer(SHOP).await;
    let shop = Shop::of(writer.clone());
    shop.fill().await;
    shop.read().await;
    // The table of faults has all calls by a reader.
    let reader = Shop::of(secured.reader(SHOP).await);
    let advice = is_refused("append", reader.trades.append(&123, &spread(99)).await).to_string();
    assert!(advice.contains("`readWrite`"), "{advice}");
    without_privileges_on_the_catalog_calls_work_as_without_an_entry(&secured, &writer).await;
}

/// Such users were set up before there was a catalog.
async fn without_privileges_on_the_catalog_calls_work_as_without_an_entry(secured: &Secured, writer: &Database) {
    let admin = secured.root(SHOP).await.client().database("admin");
    let trades = doc! { "db": "shop", "collection": "trades" };
    let privileges = [
        doc! { "resource": trades, "actions": ["find", "insert", "update", "remove", "listIndexes", "createIndex"] },
        doc! { "resource": { "db": "shop", "collection": "" }, "actions": ["listCollections"] },
    ];
    let role = doc! { "createRole": "clerk", "privileges": &privileges[..], "roles": [] };
    admin.run_command(role).await.unwrap();
    let clerk = doc! { "createUser": "clerk", "pwd": "cl3rk", "roles": ["clerk"] };
    admin.run_command(clerk).await.unwrap();

    let catalog = writer.collection::<Document>("mongo_patterns");
    let entries = catalog.count_documents(doc! {}).await.unwrap();
    let trades = Shop::of(secured.log_in(["clerk", "cl3rk"], SHOP).await).trades;
    trades.ensure_indexes().await.unwrap();
    assert_eq!(trades.verify().stream().try_collect::<Vec<_>>().await.unwrap(), []);
    let refused = trades.repair().stream().try_next().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::SettingsMismatch, "{refused}");
    assert_eq!(catalog.count_documents(doc! {}).await.unwrap(), entries);

    // A reader cannot store the settings, and the indexes are there.
    catalog.delete_many(doc! {}).await.unwrap();
    let reader = Shop::of(secured.reader(SHOP).await);
    reader.trades.ensure_indexes().await.unwrap();
    reader.books.ensure_indexes().await.unwrap();
    assert_eq!(catalog.count_documents(doc! {}).await.unwrap(), 0);
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_user_with_the_role_read_write_can_follow_and_migrate_references() {
    let secured = Secured::start(&[SHOP]).await;
    a_wrong_password_is_reported_and_not_shown(&secured).await;
    let writer = secured.writer(SHOP).await;
    let shop = Shop::of(writer.clone());
    shop.fill().await;
    let orders = &shop.orders;
    let to_ids = vec![doc! { "$set": { "customer": "$customer._id" } }];
    orders.collection().update_many(doc! {}, to_ids).await.unwrap();
    assert_eq!(orders.migrate_from_references().await.unwrap().documents, 3);
    shop.read().await;

    if !has_followers(&writer).await {
        let error = orders.follow("orders").run_until_current().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        return;
    }
    // Only these two need pre-images, which another user enables.
    let admin = secured.root(SHOP).await;
    for name in ["review", "currentPolicies"] {
        let images = doc! { "collMod": name, "changeStreamPreAndPostImages": { "enabled": true } };
        admin.run_command(images).await.unwrap();
    }
    let customers = writer.collection::<Document>("customers");
    customers.update_one(doc! { "_id": 1 }, rename("Cas")).await.unwrap();
    orders.follow("orders").run_until_current().await.unwrap();
    let shown = orders.get(0).await.unwrap().unwrap();
    assert_eq!(shown.get_document("customer").unwrap().get_str("name").unwrap(), "Cas");
    shop.products.follow("reviews").run_until_current().await.unwrap();
    shop.policies.follow("policies").run_until_current().await.unwrap();
}

async fn a_wrong_password_is_reported_and_not_shown(secured: &Secured) {
    let shop = Shop::of(secured.log_in([READER, "not_s3cret/of@Zoe"], SHOP).await);
    let error = is_refused("get", shop.books.get(1).await);
    assert!(error.to_string().contains("authSource"), "{error}");
    is_refused("append", shop.trades.append(&123, &spread(1)).await);
    let unauthenticated = secured.unauthenticated(SHOP).await;
    is_refused("get", Shop::of(unauthenticated).patrons.get("joe").await);
}

/// Returns whether the server is MongoDB 6.0 or newer.
async fn has_followers(database: &Database) -> bool {
    let info = database.run_command(doc! { "buildInfo": 1 }).await.unwrap();
    info.get_array("versionArray").unwrap()[0].as_i32().unwrap() >= 6
}

/// Starts a replica set that accepts only TLS. Returns a folder with its certificate, and that of another server.
async fn with_tls() -> (Mongod, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["server.pem", "other.pem"] {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let pem = made.cert.pem() + &made.signing_key.serialize_pem();
        fs::write(folder.path().join(name), pem).unwrap();
    }
    let pem = folder.path().join("server.pem");
    let options = MongodOptions::new()
        .argument("--tlsMode=preferTLS")
        .argument(format!("--tlsCertificateKeyFile={}", pem.display()))
        .argument(format!("--tlsCAFile={}", pem.display()))
        .argument("--tlsAllowConnectionsWithoutCertificates");
    let mongod = Mongod::start(options).await.unwrap();
    // The testkit starts it without TLS. From here on, it requires TLS.
    let plain = Client::with_uri_str(mongod.uri()).await.unwrap();
    let require = doc! { "setParameter": 1, "tlsMode": "requireTLS" };
    plain.database("admin").run_command(require).await.unwrap();
    (mongod, folder)
}

async fn by_tls(mongod: &Mongod, authority: Option<&Path>) -> Database {
    let mut options = ClientOptions::parse(mongod.uri()).await.unwrap();
    let tls = |file: &Path| TlsOptions::builder().ca_file_path(file.to_owned()).build();
    options.tls = authority.map(|file| Tls::Enabled(tls(file)));
    options.server_selection_timeout = Some(Duration::from_secs(2));
    Client::with_options(options).unwrap().database("shop")
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn all_calls_work_with_tls_and_none_without() {
    let (mongod, folder) = with_tls().await;
    let shop = Shop::of(by_tls(&mongod, Some(&folder.path().join("server.pem"))).await);
    shop.fill().await;
    shop.read().await;
    for authority in [None, Some(folder.path().join("other.pem"))] {
        let shop = Shop::of(by_tls(&mongod, authority.as_deref()).await);
        let error = shop.trades.append(&123, &spread(9)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ServerSelection, "{error:?}");
        assert!(error.to_string().contains("TLS"), "{error}");
    }
    assert_eq!(shop.trades.counts(&123).await.unwrap().items, 6, "nothing was stored");
}
