//! The service as a program. The library of this package describes it.

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    service::run().await
}
