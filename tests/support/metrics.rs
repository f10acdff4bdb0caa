//! The metrics that a test records.

use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use mongo_patterns::metrics::{METRICS, MetricType};

/// What was recorded.
pub struct Seen(pub Vec<(String, Labels, DebugValue)>);

/// Names of labels with their values.
pub type Labels = Vec<(String, String)>;

impl Seen {
    /// Takes what was recorded. Every metric is a documented one, with its labels.
    pub fn take(recorder: &DebuggingRecorder) -> Self {
        let recorded = recorder.snapshotter().snapshot().into_vec().into_iter();
        let recorded = recorded.map(|(key, _, _, value)| {
            let (kind, key) = key.into_parts();
            let labels = key
                .labels()
                .map(|label| (label.key().to_owned(), label.value().to_owned()));
            let labels: Vec<_> = labels.collect();
            let metric = METRICS.iter().find(|metric| metric.name == key.name());
            let metric = metric.unwrap_or_else(|| panic!("{} is not documented", key.name()));
            let expected = match metric.metric_type {
                MetricType::Counter => MetricKind::Counter,
                MetricType::Gauge => MetricKind::Gauge,
                _ => MetricKind::Histogram,
            };
            assert_eq!(kind, expected, "{}", metric.name);
            let names: Vec<&str> = labels.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, metric.labels, "{}", metric.name);
            (metric.name.to_owned(), labels, value)
        });
        Self(recorded.collect())
    }

    pub fn values(&self, name: &str, labels: &[(&str, &str)]) -> impl Iterator<Item = &DebugValue> {
        let has = move |all: &[(String, String)]| {
            let has = |(name, value): &(&str, &str)| all.iter().any(|(n, v)| n == name && v == value);
            labels.iter().all(has)
        };
        let name = format!("mongo_patterns_{name}");
        let found = self.0.iter().filter(move |(n, all, _)| *n == name && has(all));
        found.map(|(_, _, value)| value)
    }

    /// Returns the sum of the counters with these labels.
    pub fn count(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let numbers = self.values(name, labels).map(|value| match value {
            DebugValue::Counter(number) => *number,
            other => panic!("{name}: {other:?}"),
        });
        numbers.sum()
    }

    /// Returns the sum of the changes of the gauges with these labels since the last snapshot.
    pub fn gauge(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let numbers = self.values(name, labels).map(|value| match value {
            DebugValue::Gauge(number) => number.0,
            other => panic!("{name}: {other:?}"),
        });
        numbers.sum()
    }

    /// Returns how many durations of an operation were recorded.
    pub fn durations(&self, operation: &str) -> usize {
        let (name, labels) = ("operation_duration_seconds", [("operation", operation)]);
        let lengths = self.values(name, &labels).map(|value| match value {
            DebugValue::Histogram(durations) => durations.len(),
            other => panic!("{name}: {other:?}"),
        });
        lengths.sum()
    }
}
