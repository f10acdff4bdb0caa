//! Deployments as in production: with users, and with TLS.

use std::error::Error as _;
use std::fmt::Debug;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use mongo_patterns::{Error, ErrorKind, Repository, Result};
use mongo_patterns_testkit::{Mongod, MongodOptions};
use mongodb::bson::{Document, doc};
use mongodb::options::{ClientOptions, Credential, Tls, TlsOptions};
use mongodb::{Client, Database};
use tempfile::TempDir;

use crate::cluster::secured_support::Shop;
use crate::common::support::spread;
use crate::history::support::{policy, push};
use crate::outlier::support::book;
use crate::reference::support::{order, rename};
use crate::subset::support::review;

const READER: &str = "Zoe.Reader";
const SECRET: &str = "s3cret/of@Zoe";

/// Starts a replica set whose members authenticate by a key file, and whose clients must log in.
async fn with_users() -> (Mongod, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    fs::write(&key, "bW9uZ28tcGF0dGVybnM=").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o400)).unwrap();
    let key = format!("--keyFile={}", key.display());
    let mongod = Mongod::start(MongodOptions::new().argument(key)).await.unwrap();
    // While there is no user, the localhost exception lets a client create the first one.
    let nobody = Client::with_uri_str(mongod.uri()).await.unwrap();
    let user = |name: &str, password: &str, role: &str| {
        let role = doc! { "role": role, "db": if role == "root" { "admin" } else { "shop" } };
        doc! { "createUser": name, "pwd": password, "roles": [role] }
    };
    let nobody = nobody.database("admin");
    nobody.run_command(user("root", "r00t", "root")).await.unwrap();
    let admin = log_in(&mongod, "root", "r00t").await.client().database("admin");
    for (name, password, role) in [("writer", "wr1ter", "readWrite"), (READER, SECRET, "read")] {
        admin.run_command(user(name, password, role)).await.unwrap();
    }
    (mongod, folder)
}

async fn log_in(mongod: &Mongod, name: &str, password: &str) -> Database {
    let mut options = ClientOptions::parse(mongod.uri()).await.unwrap();
    let credential = Credential::builder()
        .username(name.to_owned())
        .password(password.to_owned())
        .source("admin".to_owned());
    options.credential = Some(credential.build());
    Client::with_options(options).unwrap().database("shop")
}

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
    let (mongod, _folder) = with_users().await;
    let shop = Shop::of(log_in(&mongod, "writer", "wr1ter").await);
    shop.fill().await;
    shop.read().await;
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_user_with_the_role_read_write_can_follow_and_migrate_references() {
    let (mongod, _folder) = with_users().await;
    let writer = log_in(&mongod, "writer", "wr1ter").await;
    let (shop, reader) = (
        Shop::of(writer.clone()),
        Shop::of(log_in(&mongod, READER, SECRET).await),
    );
    shop.fill().await;
    let orders = &shop.orders;
    let migrated = orders.migrate_to_references().await.unwrap();
    assert_eq!(migrated.documents, 3);
    is_refused("migrate_from_references", reader.orders.migrate_from_references().await);
    assert_eq!(orders.migrate_from_references().await.unwrap().documents, 3);
    is_refused("migrate_to_references", reader.orders.migrate_to_references().await);
    shop.read().await;

    if !has_followers(&writer).await {
        let error = orders.follow("orders").run_until_current().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        return;
    }
    // Only these two need pre-images, which another user enables.
    let admin = log_in(&mongod, "root", "r00t").await;
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

    is_refused("follow", reader.orders.follow("other").run_until_current().await);
    is_refused("follow", reader.products.follow("others").run_until_current().await);
    is_refused("follow", reader.policies.follow("another").run_until_current().await);
}

