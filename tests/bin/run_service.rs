//! The example `service` as a process, for the tests that start, stop and kill it.

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    service::run().await
}
