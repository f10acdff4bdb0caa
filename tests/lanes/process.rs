//! The process `drop-calls`, whose calls for a held document are dropped.

use std::process::Stdio;

use mongo_patterns_testkit::TestDatabase;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use support::lanes::*;

#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    pub fn start(db: &TestDatabase, operation: &Operation, what: &str) -> Self {
        let [held, free] = [HELD, FREE[0]].map(|document| document.to_string());
        let mut process = Command::new(env!("CARGO_BIN_EXE_process"));
        process.args(["drop-calls", db.server().uri(), db.database().name()]);
        process.args([operation.name, &held, &free, what]);
        let mut child = process.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Returns the next line that it prints, which is no failure.
    pub async fn line(&mut self) -> String {
        let line = ends("the process", self.lines.next_line()).await.unwrap();
        let line = line.expect("the process has ended");
        assert!(!line.starts_with("failed"), "{line}");
        line
    }

    /// Returns the next line that is none of these.
    pub async fn line_besides(&mut self, others: &[&str]) -> String {
        loop {
            let line = self.line().await;
            if !others.contains(&line.as_str()) {
                return line;
            }
        }
    }

    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}
