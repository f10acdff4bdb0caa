//! A server in front of a real mongod that replies like the router of a sharded cluster with two shards to the commands of
//! a set-up, and forwards all others. It has the rules of a router on indexes and keys, and no shards.

#![allow(dead_code)] // two test programs have this file

use std::sync::{Arc, Mutex, MutexGuard};

use mongo_patterns_testkit::{CommandRecorder, TestDatabase};
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use mongodb::options::{ClientOptions, ServerApi, ServerApiVersion};
use mongodb::{Client, Database};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// The code of messages with one command.
const OP_MSG: i32 = 2013;

pub struct Router {
    cluster: Arc<Cluster>,
    client: Client,
    pub recorder: CommandRecorder,
    pub uri: String,
    name: String,
}

/// The metadata of the cluster.
#[derive(Default)]
pub struct Metadata {
    /// As in `config.collections`.
    pub collections: Vec<Document>,
    /// A command that fails, with its code.
    pub failure: Option<(&'static str, i32)>,
    /// Commands that fail once, in this order, with their codes: `createIndexes`, or those of the router.
    pub conflicts: Vec<(&'static str, i32)>,
    /// The next updates of many documents that update none, because the documents move to another shard.
    pub lost_updates: usize,
    /// The shard key by which another client shards a collection before the next command does.
    pub race: Option<Document>,
}

struct Cluster {
    metadata: Mutex<Metadata>,
    /// Whether the driver takes it for a router too.
    is_seen: bool,
    /// The server behind the router.
    server: Client,
}

fn refused(code: i32, text: &str) -> Document {
    doc! { "ok": 0.0, "errmsg": text, "code": code, "codeName": "Refused" }
}

impl Router {
    pub async fn start(db: &TestDatabase) -> Self {
        Self::start_as(db, false).await
    }

    /// Starts one that the driver takes for a router.
    pub async fn seen_by_the_driver(db: &TestDatabase) -> Self {
        Self::start_as(db, true).await
    }

    async fn start_as(db: &TestDatabase, is_seen: bool) -> Self {
        let options = db.server().client_options().await.unwrap();
        let server = options.hosts[0].to_string();
        let cluster = Arc::new(Cluster {
            metadata: Mutex::default(),
            is_seen,
            server: db.plain_client().clone(),
        });
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let uri = format!("mongodb://{}/?directConnection=true", listener.local_addr().unwrap());
        tokio::spawn(accept(listener, server, Arc::clone(&cluster)));
        let mut options = ClientOptions::parse(&uri).await.unwrap();
        // With it the driver's first command is a `hello`, and not one of the legacy protocol.
        options.server_api = is_seen.then(|| ServerApi::builder().version(ServerApiVersion::V1).build());
        let recorder = CommandRecorder::new();
        recorder.attach(&mut options);
        let client = Client::with_options(options).unwrap();
        let name = db.database().name().to_owned();
        Self {
            cluster,
            client,
            recorder,
            uri,
            name,
        }
    }

    pub fn database(&self) -> Database {
        self.client.database(&self.name)
    }

    pub fn metadata(&self) -> MutexGuard<'_, Metadata> {
        self.cluster.metadata.lock().unwrap()
    }

    /// Returns the commands since the last call, by their names and collections.
    pub fn sent(&self) -> Vec<String> {
        let commands = self.recorder.commands();
        self.recorder.clear();
        let text = |command: &mongo_patterns_testkit::RecordedCommand| match command.command.get_str(&command.name) {
            Ok(target) => {
                let target = target.rsplit('.').next().unwrap_or_default();
                format!("{} {target}", command.name)
            }
            Err(_) => command.name.clone(),
        };
        commands.iter().map(text).collect()
    }
}

async fn accept(listener: TcpListener, server: String, cluster: Arc<Cluster>) {
    while let Ok((client, _)) = listener.accept().await {
        let server = TcpStream::connect(&server).await.unwrap();
        tokio::spawn(connection(client, server, Arc::clone(&cluster)));
    }
}

async fn connection(client: TcpStream, server: TcpStream, cluster: Arc<Cluster>) {
    let (mut requests, replies) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    // The server is silent while the router replies itself.
    let replies = Arc::new(tokio::sync::Mutex::new(replies));
    let forwarding = tokio::spawn(forward(from_server, Arc::clone(&replies)));
    while let Some(message) = read_message(&mut requests).await {
        let reply = match command(&message) {
            Some(command) => cluster.reply(&command).await,
            None => None,
        };
        let written = match reply {
            Some(reply) => replies.lock().await.write_all(&encode(&message, &reply)).await,
            None => to_server.write_all(&message).await,
        };
        if written.is_err() {
            break;
        }
    }
    forwarding.abort();
}

async fn forward(mut from: OwnedReadHalf, to: Arc<tokio::sync::Mutex<OwnedWriteHalf>>) {
    while let Some(message) = read_message(&mut from).await {
        if to.lock().await.write_all(&message).await.is_err() {
            return;
        }
    }
}

async fn read_message(from: &mut OwnedReadHalf) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length).await.ok()?;
    let mut message = vec![0; usize::try_from(i32::from_le_bytes(length)).ok()?];
    message[..4].copy_from_slice(&length);
    from.read_exact(&mut message[4..]).await.ok()?;
    Some(message)
}

