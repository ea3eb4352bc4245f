//! CPU time and memory of a process, from `/proc` (Linux only).

use std::io;
use std::time::Duration;

/// User and system CPU time of a process since its start, all threads, with the resolution of a clock tick (10 ms).
///
/// Fails when there is no such process, or no `/proc`.
pub fn cpu_time(pid: u32) -> io::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks = cpu_ticks(&stat).ok_or_else(|| malformed("stat"))?;
    let seconds = ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    Ok(Duration::from_secs_f64(seconds))
}

/// Anonymous and shared memory in use by a process (RssAnon + RssShmem), in bytes; file pages do not count.
pub fn resident_bytes(pid: u32) -> io::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name| status_kib(&status, name).ok_or_else(|| malformed(name));
    Ok((field("RssAnon")? + field("RssShmem")?) * 1024)
}

/// utime + stime: the 14th and 15th fields, counted behind the command name, which may hold blanks and brackets.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    user.checked_add(system)
}

fn status_kib(status: &str, name: &str) -> Option<u64> {
    let line =
        status.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':')))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("/proc: no {what} that could be read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_a_name_with_brackets() {
        let stat = "77 (a) b (c)) S 1 77 77 0 -1 4194304 90 0 1 0 250 50 0 0 20 0 9 0";
        assert_eq!(cpu_ticks(stat), Some(300));
        assert_eq!(cpu_ticks("77 no name"), None);
    }

    #[test]
    fn own_cpu_time_grows_with_work() {
        let before = cpu_time(std::process::id()).unwrap();
        let start = std::time::Instant::now();
        let mut x = 1u64;
        while start.elapsed() < Duration::from_millis(300) {
            x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005));
        }
        assert!(cpu_time(std::process::id()).unwrap() > before);
    }

    #[test]
    fn resident_bytes_notice_a_big_allocation() {
        let before = resident_bytes(std::process::id()).unwrap();
        let block = std::hint::black_box(vec![1u8; 64 << 20]);
        let after = resident_bytes(std::process::id()).unwrap();
        assert!(after > before + (48 << 20), "{before} -> {after}");
        drop(block);
    }
}
