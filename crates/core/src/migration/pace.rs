//! The pace of a migration: pauses between its chunks.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::conn::Conn;

/// A limit of items per second. Each migrated item takes a token, and tokens come at the rate. Unused tokens expire.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    rate: Option<u64>,
    /// When the next chunk may begin.
    next: Instant,
}

impl Pace {
    /// Begins, with no limit for `None`.
    pub fn new(rate: Option<u64>) -> Self {
        let next = Instant::now();
        Self { rate, next }
    }

    /// Waits until the items of the last chunk are paid for. In a plan it does not wait.
    pub async fn pause(&mut self, conn: &Conn<'_>, items: u64) {
        if !conn.is_plan() {
            self.wait(items).await;
        }
    }

    /// Does what [`pause`](Self::pause) does, in a run.
    pub async fn wait(&mut self, items: u64) {
        if let Some(next) = self.after(items, Instant::now()) {
            sleep_until(next).await;
        }
    }

    fn after(&mut self, items: u64, now: Instant) -> Option<Instant> {
        let rate = self.rate?;
        let paid = self.next.checked_add(cost(items, rate)).unwrap_or(self.next);
        self.next = paid.max(now);
        Some(self.next)
    }
}

/// Returns the time in which this number of items is allowed.
fn cost(items: u64, rate: u64) -> Duration {
    let rate = rate.max(1);
    let rest = u128::from(items % rate) * 1_000_000_000 / u128::from(rate);
    Duration::from_secs(items / rate) + Duration::from_nanos(u64::try_from(rest).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_chunk_takes_at_least_the_time_of_its_items() {
        let mut pace = Pace::new(Some(100));
        let start = pace.next;
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(pace.after(50, at(100)), Some(at(500)));
        // A slow chunk needs no pause, and saves nothing for the next one.
        assert_eq!(pace.after(50, at(5000)), Some(at(5000)));
        assert_eq!(pace.after(200, at(5001)), Some(at(7000)));
        assert_eq!(Pace::new(None).after(50, start), None);
    }

    #[test]
    fn the_time_of_items_is_rounded_to_nanoseconds() {
        assert_eq!(cost(3, 2), Duration::from_millis(1500));
        assert_eq!(cost(u64::MAX, 1), Duration::from_secs(u64::MAX));
    }
}
