//! Views of articles, counted by four instances of a service, which are then restarted.
//!
//! `cargo run --example article_views`

mod support;

use std::collections::HashMap;

use anyhow::Result;
use futures::TryStreamExt;
use mongo_patterns::prelude::*;
use mongodb::Collection;
use mongodb::bson::{Document, doc};
use tokio::sync::watch;

const INSTANCES: u32 = 4;
const VIEWS: u32 = 100_000;
const ARTICLES: f64 = 1000.0;

/// Returns the article of a view, by the law of Zipf: the second one has half as many as the first.
fn article(view: u32) -> u32 {
    let share = f64::from(view.wrapping_mul(2_654_435_761)) / f64::from(u32::MAX);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // below the number of articles
    let article = (ARTICLES.powf(share) - 1.0) as u32;
    article
}

/// The usual recipe: a count in memory, which is written when it reaches 100.
async fn by_the_recipe(articles: &Collection<Document>) -> Result<()> {
    let mut instances = vec![HashMap::<u32, i64>::new(); INSTANCES as usize];
    for view in 0..VIEWS {
        let article = article(view);
        let count = instances[(view % INSTANCES) as usize].entry(article).or_default();
        *count += 1;
        if *count >= 100 {
            let increment = doc! { "$inc": { "views": *count } };
            articles
                .update_one(doc! { "_id": article }, increment)
                .upsert(true)
                .await?;
            *count = 0;
        }
    }
    Ok(())
}

async fn by_counters(articles: &Collection<Document>) -> Result<()> {
    let (end, _) = watch::channel(false);
    let mut instances = Vec::new();
    for _ in 0..INSTANCES {
        let views = Counters::builder(articles.clone()).field("views").upsert().build()?;
        let (flushing, mut ended) = (views.clone(), end.subscribe());
        let flushing = tokio::spawn(async move {
            let ended = async move { drop(ended.wait_for(|ended| *ended).await) };
            flushing.run().until(ended).await
        });
        instances.push((views, flushing));
    }
    for view in 0..VIEWS {
        let (views, _) = &instances[(view % INSTANCES) as usize];
        views.add(i64::from(article(view)), 1)?;
    }
    end.send(true)?;
    for (_, flushing) in instances {
        flushing.await??;
    }
    Ok(())
}

/// Prints what the restarted instances read.
async fn print(name: &str, articles: &Collection<Document>) -> Result<()> {
    let stored: Vec<Document> = articles.find(doc! {}).await?.try_collect().await?;
    let views: i64 = stored.iter().filter_map(|article| article.get_i64("views").ok()).sum();
    println!("{name}: {views} of {VIEWS} views, {} articles with views", stored.len());
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let database = support::open("article_views").await?;
    let [recipe, counters] = ["by_the_recipe", "by_counters"].map(|name| database.collection(name));
    by_the_recipe(&recipe).await?;
    print("the recipe", &recipe).await?;
    by_counters(&counters).await?;
    print("counters", &counters).await?;

    if let Some(article) = counters.find_one(doc! { "_id": 0 }).await? {
        let batches = article.get_array("views_batches")?;
        println!("article 0 knows the last batches of {} instances", batches.len());
    }
    Ok(())
}
