//! The session that replaces a caller's session while a command is in flight.

use std::sync::LazyLock;

use mongodb::error::Result as DriverResult;
use mongodb::options::{ClientOptions, ServerAddress};
use mongodb::{Client, ClientSession};

/// A client without a server: no server listens at port 0. With a load balancer, the driver does not look for servers.
static NOWHERE: LazyLock<DriverResult<Client>> = LazyLock::new(|| {
    let host = ServerAddress::Tcp {
        host: "localhost".to_owned(),
        port: Some(0),
    };
    let mut options = ClientOptions::builder().hosts(vec![host]).build();
    options.load_balanced = Some(true);
    Client::with_options(options)
});

/// Starts a session that the driver refuses in the commands of all other clients. Sends nothing.
pub(super) async fn session() -> DriverResult<ClientSession> {
    NOWHERE
        .as_ref()
        .map_err(Clone::clone)?
        .start_session()
        .snapshot(true)
        .await
}
