//! The metrics of the repositories, for Prometheus.

use std::time::Duration;

use anyhow::{Context, Result};
use axum::Extension;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use mongo_patterns::metrics::{DURATION_BUCKETS, METRICS, MetricType, describe_metrics};

/// How often the samples of histograms are added to their buckets, when no request reads them.
const UPKEEP: Duration = Duration::from_secs(5);

/// Installs the recorder of the process.
///
/// # Errors
/// When the process has a recorder.
pub(crate) fn install() -> Result<PrometheusHandle> {
    let mut builder = PrometheusBuilder::new();
    for metric in METRICS {
        if metric.metric_type == MetricType::Histogram {
            let name = Matcher::Full(metric.name.to_owned());
            builder = builder.set_buckets_for_metric(name, &DURATION_BUCKETS)?;
        }
    }
    let handle = builder
        .install_recorder()
        .context("installing the recorder of metrics")?;
    describe_metrics();
    Ok(handle)
}

/// Bounds the memory of the histograms.
pub(crate) async fn upkeep(handle: PrometheusHandle) {
    loop {
        tokio::time::sleep(UPKEEP).await;
        handle.run_upkeep();
    }
}

/// Returns all metrics in the text format of Prometheus. It needs no database.
pub(crate) async fn metrics(Extension(handle): Extension<PrometheusHandle>) -> impl IntoResponse {
    (
        [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        handle.render(),
    )
}