/// Returns the command of a message: after the header, the flags, and the kind of the section.
fn command(message: &[u8]) -> Option<Document> {
    let code = i32::from_le_bytes(message[12..16].try_into().unwrap());
    if code != OP_MSG || message[20] != 0 {
        return None;
    }
    let length = i32::from_le_bytes(message[21..25].try_into().unwrap());
    let end = 21 + usize::try_from(length).unwrap();
    Document::try_from(RawDocument::from_bytes(&message[21..end]).unwrap()).ok()
}

fn encode(request: &[u8], reply: &Document) -> Vec<u8> {
    let reply = RawDocumentBuf::try_from(reply).unwrap();
    let length = i32::try_from(21 + reply.as_bytes().len()).unwrap();
    let mut message = Vec::new();
    message.extend(length.to_le_bytes());
    message.extend(1_i32.to_le_bytes());
    message.extend(&request[4..8]);
    message.extend(OP_MSG.to_le_bytes());
    message.extend([0; 5]);
    message.extend(reply.as_bytes());
    message
}

/// The reply of a router of MongoDB 6.0 to the driver's monitor.
fn hello() -> Document {
    doc! {
        "isWritablePrimary": true, "msg": "isdbgrid", "helloOk": true, "maxBsonObjectSize": 16_777_216,
        "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000, "logicalSessionTimeoutMinutes": 30,
        "minWireVersion": 0, "maxWireVersion": 17, "ok": 1.0,
    }
}

fn is(document: &Document, field: &str, value: impl Into<Bson>) -> bool {
    document.get(field) == Some(&value.into())
}

fn cursor(documents: Vec<Document>) -> Document {
    doc! { "cursor": { "firstBatch": documents, "id": 0_i64, "ns": "config.collections" }, "ok": 1.0 }
}

impl Cluster {
    /// Returns the reply to a command of the set-up. `None` for a command of the server.
    async fn reply(&self, command: &Document) -> Option<Document> {
        let name = command.keys().next()?.as_str();
        let is_on_config = command.get_str("$db").is_ok_and(|database| database == "config");
        // The driver monitors the server without a session.
        let is_hello = name == "hello" && command.contains_key("lsid");
        if self.is_seen && name == "hello" {
            return Some(hello());
        }
        if self.loses(command) {
            return Some(doc! { "n": 0, "nModified": 0, "ok": 1.0 });
        }
        let namespace = command.get_str(name).unwrap_or_default();
        if let Some(code) = self.conflict(name) {
            if name == "shardCollection" {
                self.shard_by_another(namespace);
            }
            return Some(refused(code, "planned"));
        }
        if !is_on_config && !is_hello && name != "shardCollection" {
            return None;
        }
        let failure = self.metadata.lock().unwrap().failure;
        if let Some((_, code)) = failure.filter(|(failing, _)| *failing == name) {
            return Some(refused(code, "planned"));
        }
        Some(match name {
            "hello" => doc! { "isWritablePrimary": true, "msg": "isdbgrid", "ok": 1.0 },
            "shardCollection" => self.shard(namespace, command.get_document("key").unwrap()).await,
            "find" => self.find(command),
            other => panic!("the router has no reply to {other}"),
        })
    }

