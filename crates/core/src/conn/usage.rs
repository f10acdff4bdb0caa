//! The use of a caller's session, which the driver does not expose.

use mongodb::ClientSession;
use mongodb::error::ErrorKind as DriverKind;

use crate::error::{Result, is_transaction_unsupported};

/// The use of a caller's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Single commands that are causally consistent.
    Commands,
    /// A transaction that has started.
    Transaction,
    /// Reads of a snapshot.
    Snapshot,
}

/// Returns the use of a caller's session. Sends nothing: the driver refuses to start a transaction in the other two.
pub(crate) async fn use_of(session: &mut ClientSession) -> Result<Use> {
    let Err(error) = session.start_transaction().await else {
        session.abort_transaction().await?;
        return Ok(Use::Commands);
    };
    match &*error.kind {
        DriverKind::Transaction { message, .. } if message.contains("snapshot session") => Ok(Use::Snapshot),
        _ if is_transaction_unsupported(&error) => Ok(Use::Commands),
        DriverKind::Transaction { .. } => Ok(Use::Transaction),
        _ => Err(error.into()),
    }
}
