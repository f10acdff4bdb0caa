//! Counts of the server and the wire, in separate passes, because recording takes time.

use anyhow::{Context, Result};
use mongodb::bson::{Bson, Document, doc, serialize_to_vec};

use crate::bench::Bench;

/// Returns the round trips of the recorded client per operation.
pub(crate) async fn round_trips(
    bench: &Bench<'_>,
    operations: u64,
    work: impl Future<Output = Result<()>>,
) -> Result<f64> {
    let recorder = bench.db.recorder();
    recorder.clear();
    work.await?;
    let made = recorder.round_trips();
    recorder.clear();
    Ok(made as f64 / operations as f64)
}

/// Returns the bytes of the replies that the server sends to the recorded client.
pub(crate) async fn bytes_sent(bench: &Bench<'_>, work: impl Future<Output = Result<()>>) -> Result<f64> {
    let recorder = bench.db.recorder();
    recorder.clear();
    work.await?;
    let mut sent = 0;
    for reply in recorder.commands().iter().filter_map(|command| command.reply.as_ref()) {
        sent += serialize_to_vec(reply)?.len();
    }
    recorder.clear();
    Ok(sent as f64)
}

/// What the server examines for one command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Examined {
    pub(crate) keys: f64,
    pub(crate) documents: f64,
}

/// Explains the last command that the recorded client sends.
pub(crate) async fn examined<T, E>(bench: &Bench<'_>, work: impl IntoFuture<Output = Result<T, E>>) -> Result<Examined>
where
    E: Into<anyhow::Error>,
{
    let recorder = bench.db.recorder();
    recorder.clear();
    work.await.map_err(Into::into)?;
    let last = recorder.commands().pop().context("no command was sent")?.essence();
    let database = bench.db.plain_client().database(bench.db.database().name());
    let explained = database
        .run_command(doc! { "explain": last, "verbosity": "executionStats" })
        .await?;
    let statistics = statistics(&explained).context("the server's reply has no statistics")?;
    Ok(Examined {
        keys: number(statistics, "totalKeysExamined")?,
        documents: number(statistics, "totalDocsExamined")?,
    })
}

/// Returns the statistics of a command, or of the first stage of an aggregation.
fn statistics(explained: &Document) -> Option<&Document> {
    let whole = explained.get_document("executionStats").ok();
    whole.or_else(|| {
        let first = explained.get_array("stages").ok()?.first()?.as_document()?;
        first.get_document("$cursor").ok()?.get_document("executionStats").ok()
    })
}

/// Returns a number of a server's reply, of any numeric type.
pub(crate) fn number(document: &Document, field: &str) -> Result<f64> {
    match document.get(field) {
        Some(Bson::Int32(number)) => Ok(f64::from(*number)),
        Some(Bson::Int64(number)) => Ok(*number as f64),
        Some(Bson::Double(number)) => Ok(*number),
        _ => anyhow::bail!("the server's reply has no number `{field}`"),
    }
}
