//! Starts a MongoDB for the tutorial, prints how to connect, and stops it at Ctrl-C. Its data is deleted then.

use std::error::Error;

use mongo_patterns_testkit::{Mongod, MongodOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mongod = Mongod::start(MongodOptions::new()).await?;
    println!("export MONGODB_URI='{}'", mongod.uri());
    tokio::signal::ctrl_c().await?;
    Ok(())
}
