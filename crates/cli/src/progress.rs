//! Progress on standard error: a bar on a terminal, otherwise a line every few seconds.

use std::io::{IsTerminal, Write, stderr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use mongo_patterns_core::Progress as CallProgress;

use crate::output::{Output, grouped};

/// The shortest time between two lines of a log.
const BETWEEN_LINES: Duration = Duration::from_secs(2);
/// The shortest time between two updates of the bar.
const BETWEEN_DRAWS: Duration = Duration::from_millis(100);

const BAR: &str = "{prefix} {wide_bar} {percent:>3}%  {msg}";
const SPINNER: &str = "{prefix} {spinner} {elapsed}  {msg}";

/// The progress of a command.
pub(crate) struct Progress {
    what: &'static str,
    unit: &'static str,
    total: Option<u64>,
    /// The time and position of the first report. The work before it is checks, or an earlier run.
    began: Option<(Instant, u64)>,
    bar: ProgressBar,
    drawn: Option<Instant>,
    /// The log, if no bar can be drawn.
    log: Option<Log>,
}

struct Log {
    last: Option<Instant>,
}

impl Progress {
    /// Creates the progress of a command, with its total if it is known.
    pub(crate) fn new(output: Output, what: &'static str, unit: &'static str, total: Option<u64>) -> Self {
        let is_terminal = stderr().is_terminal();
        let bar = match total {
            _ if output.quiet || !is_terminal => ProgressBar::hidden(),
            Some(total) => ProgressBar::new(total).with_style(style(BAR)),
            None => ProgressBar::new_spinner().with_style(style(SPINNER)),
        };
        bar.set_prefix(what);
        bar.enable_steady_tick(Duration::from_millis(200));
        Self {
            what,
            unit,
            total,
            began: None,
            bar,
            drawn: None,
            log: (!is_terminal && !output.quiet).then_some(Log { last: None }),
        }
    }

    /// Sets the total once it is known.
    pub(crate) fn set_total(&mut self, total: u64) {
        let before = self.total.replace(total);
        if before.is_none() {
            self.bar.set_style(style(BAR));
        }
        if before != Some(total) {
            self.bar.set_length(total);
        }
    }

    /// Shows what the command does before the first count.
    pub(crate) fn show(&self, what: &'static str) {
        self.bar.set_message(what);
    }

    /// Reports the position.
    pub(crate) fn at(&mut self, position: u64) {
        let (now, is_end) = (Instant::now(), self.total == Some(position));
        let (began, before) = *self.began.get_or_insert((now, position));
        if !is_end
            && self
                .drawn
                .is_some_and(|drawn| now.duration_since(drawn) < BETWEEN_DRAWS)
        {
            return;
        }
        self.drawn = Some(now);
        let text = self.text(position, position.saturating_sub(before), now.duration_since(began));
        self.bar.set_position(position);
        self.bar.set_message(text.clone());
        let what = self.what;
        if let Some(log) = &mut self.log
            && (is_end || log.last.is_none_or(|last| now.duration_since(last) >= BETWEEN_LINES))
        {
            log.last = Some(now);
            // A failed write to the log is no reason to stop.
            let _ = writeln!(stderr(), "{what}: {text}");
        }
    }

    /// Reports the progress of a call.
    pub(crate) fn report(&mut self, at: CallProgress) {
        self.set_total(at.total);
        self.at(at.done);
    }

    /// Hides the bar while it prints.
    pub(crate) fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn text(&self, position: u64, done: u64, elapsed: Duration) -> String {
        let of = self
            .total
            .map(|total| format!(" of {}", grouped(total)))
            .unwrap_or_default();
        let mut text = format!("{}{of} {}", grouped(position), self.unit);
        let Some(rate) = rate(done, elapsed) else {
            return text;
        };
        text.push_str(&format!(", {}/s", grouped(rate)));
        if let Some(total) = self.total.filter(|total| *total > position) {
            let left = Duration::from_secs((total - position).div_ceil(rate));
            text.push_str(&format!(", {} left", duration(left)));
        }
        text
    }
}

/// The progress of a call that streams its findings. It continues while findings are printed.
#[derive(Clone)]
pub(crate) struct SharedProgress(Arc<Mutex<Progress>>);

impl SharedProgress {
    pub(crate) fn new(output: Output, what: &'static str, unit: &'static str, total: Option<u64>) -> Self {
        Self(Arc::new(Mutex::new(Progress::new(output, what, unit, total))))
    }

    /// Shows what the command does before the first count.
    pub(crate) fn show(&self, what: &'static str) {
        self.lock().show(what);
    }

    /// Returns the progress callback of a call.
    pub(crate) fn callback(&self) -> impl FnMut(CallProgress) + Send + use<> {
        let progress = self.clone();
        move |at| progress.lock().report(at)
    }

    pub(crate) fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.lock().suspend(print)
    }

    pub(crate) fn end(&self) {
        self.lock().end();
    }

    /// The lock is held only while a line is printed.
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns the rate per second, at least one. Returns `None` if nothing is done yet.
fn rate(done: u64, elapsed: Duration) -> Option<u64> {
    let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
    (done > 0).then(|| (done.saturating_mul(1000) / millis).max(1))
}

fn duration(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constants, which a test checks.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_counts_from_the_first_report() {
        let output = Output::new(false, true);
        let progress = Progress::new(output, "migrate", "items", Some(1000));
        let text = progress.text(600, 100, Duration::from_secs(10));
        assert_eq!(text, "600 of 1,000 items, 10/s, 40 s left");
        assert_eq!(progress.text(500, 0, Duration::from_secs(10)), "500 of 1,000 items");
    }

    #[test]
    fn templates_are_valid() {
        for template in [
            "{prefix} {wide_bar} {percent:>3}%  {msg}",
            "{prefix} {spinner} {elapsed}  {msg}",
        ] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn durations_are_formatted_with_a_unit() {
        let text = [59, 119, 120, 7199, 7200].map(|seconds| duration(Duration::from_secs(seconds)));
        assert_eq!(text, ["59 s", "119 s", "2 min", "119 min", "2 h 0 min"]);
    }
}
