//! The batch sizes of reads whose number of results is known.

/// Returns the batch size of a find that returns `limit` documents in one batch. The driver refuses sizes above `i32::MAX`,
/// and adds 1 to a size that equals the limit.
#[must_use]
pub fn batch_size(limit: u32) -> u32 {
    limit.min(i32::MAX as u32 - 1)
}

/// Returns the batch size of an aggregation that returns up to `results` documents in one batch. One more, because the
/// server leaves the cursor of a full batch open.
#[must_use]
pub fn aggregate_batch_size(results: u32) -> u32 {
    batch_size(results.saturating_add(1))
}

/// Returns the batch size of a read of up to `results` documents in one batch. `None` if the server's first batch, of 101
/// documents, has room for one more.
#[must_use]
pub fn one_batch(results: usize) -> Option<u32> {
    (results > 100).then(|| aggregate_batch_size(u32::try_from(results).unwrap_or(u32::MAX)))
}
