//! How far a call is that goes over whole collections.

/// How far a call is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// How much is done by this call.
    pub done: u64,
    /// How much there was to do when it began, or `done` where that has come to be more.
    pub total: u64,
}

impl Progress {
    /// The start of a call that has about so much to do.
    pub fn of(total: u64) -> Self {
        Self { done: 0, total }
    }

    /// So much more is done.
    pub fn advance(&mut self, by: u64) {
        self.done += by;
        self.total = self.total.max(self.done);
    }
}

/// Is called now and then.
pub type OnProgress<'a> = Box<dyn FnMut(Progress) + Send + 'a>;

/// Tells how far a call is, where somebody asked for it.
#[derive(Default)]
pub struct Reporter<'a> {
    progress: Progress,
    call: Option<OnProgress<'a>>,
}

impl<'a> Reporter<'a> {
    /// For a call that was asked, or was not.
    pub fn new(call: Option<OnProgress<'a>>) -> Self {
        Self {
            progress: Progress::default(),
            call,
        }
    }

    /// Whether somebody asked.
    pub fn is_asked(&self) -> bool {
        self.call.is_some()
    }

    /// It begins, with about so much to do.
    pub fn begin(&mut self, total: u64) {
        self.progress = Progress::of(total);
    }

    /// So much more is done.
    pub fn advance(&mut self, by: u64) {
        self.progress.advance(by);
        if let Some(call) = &mut self.call {
            call(self.progress);
        }
    }

    /// How much is done.
    pub fn done(&self) -> u64 {
        self.progress.done
    }
}

impl std::fmt::Debug for Reporter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reporter")
            .field("progress", &self.progress)
            .finish_non_exhaustive()
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
