//! Which process runs the cluster of a master's port: what `cluster start` notes and `cluster stop` reads.
//!
//! The process holds a lock on its file for as long as it runs, so that a file left behind by one that was killed is told from
//! that of a living one, and who waits for the lock waits for the end.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, getuid, kill_process};
use serde_json::{Value, json};
use thiserror::Error;

/// The note of this process, for as long as it lives; taken away when dropped.
#[derive(Debug)]
pub struct RunFile {
    path: PathBuf,
    file: File,
}

/// A cluster that another process runs.
#[derive(Debug)]
pub struct Running {
    file: File,
    /// Its process.
    pub pid: u32,
    /// Its master, as `host:port`.
    pub master: String,
    /// Where it keeps everything, if it does.
    pub data_dir: Option<PathBuf>,
}

/// A cluster that cannot be noted, found or stopped.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunFileError {
    /// The system refused.
    #[error("cannot use {}", path.display())]
    #[non_exhaustive]
    Io {
        /// With what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Somebody else could change what is noted there.
    #[error("{} belongs to somebody else", path.display())]
    #[non_exhaustive]
    NotOurs {
        /// The folder.
        path: PathBuf,
    },
    /// Another process has noted a cluster on this port.
    #[error("{} is in use by another cluster", path.display())]
    #[non_exhaustive]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The process took the signal and goes on.
    #[error("the cluster of {master}, process {pid}, is still there after {} s", after.as_secs())]
    #[non_exhaustive]
    StillThere {
        /// Its master.
        master: String,
        /// Its process.
        pid: u32,
        /// How long was waited.
        after: Duration,
    },
}

impl RunFileError {
    /// Whether it may work later.
    pub fn is_retriable(&self) -> bool {
        matches!(self, Self::StillThere { .. } | Self::InUse { .. })
    }
}

impl RunFile {
    /// Notes that this process runs the cluster of `master`.
    ///
    /// # Errors
    /// [`RunFileError`] names the file.
    pub fn write(master: &str, data_dir: Option<&Path>) -> Result<RunFile, RunFileError> {
        Self::write_in(&folder(), master, data_dir)
    }

    fn write_in(folder: &Path, master: &str, data_dir: Option<&Path>) -> Result<RunFile, RunFileError> {
        ready(folder)?;
        let path = folder.join(name(master));
        let failed = |source| RunFileError::Io { path: path.clone(), source };
        // Whoever looks for clusters locks the file for a moment, and removes it if it found nobody's lock.
        let mut tries = 0..TRIES;
        let file = loop {
            let file = open(OpenOptions::new().create(true).truncate(false), &path).map_err(failed)?;
            let locked = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
            let same = |there: fs::Metadata| file.metadata().is_ok_and(|ours| ours.ino() == there.ino());
            if locked && fs::metadata(&path).is_ok_and(same) {
                break file;
            }
            if tries.next().is_none() {
                return Err(RunFileError::InUse { path });
            }
            std::thread::sleep(LOOK);
        };
        let note = json!({"pid": std::process::id(), "master": master, "data_dir": data_dir});
        file.set_len(0).and_then(|()| (&file).write_all(note.to_string().as_bytes())).map_err(failed)?;
        Ok(RunFile { path, file })
    }
}

impl Drop for RunFile {
    fn drop(&mut self) {
        // Before the lock goes, so that nobody finds it unlocked.
        let _ = fs::remove_file(&self.path);
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// The clusters of this user that run now. Files that killed ones left behind are taken away.
///
/// # Errors
/// [`RunFileError`]; that there are none is none.
pub fn running() -> Result<Vec<Running>, RunFileError> {
    running_in(&folder())
}

fn running_in(folder: &Path) -> Result<Vec<Running>, RunFileError> {
    let failed = |source| RunFileError::Io { path: folder.to_owned(), source };
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    ready(folder)?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        // One that has ended since takes its file with it.
        let Ok(mut file) = open(&mut OpenOptions::new(), &path) else { continue };
        if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
            let _ = fs::remove_file(&path);
            continue;
        }
        let mut note = String::new();
        file.read_to_string(&mut note).map_err(|source| RunFileError::Io { path, source })?;
        // One that just starts has nothing to say yet.
        let note: Value = serde_json::from_str(&note).unwrap_or_default();
        let pid = note["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        if let (Some(pid), Some(master)) = (pid, note["master"].as_str()) {
            let data_dir = note["data_dir"].as_str().map(PathBuf::from);
            found.push(Running { file, pid, master: master.to_owned(), data_dir });
        }
    }
    Ok(found)
}

