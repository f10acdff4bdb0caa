//! The progress of a migration: what follows each chunk.

use super::{MigrateOptions, Pace};
use crate::conn::Conn;
use crate::error::{Error, ErrorKind, Result};
use crate::progress::{OnProgress, Reporter};

/// How much one command of a migration migrates, and the counter, the progress callback and the pause after it.
#[derive(Debug)]
pub struct MigrationProgress<'a> {
    /// About how many units a chunk has, if the migration has chunks.
    pub chunk: u64,
    /// The progress callback.
    pub reporter: Reporter<'a>,
    /// The pauses.
    pub pace: Pace,
}

impl<'a> MigrationProgress<'a> {
    /// Begins, by the numbers of the options. A chunk has the default number of units, unless the caller has set another
    /// number, and at most the units of one second.
    pub fn new(options: &MigrateOptions, default_chunk: u64, call: Option<OnProgress<'a>>) -> Result<Self> {
        let refuse = |message: &'static str| Err(Error::new(ErrorKind::InvalidArgument, message));
        if options.chunk == Some(0) {
            return refuse("the chunk size is 0, nothing was migrated: set it to 1 or more");
        }
        if options.rate == Some(0) {
            return refuse("the rate is 0, nothing was migrated: set it to 1 or more");
        }
        let chunk = options.chunk.unwrap_or(default_chunk);
        Ok(Self {
            chunk: options.rate.map_or(chunk, |rate| chunk.min(rate)),
            reporter: Reporter::new(call),
            pace: Pace::new(options.rate),
        })
    }

    /// Counts migrated units, and calls the callback.
    pub fn count(&mut self, conn: &Conn<'_>, units: u64) {
        conn.count_migrated(units);
        self.reporter.advance(units);
    }

    /// Counts the units of a chunk, and pauses.
    pub async fn advance(&mut self, conn: &Conn<'_>, units: u64) {
        self.count(conn, units);
        self.pace.pause(conn, units).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(chunk: Option<u64>, rate: Option<u64>) -> Result<MigrationProgress<'static>> {
        let options = MigrateOptions {
            chunk,
            rate,
            ..MigrateOptions::default()
        };
        MigrationProgress::new(&options, 100, None)
    }

    #[test]
    fn a_chunk_has_at_most_the_units_of_a_second() {
        let chunk = |chunk, rate| progress(chunk, rate).unwrap().chunk;
        assert_eq!(chunk(None, None), 100);
        assert_eq!(chunk(Some(7), None), 7);
        assert_eq!(chunk(None, Some(10)), 10);
        assert_eq!(chunk(Some(7), Some(1000)), 7);
    }

    #[test]
    fn numbers_are_one_or_more() {
        for (chunk, rate) in [(Some(0), None), (None, Some(0))] {
            assert_eq!(progress(chunk, rate).unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
    }
}
