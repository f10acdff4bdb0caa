//! What the deployment is: a standalone, a replica set, or a sharded cluster.

use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf, doc};

use crate::conn::Conn;
use crate::error::{Error, ErrorKind, Result};
use crate::send::Step;

/// The text of every error for a standalone, where a pattern needs transactions or change streams.
pub(crate) const STANDALONE: &str = "the server is a standalone, which has no transactions and no change streams, nothing was changed: make it a replica set, for which one node is enough: start mongod with `--replSet`, and run `rs.initiate()`";

/// What the deployment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One server without an oplog.
    Standalone,
    /// A replica set of any number of nodes.
    ReplicaSet,
    /// The router of a sharded cluster.
    Router,
}

impl Topology {
    /// Reads the topology, in a plan too. One round trip.
    pub async fn read(on: &Collection<RawDocumentBuf>, conn: &mut Conn<'_>) -> Result<Self> {
        let hello = Step::admin("look for a replica set or a sharded cluster", on, doc! { "hello": 1 });
        Ok(Self::of(&conn.read(hello).await?.first()?))
    }

    /// Returns the topology that a reply to `hello` shows.
    fn of(hello: &Document) -> Self {
        if hello.get_str("msg").is_ok_and(|message| message == "isdbgrid") {
            Self::Router
        } else if hello.contains_key("setName") {
            Self::ReplicaSet
        } else {
            Self::Standalone
        }
    }

    /// Refuses a standalone.
    pub fn check_transactions(self) -> Result<()> {
        match self {
            Self::Standalone => Err(Error::new(ErrorKind::Unsupported, STANDALONE)),
            Self::ReplicaSet | Self::Router => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_to_hello_shows_the_topology() {
        let router = Topology::of(&doc! { "msg": "isdbgrid" });
        let node = Topology::of(&doc! { "setName": "rs0", "msg": "other" });
        let standalone = Topology::of(&doc! { "isWritablePrimary": true });
        assert_eq!(
            [router, node, standalone],
            [Topology::Router, Topology::ReplicaSet, Topology::Standalone]
        );
        let error = standalone.check_transactions().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(router.check_transactions().is_ok() && node.check_transactions().is_ok());
    }
}
