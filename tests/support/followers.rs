//! Processes of followers that are killed.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use mongo_patterns_testkit::TestDatabase;

use crate::lanes::{end_transactions_of_ended, ending_app_name};

/// Starts a process that follows under a name and prints a line after each batch, and kills it after some lines. Calls a
/// function before each line. A transaction that it has left open is ended, as the server does after 60 seconds.
pub async fn kill_after(
    lines: usize,
    [program, process]: [&str; 2],
    name: &str,
    db: &TestDatabase,
    before_each: impl Fn() + Send + 'static,
) {
    let uri = db.server().uri();
    let separator = if uri.contains('?') { '&' } else { '?' };
    let uri = format!("{uri}{separator}appName={}", ending_app_name(db.database().name()));
    let mut child = Command::new(program)
        .args([process, uri.as_str(), db.database().name(), name])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut printed = BufReader::new(child.stdout.take().unwrap()).lines();
    let read = tokio::task::spawn_blocking(move || {
        for _ in 0..lines {
            before_each();
            printed.next().expect("the follower has ended").unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    });
    read.await.unwrap();
    end_transactions_of_ended(db).await;
}