    /// Returns whether no shard gets a command.
    fn loses(&self, command: &Document) -> bool {
        let updates = command.get_array("updates").into_iter().flatten();
        let mut updates = updates.filter_map(|update| update.as_document());
        let is_of_many = updates.any(|update| update.get_bool("multi").unwrap_or(false));
        let mut metadata = self.metadata.lock().unwrap();
        let loses = is_of_many && metadata.lost_updates > 0;
        metadata.lost_updates -= usize::from(loses);
        loses
    }

    /// Returns the code of the next conflict, if it is that of this command.
    fn conflict(&self, name: &str) -> Option<i32> {
        let mut metadata = self.metadata.lock().unwrap();
        let (_, code) = *metadata.conflicts.first().filter(|(failing, _)| *failing == name)?;
        metadata.conflicts.remove(0);
        Some(code)
    }

    /// The other client of a conflict completes its command.
    fn shard_by_another(&self, namespace: &str) {
        let mut metadata = self.metadata.lock().unwrap();
        if let Some(key) = metadata.race.take() {
            let entry = doc! { "_id": namespace, "key": key, "unique": false };
            metadata.collections.push(entry);
        }
    }

    /// As a router decides: the fields of the key start each unique index, and an index supports the key. It
    /// takes a partial index for one that does, and the shard then refuses it.
    async fn shard(&self, namespace: &str, key: &Document) -> Document {
        let (database, collection) = namespace.split_once('.').unwrap();
        let collection = self.server.database(database).collection::<Document>(collection);
        let indexes = mongo_patterns_core::index::list_indexes(&collection).await.unwrap();
        let mut metadata = self.metadata.lock().unwrap();
        let other = metadata.race.take();
        for key in other.iter().chain([key]) {
            let existing = metadata.collections.iter().find(|entry| is(entry, "_id", namespace));
            if let Some(existing) = existing {
                return match existing.get_document("key").unwrap() == key {
                    true => doc! { "collectionsharded": namespace, "ok": 1.0 },
                    false => refused(23, "sharding already enabled with other options"),
                };
            }
            let fields = |index: &Document| index.get_document("key").unwrap().clone();
            let starts = |index: &Document| fields(index).iter().zip(key).filter(|(a, b)| a == b).count() == key.len();
            let names = |index: &Document| fields(index).keys().take(key.len()).eq(key.keys());
            let has = |index: &Document, option: &str| index.contains_key(option);
            if indexes.iter().any(|index| has(index, "unique") && !names(index)) {
                return refused(72, "can't shard collection with unique index");
            }
            let useful: Vec<&Document> = indexes.iter().filter(|index| starts(index)).collect();
            // An index on an array of items has several entries for a document.
            let supports = |index: &&&Document| {
                !has(index, "partialFilterExpression") && !fields(index).keys().any(|field| field.contains('.'))
            };
            let is_empty = indexes.is_empty() || key.contains_key("_id");
            if !is_empty && !useful.iter().any(|index| supports(&index)) {
                return refused(72, "please create an index that starts with the proposed shard key");
            }
            let entry = doc! { "_id": namespace, "key": key.clone(), "unique": false };
            metadata.collections.push(entry);
        }
        doc! { "collectionsharded": namespace, "ok": 1.0 }
    }

    /// Finds documents of `config.collections`.
    fn find(&self, command: &Document) -> Document {
        let filter = command.get_document("filter").unwrap();
        let names = filter.get_document("_id").unwrap().get_array("$in").unwrap();
        let metadata = self.metadata.lock().unwrap();
        let is_listed = |entry: &&Document| entry.get("_id").is_some_and(|name| names.contains(name));
        let found = metadata.collections.iter().filter(is_listed).cloned();
        cursor(found.collect())
    }
}
