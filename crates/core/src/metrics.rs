//! Metrics of the calls, through the [`metrics`](https://docs.rs/metrics) crate.
//!
//! The feature `metrics` enables them. Install a recorder, for example the recorder of `metrics-exporter-prometheus`, and
//! call [`describe_metrics`] once.
//!
#![doc = include_str!("metrics.md")]
//!
//! # Labels
//!
//! - `pattern`, `operation`: the pattern and the method, such as `bucket` and `append`.
//! - `collection`: the name of the collection, without its database, so tenants in their own databases share one series.
//! - `outcome`: `ok`, the [code](crate::ErrorKind::code) of an error such as `contention`, or `cancelled` if the future was
//!   dropped before its end.
//! - `result`: `written`; `unchanged` if other writers had written the parent; `no_parent` if the parent does not exist.
//! - `follower`: the name of the follower.
//!
//! Labels never contain keys, ids or items.
//!
//! # What is counted?
//!
//! - An operation begins at the first poll of its future. Calls that return a stream are no operations.
//! - Calls that wait for one document are sent together. Further attempts of such a batch count for the call that began it.
//! - In a transaction of the caller, spilled elements and refreshes are counted when they are sent, also if the transaction
//!   aborts later.
//! - The unit of migrated documents is the unit of the migration's `rate`: items of a bucket migration, lists of an outlier
//!   migration, children that are copied, or parents that are written. `migrate_page_size_from` counts pages.
//! - The lag of a follower is set when it has processed changes, when there are none, and after each error. It compares the
//!   server's clock with the client's, and is never negative. On an idle deployment it rises to about ten seconds. It is not
//!   set for a server whose resume tokens have no readable time.
//!
//! # Cost
//!
//! An operation reads the clock twice, and looks up three metrics in the recorder: attempts, operations and durations.

/// The recommended bounds of the buckets of `mongo_patterns_operation_duration_seconds`, in seconds, by the OpenTelemetry
/// conventions.
pub const DURATION_BUCKETS: [f64; 9] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0];

/// The type of a [`Metric`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricType {
    /// A sum that only rises.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// A distribution of values.
    Histogram,
}

/// One of the [`METRICS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// The type.
    pub metric_type: MetricType,
    /// The names of the labels.
    pub labels: &'static [&'static str],
    /// The meaning.
    pub description: &'static str,
}

const OF_OPERATION: &[&str] = &["pattern", "operation", "collection"];
const WITH_OUTCOME: &[&str] = &["pattern", "operation", "collection", "outcome"];
const WITH_RESULT: &[&str] = &["pattern", "operation", "collection", "result"];
const OF_COLLECTION: &[&str] = &["collection"];
const OF_PROCESS: &[&str] = &[];
const WITH_FOLLOWER: &[&str] = &["pattern", "operation", "collection", "follower"];

/// Defines the metrics, and a constant for the name of each.
macro_rules! metrics {
    ($($constant:ident = $name:literal, $kind:ident, $labels:ident, $description:literal;)+) => {
        $(pub(crate) const $constant: &str = $name;)+

        /// All metrics.
        pub const METRICS: &[Metric] = &[$(Metric {
            name: $name,
            metric_type: MetricType::$kind,
            labels: $labels,
            description: $description,
        },)+];
    };
}

metrics! {
    OPERATIONS = "mongo_patterns_operations_total", Counter, WITH_OUTCOME,
        "Operations that ended.";
    DURATION = "mongo_patterns_operation_duration_seconds", Histogram, OF_OPERATION,
        "Durations of operations, with all retries and backoffs.";
    ATTEMPTS = "mongo_patterns_attempts_total", Counter, OF_OPERATION,
        "Attempts of operations: the first attempt of each, and its retries.";
    CONFLICTS = "mongo_patterns_conflicts_total", Counter, OF_OPERATION,
        "Conflicts with concurrent writers that operations met.";
    RETRIES = "mongo_patterns_retries_total", Counter, OF_OPERATION,
        "Retries of operations after conflicts and network errors.";
    SPILLED = "mongo_patterns_spilled_elements_total", Counter, OF_OPERATION,
        "Elements that inserts and pushes stored in overflow documents.";
    OVERFLOW = "mongo_patterns_overflow_documents_total", Counter, OF_OPERATION,
        "Overflow documents that inserts and pushes opened.";
    REFRESHES = "mongo_patterns_refreshes_total", Counter, WITH_RESULT,
        "Refreshes of subsets, one for each parent.";
    MIGRATED = "mongo_patterns_migrated_documents_total", Counter, OF_OPERATION,
        "Documents that migrations migrated, counted after each chunk.";
    CHANGES = "mongo_patterns_follower_changes_total", Counter, WITH_FOLLOWER,
        "Changes that followers processed.";
    LAG = "mongo_patterns_follower_lag_seconds", Gauge, WITH_FOLLOWER,
        "Seconds between the cluster time up to which a follower processed all changes and now.";
    WAITING = "mongo_patterns_lane_waiting_calls", Gauge, OF_COLLECTION,
        "Calls that wait for another one of their document.";
    JOINED = "mongo_patterns_joined_items_total", Counter, OF_COLLECTION,
        "Items of calls that waited, and were sent in one command or transaction with others.";
    TAKEN_OVER = "mongo_patterns_taken_over_commands", Gauge, OF_PROCESS,
        "Commands of dropped calls that are in flight.";
    TAKEN_OVER_DURATION = "mongo_patterns_taken_over_duration_seconds", Histogram, OF_PROCESS,
        "How long commands of dropped calls were in flight after the drop.";
}

/// Registers the descriptions and units of all metrics with the recorder. Call it once, after the recorder is installed.
///
/// ```
/// mongo_patterns::metrics::describe_metrics();
/// ```
pub fn describe_metrics() {
    for metric in METRICS {
        let unit = match metric.name.ends_with("_seconds") {
            true => ::metrics::Unit::Seconds,
            false => ::metrics::Unit::Count,
        };
        match metric.metric_type {
            MetricType::Counter => ::metrics::describe_counter!(metric.name, unit, metric.description),
            MetricType::Gauge => ::metrics::describe_gauge!(metric.name, unit, metric.description),
            MetricType::Histogram => ::metrics::describe_histogram!(metric.name, unit, metric.description),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_documents_every_metric() {
        let rows = METRICS.iter().map(|metric| {
            let metric_type = format!("{:?}", metric.metric_type).to_lowercase();
            let unit = match metric.name.ends_with("_seconds") {
                true => " seconds ",
                false => " ",
            };
            let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let labels = labels.join(", ");
            let (name, description) = (metric.name, metric.description);
            format!("| `{name}` | {metric_type} |{unit}| {labels} | {description} |")
        });
        let table: Vec<&str> = include_str!("metrics.md").lines().skip(2).collect();
        assert_eq!(table, rows.collect::<Vec<_>>());
    }
}
