//! CPU time and memory of a process, from `/proc` (Linux only).

use std::io;
use std::time::Duration;

/// CPU time that the living threads of a process have had, in nanoseconds as the scheduler counts them.
///
/// Threads that ended are not in it, so differences are right for a stretch in which none ends. Fails when there is no such
/// process, or no `/proc`.
pub fn cpu_time(pid: u32) -> io::Result<Duration> {
    let mut nanoseconds = 0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let path = thread?.path().join("schedstat");
        match std::fs::read_to_string(path) {
            Ok(text) => nanoseconds += on_cpu(&text).ok_or_else(|| malformed("schedstat"))?,
            // The thread ended since the folder was listed, or since its file was opened.
            Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// CPU time of a process since its start, threads that ended included, to 10 ms.
pub fn whole_cpu_time(pid: u32) -> io::Result<Duration> {
    ticks(&format!("/proc/{pid}/stat"), 11)
}

/// CPU time of the children of this process that ended and were waited for, to 10 ms.
pub fn children_cpu_time() -> io::Result<Duration> {
    ticks("/proc/self/stat", 13)
}

/// Two neighbouring fields of a `stat` file, counted from the one behind the name, as ticks of 10 ms.
fn ticks(path: &str, first: usize) -> io::Result<Duration> {
    let stat = std::fs::read_to_string(path)?;
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().skip(first).take(2));
    let values: Vec<u64> = fields.into_iter().flatten().filter_map(|field| field.parse().ok()).collect();
    match values[..] {
        [user, system] => Ok(Duration::from_millis((user + system) * 10)),
        _ => Err(malformed("stat")),
    }
}

/// CPU time of this process since its start, threads that ended included.
pub fn own_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Anonymous and shared memory in use by a process (RssAnon + RssShmem), in bytes; file pages do not count.
pub fn resident_bytes(pid: u32) -> io::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name| status_kib(&status, name).ok_or_else(|| malformed(name));
    Ok((field("RssAnon")? + field("RssShmem")?) * 1024)
}

/// Whether there is such a process, and it has not ended (one that waits for its parent to take note of that has).
pub fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// No such process.
const ESRCH: i32 = 3;

/// The first of the three fields: nanoseconds on a CPU.
fn on_cpu(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().next()?.parse().ok()
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
    fn a_process_that_ended_does_not_run() {
        assert!(is_running(std::process::id()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let end = std::time::Instant::now() + Duration::from_secs(10);
        while is_running(child.id()) {
            assert!(std::time::Instant::now() < end, "it still runs");
            std::thread::sleep(Duration::from_millis(5));
        }
        child.wait().unwrap();
        assert!(!is_running(child.id()));
    }

    #[test]
    fn cpu_time_grows_with_work_by_both_clocks() {
        let before = (cpu_time(std::process::id()).unwrap(), own_cpu_time());
        let start = own_cpu_time();
        let mut x = 1u64;
        while own_cpu_time() - start < Duration::from_millis(50) {
            x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005));
        }
        assert!(cpu_time(std::process::id()).unwrap() >= before.0 + Duration::from_millis(40));
        assert!(own_cpu_time() >= before.1 + Duration::from_millis(50));
        let whole = whole_cpu_time(std::process::id()).unwrap();
        assert!(whole.abs_diff(own_cpu_time()) <= Duration::from_millis(100), "{whole:?}");
    }

    #[test]
    fn a_child_counts_once_it_was_waited_for() {
        let before = children_cpu_time().unwrap();
        let work = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        assert!(std::process::Command::new("sh").args(["-c", work]).status().unwrap().success());
        assert!(children_cpu_time().unwrap() > before);
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
