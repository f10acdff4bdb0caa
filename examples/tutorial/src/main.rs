//! The web service of the tutorial as a program.

// ANCHOR: program
use std::env;
use std::error::Error;

use mongo_patterns::Repository;
use mongo_patterns::mongodb::Client;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::with_uri_str(env::var("MONGODB_URI")?).await?;
    let trades = tutorial::trades(&client.database("tutorial"))?;
    trades.ensure_indexes().await?;

    let address = env::var("ADDRESS").unwrap_or_else(|_| "127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(&address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, tutorial::router(trades))
        .with_graceful_shutdown(asked_to_stop())
        .await?;
    println!("stopped");
    Ok(())
}

/// Completes at Ctrl-C.
async fn asked_to_stop() {
    if let Err(error) = tokio::signal::ctrl_c().await {
        eprintln!("Ctrl-C cannot be received: {error}");
    }
}
// ANCHOR_END: program
