//! A file system of a few megabytes, for tests of servers whose disk is full. Only root can mount it.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted file system, gone when it is dropped.
pub(crate) struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    /// `None` where this may not be done; with `CI=true` root has to be able to.
    pub(crate) fn mount(megabytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={megabytes}m");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path()).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self { folder }),
            failed => {
                let root =
                    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0;
                assert!(!root || std::env::var("CI").as_deref() != Ok("true"), "{failed:?}");
                eprintln!("left out: no tmpfs can be mounted here ({failed:?})");
                None
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn remount_read_only(&self) {
        let done = Command::new("mount").args(["-o", "remount,ro"]).arg(self.path()).status().unwrap();
        assert!(done.success());
    }

    /// Takes all of the room but `kilobytes`; the file that does is to be removed.
    pub(crate) fn fill(&self, kilobytes: usize) -> PathBuf {
        let ballast = self.path().join("ballast");
        let free = Command::new("df").args(["--output=avail", "-k"]).arg(self.path()).output().unwrap();
        let text = String::from_utf8(free.stdout).unwrap();
        let free: usize = text.lines().nth(1).unwrap().trim().parse().unwrap();
        std::fs::write(&ballast, vec![1; (free - kilobytes) << 10]).unwrap();
        ballast
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}
