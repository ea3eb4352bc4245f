//! The folder in which a server keeps what has to last (`--fs_wal_dir`): whose it is, and that nobody else uses it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, FlockOperation};
use tablet::backend::{Backend, Disk};

use crate::ServerUuid;
use crate::flags::{FlagSet, Role};

/// An open data folder; no other server can open it before this is dropped.
#[derive(Debug)]
pub struct DataFolder {
    path: PathBuf,
    uuid: ServerUuid,
    backend: Arc<dyn Backend>,
    /// Locked.
    _folder: File,
}

/// A data folder that cannot be used. Nothing was written to it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataFolderError {
    /// The system refused: no such disk, read-only, full.
    #[error("cannot {action} {}: {source}", path.display())]
    #[non_exhaustive]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Another process has it.
    #[error("{} is in use by another server", path.display())]
    #[non_exhaustive]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// It has files, but none that says whose they are.
    #[error("{} has files (e.g. {example}) but no instance file: it is no data folder, or was deleted in part", path.display())]
    #[non_exhaustive]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// One of the files.
        example: String,
    },
    /// It has an instance file, but not what goes with it.
    #[error("{} is missing: the data folder was deleted in part", path.display())]
    #[non_exhaustive]
    HalfDeleted {
        /// What is not there.
        path: PathBuf,
    },
    /// It belongs to the other kind of server.
    #[error("{} is the data folder of a {found}", path.display())]
    #[non_exhaustive]
    OtherRole {
        /// The folder.
        path: PathBuf,
        /// Whose it is.
        found: String,
    },
    /// It was written by a later version, or by one from before there were releases.
    #[error("{} has format {found}, this program reads format {FORMAT}: use the program that wrote it", path.display())]
    #[non_exhaustive]
    OtherFormat {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: String,
    },
    /// The instance file is damaged.
    #[error("{} is damaged: it does not fit its checksum", path.display())]
    #[non_exhaustive]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

impl DataFolderError {
    /// True if another server may leave it, or the system allow it, later.
    pub fn is_retriable(&self) -> bool {
        matches!(self, Self::Io { .. } | Self::InUse { .. })
    }
}

impl DataFolder {
    /// The folder that `--fs_wal_dir` names; `None` if it names none: then nothing lasts. An empty folder, or one that is not
    /// there, becomes the folder of a new server. `content` is the folder inside it that the role needs. With
    /// `--never_fsync` nothing is synced.
    ///
    /// # Errors
    /// [`DataFolderError`]: one line that names the path.
    pub fn from_flags(flags: &FlagSet, content: &str) -> Result<Option<Self>, DataFolderError> {
        let path = flags.string("fs_wal_dir");
        if path.is_empty() {
            return Ok(None);
        }
        let disk = Disk::new(&path);
        let disk = if flags.bool("never_fsync") { disk.without_syncs() } else { disk };
        Self::open(PathBuf::from(path), flags.role(), content, disk).map(Some)
    }

    fn open(path: PathBuf, role: Role, content: &str, disk: Disk) -> Result<Self, DataFolderError> {
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |source: io::Error| DataFolderError::Io { action, path, source }
        };
        fs::create_dir_all(&path).map_err(failed("create", &path))?;
        let folder = File::open(&path).map_err(failed("open", &path))?;
        match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(DataFolderError::InUse { path }),
            locked => locked.map_err(|error| failed("lock", &path)(error.into()))?,
        }
        rustix::fs::access(&path, Access::WRITE_OK)
            .map_err(|error| failed("write to", &path)(error.into()))?;
        let (instance, inside) = (path.join(INSTANCE), path.join(content));
        let uuid = match fs::read_to_string(&instance) {
            Ok(text) => {
                let uuid = parse(&text, &instance, role)?;
                if !inside.is_dir() {
                    return Err(DataFolderError::HalfDeleted { path: inside });
                }
                uuid
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                check_empty(&path, content)?;
                let uuid = ServerUuid::random();
                let written = disk.create_folder(Path::new(content));
                let written = written.and_then(|()| write(&disk, &text(role, &uuid)));
                // Its own name must last, too.
                let named = written.and_then(|()| disk.sync_folder(Path::new("..")));
                named.map_err(failed("write to", &path))?;
                uuid
            }
            Err(error) => return Err(failed("read", &instance)(error)),
        };
        Ok(Self { path, uuid, backend: Arc::new(disk), _folder: folder })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The server that it belongs to.
    pub fn uuid(&self) -> &ServerUuid {
        &self.uuid
    }

    /// Its files.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }
}

/// Whether the disk of a data folder takes a megabyte more.
///
/// # Errors
/// What the system says if not.
pub fn check_room(backend: &dyn Backend) -> io::Result<()> {
    let probe = Path::new(PROBE);
    // One that was left when the process ended.
    let _ = backend.remove(probe);
    let mut file = backend.create(probe)?;
    let written = file.append(&[&vec![0; PROBE_BYTES]]).and_then(|()| file.sync());
    written.and(backend.remove(probe))
}

fn name(role: Role) -> &'static str {
    match role {
        Role::Master => "nyala master",
        Role::TabletServer => "nyala tablet server",
    }
}

fn text(role: Role, uuid: &ServerUuid) -> String {
    let body = format!("{}\nformat {FORMAT}\nuuid {uuid}\n", name(role));
    format!("{body}crc32c {:08x}\n", crc32c::crc32c(body.as_bytes()))
}

