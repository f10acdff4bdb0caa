//! A collection without a server, for unit tests.

use mongodb::bson::RawDocumentBuf;
use mongodb::options::ClientOptions;
use mongodb::{Client, Collection};

pub(crate) fn collection(name: &str) -> Collection<RawDocumentBuf> {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _guard = runtime.enter();
    let client = Client::with_options(ClientOptions::default()).expect("default options");
    client.database("shop").collection(name)
}
