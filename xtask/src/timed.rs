//! Runs test programs, with the time of each test and the memory of each program.
//!
//! Cargo starts every test program by a runner, which is this program. The runner asks the test harness for the times, an
//! unstable option that needs a variable of the compiler, and only when the program runs: nothing is compiled with it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::process::run as run_process;

/// Where the runners write what they measured.
const FOLDER: &str = "target/timed";
const FOLDER_VARIABLE: &str = "XTASK_TIMED";
const SLOWEST: usize = 20;
/// The most memory of a test program together with its servers. The integration tests take the most.
const MOST_MIB: u64 = 6144;
const MIB: u64 = 1024 * 1024;
/// How many characters of a panic are repeated at the end, in one line, where the reader of a long output looks first.
const LENGTH_OF_PANIC: usize = 900;
/// How often the memory is read.
const INTERVAL: Duration = Duration::from_millis(250);

/// What Cargo asks the runner to run.
#[derive(Args, Debug)]
pub(crate) struct Program {
    program: OsString,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Runs a call of `cargo test`, and prints the slowest tests and the most memory of a program.
///
/// # Errors
/// If a test fails, or a program takes more memory than allowed.
pub(crate) fn run_tests(test: &mut Command) -> Result<()> {
    let folder = Path::new(FOLDER);
    if folder.exists() {
        fs::remove_dir_all(folder).context(FOLDER)?;
    }
    fs::create_dir_all(folder).context(FOLDER)?;
    let runner = std::env::current_exe().context("the path of this program")?;
    let runner = format!("target.'cfg(all())'.runner = ['{}', 'run-test']", runner.display());
    // Before the arguments of the tests.
    let arguments: Vec<OsString> = test.get_args().map(OsStr::to_owned).collect();
    let mut timed = Command::new(test.get_program());
    timed.args(["--config", &runner]).args(arguments);
    for (name, value) in test.get_envs() {
        match value {
            Some(value) => timed.env(name, value),
            None => timed.env_remove(name),
        };
    }
    timed.env(FOLDER_VARIABLE, std::path::absolute(folder)?);
    let ran = run_process(&mut timed);
    let report = Report::read(folder)?;
    report.print();
    if ran.is_err() {
        report.panics.iter().for_each(|line| println!("{line}"));
    }
    ran?;
    report.check()
}

/// What the runners measured.
#[derive(Debug, Default)]
struct Report {
    /// The seconds of each test.
    tests: Vec<(f64, String)>,
    /// The most MiB of each program.
    memory: BTreeMap<String, u64>,
    /// What failed tests print when they panic.
    panics: Vec<String>,
}

impl Report {
    fn read(folder: &Path) -> Result<Self> {
        let mut report = Self::default();
        for entry in fs::read_dir(folder)? {
            for line in fs::read_to_string(entry?.path())?.lines() {
                let (kind, rest) = line.split_once(' ').context("a line of a runner")?;
                let (number, name) = rest.split_once(' ').context("a line of a runner")?;
                match kind {
                    "time" => report.tests.push((number.parse()?, name.to_owned())),
                    "panic" => report.panics.push(name.to_owned()),
                    _ => {
                        let most = report.memory.entry(name.to_owned()).or_default();
                        *most = number.parse::<u64>()?.max(*most);
                    }
                }
            }
        }
        report.tests.sort_by(|a, b| b.0.total_cmp(&a.0));
        Ok(report)
    }

    fn print(&self) {
        let all: f64 = self.tests.iter().map(|(seconds, _)| seconds).sum();
        println!(
            "\n{} tests take {all:.0} s one after another; the slowest:",
            self.tests.len()
        );
        for (seconds, name) in self.tests.iter().take(SLOWEST) {
            println!("{seconds:>7.1} s  {name}");
        }
        if let Some((program, mib)) = self.memory.iter().max_by_key(|(_, mib)| **mib) {
            println!("{mib:>7} MiB at most, by {program} and its servers; allowed are {MOST_MIB}");
        }
    }

    fn check(&self) -> Result<()> {
        ensure!(!self.memory.is_empty(), "the memory of no test program was measured");
        for (program, mib) in &self.memory {
            ensure!(
                *mib <= MOST_MIB,
                "{program} and its servers take {mib} MiB, more than {MOST_MIB}: find the test whose data grows, and give it a bound"
            );
        }
        Ok(())
    }
}

/// Runs one program for Cargo.
pub(crate) fn run_program(program: &Program) -> Result<ExitCode> {
    let folder = std::env::var_os(FOLDER_VARIABLE).context("`run-test` is for `cargo xtask ci`")?;
    let path = Path::new(&program.program);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut command = Command::new(path);
    command.args(&program.arguments);
    // Not a program of documentation, which has another harness.
    let is_test = path.parent().is_some_and(|parent| parent.ends_with("deps"));
    if !is_test || program.arguments.iter().any(|argument| argument == "--list") {
        let status = command.status().with_context(|| format!("starting {name}"))?;
        return Ok(exit_code(status.code()));
    }
    command.args(["-Z", "unstable-options", "--report-time"]);
    command.env("RUSTC_BOOTSTRAP", "1").stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("starting {name}"))?;
    let stdout = BufReader::new(child.stdout.take().context("the output is piped")?);
    let (most, has_ended) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut measured = String::new();
    let program_name = name.rsplit_once('-').map_or(name.as_str(), |(name, _)| name);
    let status = std::thread::scope(|scope| -> Result<_> {
        scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                most.fetch_max(memory_of(child.id()), Ordering::Relaxed);
                std::thread::sleep(INTERVAL);
            }
        });
        let printed = print_lines(stdout, std::io::stdout(), program_name, &mut measured);
        has_ended.store(true, Ordering::Relaxed);
        printed
    });
    status?;
    let status = child.wait().with_context(|| format!("waiting for {name}"))?;
    let mib = most.load(Ordering::Relaxed) / MIB;
    measured.push_str(&format!("memory {mib} {program_name}\n"));
    fs::write(Path::new(&folder).join(&name), measured).context("writing the times")?;
    Ok(exit_code(status.code()))
}