fn write(disk: &Disk, text: &str) -> io::Result<()> {
    let draft = Path::new(DRAFT);
    let _ = disk.remove(draft);
    let mut file = disk.create(draft)?;
    file.append(&[text.as_bytes()])?;
    file.sync()?;
    disk.rename(draft, Path::new(INSTANCE))?;
    disk.sync_folder(Path::new(""))
}

fn parse(text: &str, path: &Path, role: Role) -> Result<ServerUuid, DataFolderError> {
    let damaged = || DataFolderError::Damaged { path: path.to_owned() };
    let mut lines = text.lines();
    let (who, format, uuid) = (lines.next(), lines.next(), lines.next());
    let found = format.and_then(|line| line.strip_prefix("format ")).ok_or_else(damaged)?;
    if found.parse::<u32>().is_ok_and(|found| found != FORMAT) {
        return Err(DataFolderError::OtherFormat { path: path.to_owned(), found: found.to_owned() });
    }
    let body_end = text.rfind("crc32c ").ok_or_else(damaged)?;
    let (body, crc) = text.split_at(body_end);
    if crc.trim_end() != format!("crc32c {:08x}", crc32c::crc32c(body.as_bytes())) {
        return Err(damaged());
    }
    let who = who.unwrap_or_default();
    if who != name(role) {
        let path = path.parent().unwrap_or(path).to_owned();
        return Err(DataFolderError::OtherRole { path, found: who.to_owned() });
    }
    let uuid = uuid.and_then(|line| line.strip_prefix("uuid ")).and_then(|uuid| uuid.parse().ok());
    uuid.ok_or_else(damaged)
}

/// A start that was cut off may have left an empty folder and a draft.
fn check_empty(path: &Path, content: &str) -> Result<(), DataFolderError> {
    let failed = |source| DataFolderError::Io { action: "list", path: path.to_owned(), source };
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_empty = || fs::read_dir(entry.path()).is_ok_and(|mut inside| inside.next().is_none());
        let harmless = name == DRAFT || name == LOST_AND_FOUND || name == content && is_empty();
        if !harmless {
            return Err(DataFolderError::NotOurs { path: path.to_owned(), example: name });
        }
    }
    Ok(())
}

/// The format of the whole folder. 1 had the tablets' logs in other places, where they would not be found.
const FORMAT: u32 = 3;
const INSTANCE: &str = "instance";
const DRAFT: &str = "instance.draft";
const PROBE: &str = "probe";
const PROBE_BYTES: usize = 1 << 20;
/// Every new file system of its own has one.
const LOST_AND_FOUND: &str = "lost+found";

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path, role: Role) -> Result<DataFolder, DataFolderError> {
        DataFolder::open(path.to_owned(), role, "tablets", Disk::new(path))
    }

    fn refused(path: &Path, role: Role) -> String {
        let before: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        let text = open(path, role).unwrap_err().to_string();
        let after: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!((before, text.lines().count()), (after, 1), "{text}");
        text.replace(&path.display().to_string(), "DIR")
    }

    #[test]
    fn a_folder_keeps_its_server_and_is_one_server_s_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/one");
        let first = open(&path, Role::TabletServer).unwrap();
        let uuid = first.uuid().clone();
        assert_eq!(refused(&path, Role::TabletServer), "DIR is in use by another server");
        drop(first);
        assert_eq!(open(&path, Role::TabletServer).unwrap().uuid(), &uuid);
        assert_eq!(refused(&path, Role::Master), "DIR is the data folder of a nyala tablet server");
    }

    #[test]
    fn folders_that_cannot_be_used_are_refused_in_one_line_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::write(path.join("letter"), "dear").unwrap();
        assert!(refused(path, Role::Master).starts_with("DIR has files (e.g. letter) but no instance file"));
        fs::remove_file(path.join("letter")).unwrap();
        fs::create_dir(path.join("tablets")).unwrap();
        fs::write(path.join(DRAFT), "half").unwrap();
        drop(open(path, Role::Master).unwrap());

        let instance = path.join(INSTANCE);
        let text = fs::read_to_string(&instance).unwrap();
        for other in [2, 4] {
            fs::write(&instance, text.replace("format 3", &format!("format {other}"))).unwrap();
            let said = format!(
                "DIR/instance has format {other}, this program reads format 3: use the program that wrote it"
            );
            assert_eq!(refused(path, Role::Master), said);
        }
        let uuid = text.find("uuid ").unwrap() + 5;
        for broken in ["", "nyala master\n", &text[..uuid], &text.replace("uuid ", "uuid f")] {
            fs::write(&instance, broken).unwrap();
            assert!(refused(path, Role::Master).starts_with("DIR/instance is damaged"), "{broken}");
        }
        fs::write(&instance, &text).unwrap();
        fs::remove_dir(path.join("tablets")).unwrap();
        let half = "DIR/tablets is missing: the data folder was deleted in part";
        assert_eq!(refused(path, Role::Master), half);
        let file = path.join("a file");
        fs::write(&file, "").unwrap();
        let text = open(&file.join("x"), Role::Master).unwrap_err().to_string();
        assert!(text.starts_with("cannot create ") && text.contains("a file/x"), "{text}");
    }
}
