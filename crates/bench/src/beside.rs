//! Work beside writers, which share the server with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Result;
use hdrhistogram::Histogram;
use tokio::task::JoinSet;

const WRITERS: u64 = 8;

/// Works beside eight writers, which write without a pause. Returns the 99th percentile of the time of a write in
/// milliseconds, and the seconds of the work.
pub(crate) async fn beside<W, F>(write: W, work: impl Future<Output = Result<()>>) -> Result<(f64, f64)>
where
    W: Fn(u64) -> F + Clone + Send + 'static,
    F: Future<Output = Result<()>> + Send,
{
    let is_over = Arc::new(AtomicBool::new(false));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (is_over, write) = (Arc::clone(&is_over), write.clone());
        writers.spawn(async move {
            let mut times = Histogram::<u64>::new(3)?;
            for n in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let started = Instant::now();
                write(n * WRITERS + writer).await?;
                times.record(started.elapsed().as_micros() as u64)?;
            }
            anyhow::Ok(times)
        });
    }
    let started = Instant::now();
    let worked = work.await;
    let seconds = started.elapsed().as_secs_f64();
    is_over.store(true, Ordering::Relaxed);
    worked?;
    let mut all = Histogram::<u64>::new(3)?;
    while let Some(times) = writers.join_next().await {
        all.add(times??)?;
    }
    Ok((all.value_at_quantile(0.99) as f64 / 1000.0, seconds))
}