impl Running {
    /// Asks the process to end, as Ctrl-C does, and waits until it has. Nothing else is ended.
    ///
    /// # Errors
    /// [`RunFileError::StillThere`] after `patience`.
    pub fn stop(self, patience: Duration) -> Result<(), RunFileError> {
        let end = Instant::now() + patience;
        // Who holds the lock is the process that wrote the file: the number cannot be another's.
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::INT);
        }
        while flock(&self.file, FlockOperation::NonBlockingLockShared).is_err() {
            if Instant::now() > end {
                return Err(RunFileError::StillThere { master: self.master, pid: self.pid, after: patience });
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

const LOOK: Duration = Duration::from_millis(20);
/// How often a file is locked by somebody else before it counts as in use.
const TRIES: u32 = 10;

/// Where notes are: of this user only.
fn folder() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder).join("nyala"),
        _ => std::env::temp_dir().join(format!("nyala-{}", getuid().as_raw())),
    }
}

/// Makes the folder; where everybody may make folders, another user's is not trusted.
fn ready(folder: &Path) -> Result<(), RunFileError> {
    let failed = |source| RunFileError::Io { path: folder.to_owned(), source };
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    let about = fs::symlink_metadata(folder).map_err(failed)?;
    let ours = about.is_dir() && about.uid() == getuid().as_raw() && about.mode() & 0o022 == 0;
    if ours { Ok(()) } else { Err(RunFileError::NotOurs { path: folder.to_owned() }) }
}

fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let mut file = options.read(true).write(true).mode(0o600).open(path)?;
    file.rewind()?;
    Ok(file)
}

/// `127.0.0.1:7051` as a file's name.
fn name(master: &str) -> String {
    master.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "-")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nyala");
        (folder, path)
    }

    #[test]
    fn a_cluster_is_found_while_it_runs_and_not_afterwards() {
        let (_keep, folder) = place();
        assert!(running_in(&folder).unwrap().is_empty());
        let run = RunFile::write_in(&folder, "127.0.0.1:7051", Some(Path::new("data"))).unwrap();
        let other = RunFile::write_in(&folder, "127.0.0.1:7052", None).unwrap();
        let mut found = running_in(&folder).unwrap();
        found.sort_by(|a, b| a.master.cmp(&b.master));
        let seen: Vec<_> = found.iter().map(|run| (run.master.as_str(), run.data_dir.clone())).collect();
        assert_eq!(seen, [("127.0.0.1:7051", Some(PathBuf::from("data"))), ("127.0.0.1:7052", None)]);
        assert!(found.iter().all(|run| run.pid == std::process::id()));
        drop((run, other));
        assert!(running_in(&folder).unwrap().is_empty());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_process_left_is_cleared_away() {
        let (_keep, folder) = place();
        ready(&folder).unwrap();
        // Process 1 lives: its number alone must not make it a cluster.
        fs::write(folder.join("127.0.0.1-7051"), r#"{"pid":1,"master":"127.0.0.1:7051"}"#).unwrap();
        assert!(running_in(&folder).unwrap().is_empty());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn two_clusters_on_one_port_are_refused() {
        let (_keep, folder) = place();
        let _run = RunFile::write_in(&folder, "127.0.0.1:7051", None).unwrap();
        let error = RunFile::write_in(&folder, "127.0.0.1:7051", None).unwrap_err();
        assert!(matches!(error, RunFileError::InUse { .. }) && error.is_retriable());
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_not_trusted() {
        let (_keep, folder) = place();
        ready(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(RunFile::write_in(&folder, "a:1", None), Err(RunFileError::NotOurs { .. })));
        assert!(matches!(running_in(&folder), Err(RunFileError::NotOurs { .. })));
    }
}
