//! The progress of calls that work through whole collections.

/// The progress of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// How much is done, by this call and by earlier calls that it resumes.
    pub done: u64,
    /// How much there was to do at the start, or `done` if that is more by now.
    pub total: u64,
    /// How much of `done` earlier calls did. A rate is of `done - before`.
    pub before: u64,
}

/// A progress callback.
#[doc(hidden)]
pub type OnProgress<'a> = Box<dyn FnMut(Progress) + Send + 'a>;

/// Reports the progress of a call to its callback, if there is one.
#[doc(hidden)]
#[derive(Default)]
pub struct Reporter<'a> {
    progress: Progress,
    call: Option<OnProgress<'a>>,
}

crate::redacted_debug!(Reporter<'_>, |reporter| "progress" = reporter.progress);

impl<'a> Reporter<'a> {
    /// Creates the reporter.
    pub fn new(call: Option<OnProgress<'a>>) -> Self {
        let progress = Progress::default();
        Self { progress, call }
    }

    /// Returns whether there is a callback.
    pub fn is_asked(&self) -> bool {
        self.call.is_some()
    }

    /// Begins, with about this much to do.
    pub fn begin(&mut self, total: u64) {
        self.resume(0, total);
    }

    /// Resumes after this much, of about this much in all.
    pub fn resume(&mut self, before: u64, total: u64) {
        self.progress = Progress {
            done: before,
            total: total.max(before),
            before,
        };
    }

    /// Adds what is done, and calls the callback.
    pub fn advance(&mut self, by: u64) {
        self.progress.done += by;
        self.progress.total = self.progress.total.max(self.progress.done);
        if let Some(call) = &mut self.call {
            call(self.progress);
        }
    }

    /// Returns how much is done.
    pub fn done(&self) -> u64 {
        self.progress.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_there_was_is_the_new_total() {
        let mut seen = Vec::new();
        let mut reporter = Reporter::new(Some(Box::new(|at| seen.push((at.done, at.total)))));
        reporter.begin(3);
        reporter.advance(2);
        reporter.advance(2);
        drop(reporter);
        assert_eq!(seen, [(2, 3), (4, 4)]);
    }
}
