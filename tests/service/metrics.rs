//! The metrics of the example `service`, and its dashboard.

use std::collections::BTreeSet;

use mongo_patterns::metrics::{METRICS, MetricType};
use serde_json::{Value, json};

use crate::service::support::*;

const DASHBOARD: &str = include_str!("../../examples/service/grafana-dashboard.json");

/// Returns the names of all series. A histogram has three.
fn documented() -> BTreeSet<String> {
    let series = METRICS.iter().flat_map(|metric| {
        let suffixes: &[&str] = match metric.metric_type {
            MetricType::Histogram => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        suffixes.iter().map(|suffix| format!("{}{suffix}", metric.name))
    });
    series.collect()
}

/// Returns the names of ours in the queries of a dashboard.
fn names(dashboard: &str) -> BTreeSet<String> {
    let words = dashboard.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let ours = words.filter(|word| word.starts_with("mongo_patterns_"));
    ours.map(str::to_owned).collect()
}

#[test]
fn the_dashboard_shows_every_documented_metric_and_no_other() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut panels = dashboard["panels"].as_array().unwrap().iter();
    assert!(panels.all(|panel| !panel["targets"].as_array().unwrap().is_empty()));
    let shown = names(DASHBOARD);
    let documented = documented();
    let unknown: Vec<&String> = shown.difference(&documented).collect();
    assert_eq!(unknown, [""; 0], "not documented");
    let missing: Vec<String> = documented.difference(&shown).cloned().collect();
    assert_eq!(missing, [""; 0], "not in the dashboard");
}

#[tokio::test]
async fn metrics_are_served_without_user_values() {
    let service = started().await;
    let service = service.address;
    let trade = json!({ "id": "secret-trade", "kind": "buy", "ticker": "MDB", "qty": 5 });
    let path = "/customers/4711/trades.json";
    let stored = send(service, "POST", path, &trade).await;
    assert!((200..300).contains(&stored.status), "{stored:?}");
    let answer = get(service, "/metrics").await;
    assert_eq!(answer.status, 200);
    let media = answer.header("content-type").unwrap();
    assert!(media.starts_with("text/plain"), "{media}");
    let text = &answer.body;
    let labels = r#"pattern="bucket",operation="append",collection="trades""#;
    for line in [
        format!(r#"mongo_patterns_operations_total{{{labels},outcome="ok"}} "#),
        format!(r#"mongo_patterns_operation_duration_seconds_bucket{{{labels},le="0.001"}} "#),
        "# TYPE mongo_patterns_operation_duration_seconds histogram".to_owned(),
        "# HELP mongo_patterns_operations_total Operations that ended.".to_owned(),
    ] {
        assert!(text.contains(&line), "{line}: {text}");
    }
    let documented = documented();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let name = line.split(['{', ' ']).next().unwrap();
        assert!(documented.contains(name), "{line}");
    }
    // Without the values: the digits of a duration can be those of the key.
    let labels = text.lines().filter_map(|line| line.rsplit_once(' '));
    let users: Vec<&str> = labels
        .map(|(labels, _)| labels)
        .filter(|labels| labels.contains("secret") || labels.contains("4711"))
        .collect();
    assert!(users.is_empty(), "{users:?}");
}
