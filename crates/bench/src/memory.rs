//! The memory of this process, as reported by Linux.

use std::fs;

/// Forgets the peak until now.
pub(crate) fn reset_peak() {
    // Without this file, the peak is that of the whole run.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Returns the most memory that this process used since the last reset, in MiB, if available.
pub(crate) fn peak_mib() -> Option<f64> {
    parse(&fs::read_to_string("/proc/self/status").ok()?)
}

fn parse(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn the_peak_is_read() {
        let status = "Name:\tbench\nVmPeak:\t  900000 kB\nVmHWM:\t   20480 kB\nVmRSS:\t 1 kB\n";
        assert_eq!(parse(status), Some(20.0));
        assert_eq!(parse("Name:\tbench\n"), None);
    }
}
