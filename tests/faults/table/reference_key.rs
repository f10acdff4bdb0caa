//! References by the source key: posts, whose authors are named by their username.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use futures::future::LocalBoxFuture;
use mongo_patterns::Repository;
use mongo_patterns::reference::{Finding, Problem};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};

use super::operation::Promise::{Atomic, Steps};
use super::operation::{Call, EXISTS, Model, Of, Operations, UNREAD, calls, documents, retry_policy};
use support::reference::{Orders, number};

/// Posts 1 and 2 are by person 1, and post 3 has no author.
pub(super) struct Posts {
    stored: Collection<Document>,
    people: Collection<Document>,
    posts: Orders,
}

fn person(id: i32, username: &str) -> Document {
    doc! { "_id": id, "username": username, "name": "Ann" }
}

/// The author of a post: a copy, or a username that is not migrated.
fn author(post: &Document) -> Option<&Bson> {
    post.get("author").filter(|author| **author != Bson::Null)
}

impl Posts {
    /// Returns the people, by their ids.
    async fn people(&self) -> BTreeMap<i64, Document> {
        let [people] = documents([&self.people]).await;
        people
            .into_iter()
            .map(|person| (number(&person, "_id"), person))
            .collect()
    }
}

impl Model for Posts {
    const PATTERN: &'static str = "reference";
    const COLLECTIONS: &'static [&'static str] = &["orders", "people", "mongo_patterns"];

    fn new(of: Of<'_>) -> Self {
        let [stored, people] = ["orders", "people"].map(|name| of.collection(name));
        let posts = Orders::builder(stored.clone(), people.clone());
        let posts = posts.reference_field("author").copied_fields(["name"]);
        Self {
            posts: posts.source_key("username").retry(retry_policy()).build().unwrap(),
            stored,
            people,
        }
    }

    async fn fill(&self) {
        self.posts.ensure_indexes().await.unwrap();
        let people = [person(1, "ann"), person(2, "bob")];
        self.people.insert_many(people).await.unwrap();
        for id in 1..=2 {
            self.posts.insert(&doc! { "_id": id, "author": "ann" }).await.unwrap();
        }
        self.posts.insert(&doc! { "_id": 3 }).await.unwrap();
    }

    async fn facts(&self) -> Vec<String> {
        let [posts] = documents([&self.stored]).await;
        let people = self.people().await;
        let id_of = |author: &Bson| match author {
            Bson::Document(copy) => number(copy, "_id"),
            username => {
                let is_named = |(_, person): &(&i64, &Document)| person.get("username") == Some(username);
                *people.iter().find(is_named).unwrap().0
            }
        };
        let facts = posts.iter().map(|post| {
            let id = post.get("_id").unwrap();
            format!("{UNREAD}post {id} {:?}", author(post).map(id_of))
        });
        let mut facts: Vec<String> = facts.collect();
        facts.extend(people.values().map(|person| {
            let username = person.get("username").unwrap();
            format!("{UNREAD}person {} {username}", number(person, "_id"))
        }));
        facts
    }

    async fn read(&self) -> Option<Vec<String>> {
        Some(Vec::new())
    }

    async fn damage(&self) -> Vec<String> {
        let [posts] = documents([&self.stored]).await;
        let people = self.people().await;
        let is_damaged = |post: &&Document| {
            author(post).and_then(Bson::as_document).is_some_and(|copy| {
                let person = &people[&number(copy, "_id")];
                let differs = ["username", "name"]
                    .iter()
                    .any(|name| copy.get(name) != person.get(name));
                differs || number(copy, "v") != number(person, "v")
            })
        };
        let damaged = posts.iter().filter(is_damaged);
        damaged.map(|post| post.get("_id").unwrap().to_string()).collect()
    }

    async fn found(&self) -> Vec<String> {
        let found: Vec<Finding> = self.posts.verify().stream().try_collect().await.unwrap();
        // Only a migration corrects a username.
        let damage = found.iter().filter(|finding| finding.problem != Problem::NotAReference);
        damage.map(|finding| finding.document_id.to_string()).collect()
    }

    async fn repair(&self) {
        let _: Vec<_> = self.posts.repair().stream().try_collect().await.unwrap();
    }
}

impl Operations for Posts {
    fn operations() -> Vec<Call<Self>> {
        calls! { Self;
            Atomic, "ReferenceRepository::insert", "by the source key", |m|
                m.posts.insert(&doc! { "_id": 5, "author": "ann" }).await => retry_errors(EXISTS);
            Atomic, "ReferenceRepository::insert_many", "by the source key", |m| {
                let posts = [doc! { "_id": 5, "author": "ann" }, doc! { "_id": 6, "author": "bob" }];
                m.posts.insert_many(&posts).await
            } => retry_errors(EXISTS);
            Atomic, "ReferenceRepository::set_reference", "by the source key", |m|
                m.posts.set_reference(1, "bob").await.map(drop);
            Atomic, "ReferenceRepository::update_source", "of the source key", |m|
                m.posts.update_source(1, doc! { "$set": { "username": "anna" } }).await.map(|updated| updated.version);
            Steps, "ReferenceRepository::migrate_from_references", "by the source key, in two chunks", |m|
                m.posts.migrate_from_references().chunk(2).await.map(drop) => prepare(bare);
        }
    }
}

/// Stores posts of a program that knows usernames alone.
fn bare(m: &Posts) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        let posts = [(11, "ann"), (12, "bob"), (13, "ann")];
        let posts = posts.map(|(id, author)| doc! { "_id": id, "author": author });
        m.stored.insert_many(posts).await.unwrap();
    })
}
