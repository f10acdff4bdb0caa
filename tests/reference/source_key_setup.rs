//! The source key: its index, and its settings.

use futures::StreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns::reference::Problem;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, doc};

use crate::reference::source_key::{by, with_people};
use support::reference::source_key::{by_username, person};
use support::reference::*;

#[tokio::test]
async fn the_key_has_a_unique_index_which_every_write_needs() {
    testkit::run(async |db| {
        let orders = with_people(db).await;
        let plans = orders.indexes();
        let of_sources = plans.iter().find(|plan| plan.namespace().coll == "customers").unwrap();
        assert_eq!(
            of_sources.to_string(),
            r#"db.getCollection("customers").createIndex({ "username": 1 }, { "name": "username_1", "unique": true })"#
        );
        let others = [
            person(3, "ann", "x"),
            doc! { "_id": 4 },
            doc! { "_id": 5, "username": null },
        ];
        customers(db).drop_index("username_1").await.unwrap();
        customers(db).insert_many(others).await.unwrap();
        let refused = orders.insert(&by(7, "bob")).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::IndexMissing, "{refused}");
        let refused = orders.ensure_indexes().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
        let fresh = by_username(builder(db.database())).build().unwrap();
        let (mut found, mut last) = (Vec::new(), None);
        let mut verify = fresh.verify().stream();
        while let Some(finding) = verify.next().await {
            match finding {
                Ok(finding) => found.push((
                    finding.document_id.clone(),
                    finding.document_ids.clone(),
                    finding.problem,
                )),
                Err(error) => last = Some(error.kind()),
            }
        }
        let duplicate = |key: Bson, ids: [i32; 2]| {
            let ids: Vec<Bson> = ids.into_iter().map(Bson::from).collect();
            (key, ids, Problem::DuplicateSourceKey { sources: 2 })
        };
        assert_eq!(found, [duplicate(Bson::Null, [4, 5]), duplicate("ann".into(), [1, 3])]);
        assert_eq!(last, Some(ErrorKind::IndexMissing));
        // An index of this name that is not unique names two sources.
        let plain = mongodb::IndexModel::builder().keys(doc! { "username": 1 }).build();
        customers(db).create_index(plain).await.unwrap();
        for refused in [
            orders.insert(&by(7, "ann")).await.unwrap_err(),
            orders.ensure_indexes().await.unwrap_err(),
        ] {
            assert_eq!(refused.kind(), ErrorKind::IndexMismatch, "{refused}");
        }
        assert_eq!(stored(db).count_documents(doc! {}).await.unwrap(), 0);
    })
    .await;
}

#[tokio::test]
async fn the_settings_are_in_the_catalog_and_a_collation_is_refused() {
    testkit::run(async |db| {
        let orders = with_people(db).await;
        orders.ensure_indexes().await.unwrap();
        let other = builder(db.database()).build().unwrap();
        let refused = other.ensure_indexes().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::SettingsMismatch);
        let sharded = orders.ensure_sharded().plan().await.unwrap();
        let shards = |name: &str| {
            let namespace = format!("{}.{name}", db.database().name());
            let mut commands = sharded.iter().map(|planned| &planned.command);
            commands.any(|command| command.get_str("shardCollection").ok() == Some(namespace.as_str()))
        };
        assert!(shards("orders") && !shards("customers"));
        let choices = orders.shard_keys();
        let of_sources = choices
            .iter()
            .find(|choice| choice.namespace.coll == "customers")
            .unwrap();
        assert!(of_sources.limits.iter().any(|limit| limit.contains("not sharded")));
        for key in ["_id", "v", "deleted", "0"] {
            let built = builder(db.database()).source_key(key).build();
            assert_eq!(built.unwrap_err().kind(), ErrorKind::Configuration, "{key}");
        }
        // A copy of another field cannot have its name.
        let built = builder(db.database())
            .copied_field("username", "login")
            .source_key("username")
            .build();
        assert_eq!(built.unwrap_err().kind(), ErrorKind::Configuration);
        customers(db).drop().await.unwrap();
        let collation = mongodb::options::Collation::builder().locale("en").build();
        let created = db.plain_client().database(db.database().name());
        created
            .create_collection("customers")
            .collation(collation)
            .await
            .unwrap();
        let refused = orders.ensure_indexes().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::UnsupportedCollation);
    })
    .await;
}