/// Returns whether the server is MongoDB 6.0 or newer.
async fn has_followers(database: &Database) -> bool {
    let info = database.run_command(doc! { "buildInfo": 1 }).await.unwrap();
    info.get_array("versionArray").unwrap()[0].as_i32().unwrap() >= 6
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_user_with_the_role_read_can_read_and_verify_and_gets_unauthorized_otherwise() {
    let (mongod, _folder) = with_users().await;
    let writer = log_in(&mongod, "writer", "wr1ter").await;
    Shop::of(writer.clone()).fill().await;
    let shop = Shop::of(log_in(&mongod, READER, SECRET).await);
    shop.read().await;
    let before = stored(&writer).await;

    let Shop {
        trades,
        books,
        products: reviews,
        patrons,
        policies,
        orders,
        database,
    } = &shop;
    let trade = spread(99);
    let advice = is_refused("append", trades.append(&123, &trade).await).to_string();
    assert!(advice.contains("`readWrite`"), "{advice}");
    is_refused(
        "append_many",
        trades.append_many(&123, std::slice::from_ref(&trade)).await,
    );
    let stream = futures::stream::iter([(123, trade.clone())]);
    is_refused("append_stream", trades.append_stream(stream).await);
    is_refused("replace_item", trades.replace_item(&123, &spread(4)).await);
    is_refused("remove_item", trades.remove_item(&123, 4).await);
    let flat = database.collection::<Document>("flat");
    is_refused("migrate_to_flat", trades.migrate_to_flat(&flat).await);

    let user = "user99".to_owned();
    is_refused("insert", books.insert(&book(2, 9)).await);
    is_refused("push", books.push(1, &user).await);
    is_refused("push_many", books.push_many(1, &[user.clone(), user.clone()]).await);
    is_refused("remove", books.remove(1, &"user00".to_owned()).await);
    is_refused("delete", books.delete(1).await);

    is_refused("insert", reviews.insert(&review(9)).await);
    is_refused("insert_many", reviews.insert_many(&[review(8), review(9)]).await);
    is_refused("update", reviews.update(1, 3, doc! { "$set": { "stars": 5 } }).await);
    is_refused("replace", reviews.replace(&review(3)).await);
    is_refused("delete", reviews.delete(1, 3).await);
    is_refused("delete_parent", reviews.delete_parent(1).await);
    is_refused("rebuild", reviews.rebuild(1).await);
    is_refused("rebuild_all", reviews.rebuild_all().await);

    is_refused("insert", patrons.insert(&doc! { "_id": "zoe", "addresses": [] }).await);
    is_refused("add_child", patrons.add_child("joe", &doc! { "id": "club" }).await);
    is_refused(
        "update_child",
        patrons.update_child("joe", "work", doc! { "$set": { "zip": 1 } }).await,
    );
    is_refused(
        "upsert_child",
        patrons.upsert_child("joe", &doc! { "id": "club" }).await,
    );
    is_refused(
        "replace_child",
        patrons.replace_child("joe", &doc! { "id": "work", "zip": 1 }).await,
    );
    is_refused("remove_child", patrons.remove_child("joe", "work").await);
    is_refused(
        "reorder_children",
        patrons.reorder_children("joe", ["work", "home"]).await,
    );

    is_refused("insert", policies.insert(&policy(2)).await);
    is_refused("update", policies.update(1, push("boat")).await);
    is_refused("delete", policies.delete(1).await);
    is_refused("restore", policies.restore(1, 1).await);

    is_refused("insert", orders.insert(&order(9, 1)).await);
    is_refused("set_reference", orders.set_reference(0, 2).await);
    is_refused("clear_reference", orders.clear_reference(0).await);
    is_refused("update_source", orders.update_source(1, rename("Cas")).await);
    is_refused("delete_source", orders.delete_source(1).await);
    assert_eq!(stored(&writer).await, before, "nothing was written");
}

/// Such users were set up before there was a catalog.
#[tokio::test]
async fn without_privileges_on_the_catalog_calls_work_as_without_an_entry() {
    let (mongod, _folder) = with_users().await;
    let writer = log_in(&mongod, "writer", "wr1ter").await;
    Shop::of(writer.clone()).fill().await;
    let admin = log_in(&mongod, "root", "r00t").await.client().database("admin");
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
    let shop = Shop::of(log_in(&mongod, "clerk", "cl3rk").await);
    shop.trades.ensure_indexes().await.unwrap();
    assert!(
        shop.trades
            .verify()
            .stream()
            .try_collect::<Vec<_>>()
            .await
            .unwrap()
            .is_empty()
    );
    let refused = shop.trades.repair().stream().try_next().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::SettingsMismatch, "{refused}");
    assert_eq!(catalog.count_documents(doc! {}).await.unwrap(), entries);

    // A reader cannot store the settings, and the indexes are there.
    catalog.delete_many(doc! {}).await.unwrap();
    let reader = Shop::of(log_in(&mongod, READER, SECRET).await);
    reader.trades.ensure_indexes().await.unwrap();
    reader.books.ensure_indexes().await.unwrap();
    assert_eq!(catalog.count_documents(doc! {}).await.unwrap(), 0);
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_user_with_the_role_read_can_verify_but_not_repair() {
    let (mongod, _folder) = with_users().await;
    let writer = log_in(&mongod, "writer", "wr1ter").await;
    Shop::of(writer.clone()).fill().await;
    let damage = doc! { "$set": { "count": 1 } };
    writer
        .collection::<Document>("trades")
        .update_one(doc! { "customerId": 7 }, damage)
        .await
        .unwrap();
    let damage = doc! { "$unset": { "has_extras": "" } };
    writer
        .collection::<Document>("sales")
        .update_one(doc! {}, damage)
        .await
        .unwrap();
    let damage = doc! { "$set": { "reviews": [] } };
    writer
        .collection::<Document>("product")
        .update_one(doc! {}, damage)
        .await
        .unwrap();
    let damage = doc! { "$set": { "customer.name": "Cas" } };
    writer
        .collection::<Document>("orders")
        .update_one(doc! {}, damage)
        .await
        .unwrap();
    let before = stored(&writer).await;

    let Shop {
        trades,
        books,
        products: reviews,
        orders,
        ..
    } = Shop::of(log_in(&mongod, READER, SECRET).await);
    assert_eq!(trades.verify().stream().try_collect::<Vec<_>>().await.unwrap().len(), 1);
    assert_eq!(books.verify().stream().try_collect::<Vec<_>>().await.unwrap().len(), 1);
    assert_eq!(
        reviews.verify().stream().try_collect::<Vec<_>>().await.unwrap().len(),
        1
    );
    assert_eq!(orders.verify().stream().try_collect::<Vec<_>>().await.unwrap().len(), 1);
    is_refused("repair", orders.repair().stream().next().await.unwrap());
    is_refused("repair", trades.repair().stream().next().await.unwrap());
    is_refused("repair", books.repair().stream().next().await.unwrap());
    is_refused("repair", reviews.repair().stream().next().await.unwrap());
    is_refused("migrate_existing", reviews.migrate_existing().await);
    assert_eq!(stored(&writer).await, before, "nothing was written");

    // Without the privilege, missing indexes cannot be created.
    writer.collection::<Document>("trades").drop_indexes().await.unwrap();
    writer
        .collection::<Document>("extra_sales")
        .drop_indexes()
        .await
        .unwrap();
    writer.collection::<Document>("review").drop_indexes().await.unwrap();
    is_refused("ensure_indexes", trades.ensure_indexes().await);
    is_refused("ensure_indexes", books.ensure_indexes().await);
    is_refused("ensure_indexes", reviews.ensure_indexes().await);
    writer.collection::<Document>("orders").drop_indexes().await.unwrap();
    is_refused("ensure_indexes", orders.ensure_indexes().await);
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_wrong_password_is_reported_and_not_shown() {
    let (mongod, _folder) = with_users().await;
    let shop = Shop::of(log_in(&mongod, READER, "not_s3cret/of@Zoe").await);
    let error = is_refused("get", shop.books.get(1).await);
    assert!(error.to_string().contains("authSource"), "{error}");
    is_refused("append", shop.trades.append(&123, &spread(1)).await);
    let nobody = Client::with_uri_str(mongod.uri()).await.unwrap().database("shop");
    is_refused("get", Shop::of(nobody).patrons.get("joe").await);
}

/// Returns all documents of all collections, and their indexes.
async fn stored(database: &Database) -> Vec<Document> {
    let mut names = database.list_collection_names().await.unwrap();
    names.sort();
    let mut stored = Vec::new();
    for name in names {
        let collection = database.collection::<Document>(&name);
        let found = collection.find(doc! {}).sort(doc! { "_id": 1 }).await.unwrap();
        stored.push(doc! { "indexes": collection.list_index_names().await.unwrap() });
        stored.extend(found.try_collect::<Vec<_>>().await.unwrap());
    }
    stored
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