fn exit_code(code: Option<i32>) -> ExitCode {
    // 101 is that of a failed test; a program that a signal ended has none.
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(101))
}

/// Prints what a test program prints, and keeps the times of its tests and the messages of their panics.
fn print_lines(lines: impl BufRead, mut printed: impl Write, program: &str, measured: &mut String) -> Result<()> {
    let mut panic: Option<String> = None;
    for line in lines.split(b'\n') {
        let line = line?;
        printed.write_all(&line)?;
        printed.write_all(b"\n")?;
        let line = String::from_utf8_lossy(&line);
        if let Some((seconds, test)) = time_of(&line) {
            measured.push_str(&format!("time {seconds} {program} {test}\n"));
        }
        let is_next = line.contains(" panicked at ");
        if is_next || line.trim().is_empty() {
            keep_panic(panic.take(), measured);
        }
        if is_next {
            panic = Some(String::new());
        }
        if let Some(panic) = &mut panic {
            panic.push_str(line.trim());
            panic.push(' ');
        }
    }
    keep_panic(panic, measured);
    Ok(())
}

fn keep_panic(panic: Option<String>, measured: &mut String) {
    if let Some(panic) = panic {
        let start: String = panic.trim_end().chars().take(LENGTH_OF_PANIC).collect();
        measured.push_str(&format!("panic 0 {start}\n"));
    }
}

/// Reads a line such as `test outlier::push::it_is_stored ... ok <1.024s>`.
fn time_of(line: &str) -> Option<(f64, &str)> {
    let (test, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let seconds = outcome.split_once('<')?.1.strip_suffix("s>")?;
    Some((seconds.parse().ok()?, test))
}

/// Returns the memory of a process and of all that it started, in bytes; 0 where there is no `/proc`.
fn memory_of(root: u32) -> u64 {
    let mut processes = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let id: Option<u32> = entry.file_name().to_string_lossy().parse().ok();
        let stat = fs::read_to_string(entry.path().join("stat")).ok();
        if let Some((id, (parent, bytes))) = id.zip(stat.as_deref().and_then(parent_and_memory)) {
            processes.insert(id, (parent, bytes));
        }
    }
    let is_of_root = |mut id: u32| loop {
        match processes.get(&id) {
            _ if id == root => return true,
            Some((parent, _)) => id = *parent,
            None => return false,
        }
    };
    let of_root = processes.iter().filter(|(id, _)| is_of_root(**id));
    of_root.map(|(_, (_, bytes))| bytes).sum()
}

/// Reads a line of `/proc/PID/stat`. The name of the program is in parentheses, and can have any characters.
fn parent_and_memory(stat: &str) -> Option<(u32, u64)> {
    const PAGE: u64 = 4096;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some((
        fields.get(1)?.parse().ok()?,
        fields.get(21)?.parse::<u64>().ok()? * PAGE,
    ))
}

/// Fails when a call of `cargo test` names no test.
pub(crate) fn ensure_tests(listed: &str, remedy: &str) -> Result<usize> {
    let tests = listed.lines().filter(|line| line.ends_with(": test")).count();
    if tests == 0 {
        bail!("{remedy}");
    }
    Ok(tests)
}

#[cfg(test)]
mod tests {
    use super::{memory_of, parent_and_memory, print_lines, time_of};

    #[test]
    fn what_is_printed_is_passed_on_with_times_and_panics_kept() {
        let output = "test a ... FAILED <0.5s>\n\n---- a stdout ----\nthread 'a' panicked at a.rs:1:\nstuck: [\n    1,\n]\n\n---- b\n\
            thread 'b' panicked at b.rs:2:\nno\n";
        let (mut printed, mut measured) = (Vec::new(), String::new());
        print_lines(output.as_bytes(), &mut printed, "p", &mut measured).unwrap();
        assert_eq!(printed, output.as_bytes());
        let kept = "time 0.5 p a\npanic 0 thread 'a' panicked at a.rs:1: stuck: [ 1, ]\npanic 0 thread 'b' panicked at b.rs:2: no\n";
        assert_eq!(measured, kept);
    }

    #[test]
    fn the_time_of_a_test_is_read() {
        assert_eq!(time_of("test a::b ... ok <1.024s>"), Some((1.024, "a::b")));
        assert_eq!(time_of("test a::b ... FAILED <0.001s>"), Some((0.001, "a::b")));
        assert_eq!(time_of("test a::b ... ignored, long"), None);
        assert_eq!(time_of("a text <1s>"), None);
    }

    #[test]
    fn the_memory_of_a_process_has_that_of_its_children() {
        let stat = "7 (a) b) S 3 7 7 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 1 100 25 184";
        assert_eq!(parent_and_memory(stat), Some((3, 25 * 4096)));
        if cfg!(target_os = "linux") {
            assert!(memory_of(std::process::id()) > 0);
        }
    }
}
