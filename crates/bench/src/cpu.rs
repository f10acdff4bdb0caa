//! The CPU time of processes, as reported by Linux.

use std::fs;

/// Linux reports hundredths of a second to programs, on every machine.
const TICKS_PER_SECOND: f64 = 100.0;

/// The CPU seconds of this process and of the server, if available.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu {
    pub(crate) client: Option<f64>,
    pub(crate) server: Option<f64>,
}

impl Cpu {
    /// Returns the CPU seconds until now. Those of the server are available if it is a child process.
    pub(crate) fn now(server: Option<u32>) -> Self {
        Self {
            client: seconds_of("self"),
            server: server.and_then(|pid| seconds_of(&pid.to_string())),
        }
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        let difference = |now: Option<f64>, then: Option<f64>| Some(now? - then?);
        Self {
            client: difference(self.client, earlier.client),
            server: difference(self.server, earlier.server),
        }
    }
}

fn seconds_of(process: &str) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    parse(&stat)
}

/// Returns the sum of the fields utime and stime, the 14th and 15th. The second field, in parentheses, can contain
/// spaces and parentheses.
fn parse(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_added() {
        let stat = "12 (a) b) S 1 12 12 0 -1 4194304 100 0 0 0 150 50 7 8 20 0 9 0 1000 1 2";
        assert_eq!(parse(stat), Some(2.0));
        assert_eq!(parse("12 (a"), None);
    }
}
