//! A disk that fails at the operation a test names.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::{Append, Backend, Memory};

/// What happens at the operation that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does nothing and is an error; the next ones succeed again.
    Error,
    /// It does nothing and is an error, and so is everything after it.
    Death,
    /// If it appends, this many 256ths of the bytes are written; then as [`Fault::Death`].
    Torn(u8),
}

/// Files in memory behind a disk that fails at its n-th operation that changes or syncs something.
#[derive(Clone, Debug)]
pub struct Faulty {
    memory: Memory,
    plan: Arc<Mutex<Plan>>,
}

#[derive(Debug)]
struct Plan {
    done: u64,
    at: u64,
    fault: Fault,
}

impl Faulty {
    /// `memory`, failing at operation `at` (from 0).
    pub fn new(memory: Memory, at: u64, fault: Fault) -> Self {
        Self { memory, plan: Arc::new(Mutex::new(Plan { done: 0, at, fault })) }
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.plan.lock().done
    }
}

impl Plan {
    /// Counts an operation: `None` if it succeeds, otherwise how much of it is done.
    fn next(&mut self) -> Option<u8> {
        let number = self.done;
        self.done += 1;
        match self.fault {
            _ if number < self.at => None,
            Fault::Torn(part) if number == self.at => Some(part),
            Fault::Error if number > self.at => None,
            _ => Some(0),
        }
    }
}

fn failed() -> io::Error {
    io::Error::other("the disk of the test failed")
}

impl Faulty {
    fn check(&self) -> io::Result<()> {
        self.plan.lock().next().map_or(Ok(()), |_| Err(failed()))
    }
}

impl Backend for Faulty {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Append>> {
        self.check()?;
        let file = self.memory.create(path)?;
        Ok(Box::new(FaultyFile { file, plan: Arc::clone(&self.plan) }))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.memory.read(path)
    }

    fn map(&self, path: &Path) -> io::Result<Bytes> {
        self.memory.map(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.memory.list(folder)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check()?;
        self.memory.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check()?;
        self.memory.remove(path)
    }

    fn truncate(&self, path: &Path, bytes: u64) -> io::Result<()> {
        self.check()?;
        self.memory.truncate(path, bytes)
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        self.check()?;
        self.memory.create_folder(folder)
    }

    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        self.check()?;
        self.memory.remove_folder(folder)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.check()?;
        self.memory.sync_folder(folder)
    }
}

#[derive(Debug)]
struct FaultyFile {
    file: Box<dyn Append>,
    plan: Arc<Mutex<Plan>>,
}

impl Append for FaultyFile {
    fn append(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let Some(part) = self.plan.lock().next() else { return self.file.append(parts) };
        let all = parts.concat();
        self.file.append(&[&all[..all.len() * usize::from(part) / 256]])?;
        Err(failed())
    }

    fn sync(&mut self) -> io::Result<()> {
        match self.plan.lock().next() {
            None => self.file.sync(),
            Some(_) => Err(failed()),
        }
    }
}
