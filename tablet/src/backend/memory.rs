//! Files in memory, which know what a power cut would leave of them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::{Append, Backend};

/// Files in memory; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Debug, Default)]
struct State {
    names: BTreeMap<PathBuf, Content>,
    folders: BTreeSet<PathBuf>,
    /// The names that a power cut leaves.
    lasting: BTreeMap<PathBuf, Content>,
}

type Content = Arc<Mutex<File>>;

#[derive(Clone, Debug, Default)]
struct File {
    data: Vec<u8>,
    synced: usize,
}

impl Memory {
    /// No files.
    pub fn new() -> Self {
        Self::default()
    }

    /// What a machine finds when it starts again after a power cut: the names that were synced, with all bytes that were
    /// synced and `extra(bytes)` of those that were not.
    pub fn after_power_cut(&self, mut extra: impl FnMut(usize) -> usize) -> Self {
        let state = self.state.lock();
        let keep = |(path, content): (&PathBuf, &Content)| {
            let content = content.lock();
            let unsynced = content.data.len().saturating_sub(content.synced);
            let kept = content.data.len().min(content.synced + extra(unsynced).min(unsynced));
            let data = content.data[..kept].to_vec();
            (path.clone(), Arc::new(Mutex::new(File { synced: data.len(), data })))
        };
        let names: BTreeMap<_, _> = state.lasting.iter().map(keep).collect();
        let folders = state.folders.clone();
        Self { state: Arc::new(Mutex::new(State { lasting: names.clone(), names, folders })) }
    }

    /// A copy that later changes of this one do not touch: what a process finds after the one before was killed.
    pub fn after_kill(&self) -> Self {
        let state = self.state.lock();
        let copy = |(path, content): (&PathBuf, &Content)| {
            (path.clone(), Arc::new(Mutex::new(content.lock().clone())))
        };
        let names: BTreeMap<_, _> = state.names.iter().map(copy).collect();
        let lasting = state.lasting.keys().filter_map(|path| Some((path.clone(), names.get(path)?.clone())));
        let (lasting, folders) = (lasting.collect(), state.folders.clone());
        Self { state: Arc::new(Mutex::new(State { names, folders, lasting })) }
    }

    /// Changes one byte of a file, as a failing disk might.
    ///
    /// # Errors
    /// `NotFound` if there is no such file or byte.
    pub fn damage(&self, path: &Path, offset: usize) -> io::Result<()> {
        let content = self.content(path)?;
        let mut content = content.lock();
        *content.data.get_mut(offset).ok_or(io::ErrorKind::NotFound)? ^= 0x10;
        Ok(())
    }

    fn content(&self, path: &Path) -> io::Result<Content> {
        self.state.lock().names.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Backend for Memory {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Append>> {
        let mut state = self.state.lock();
        if state.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if path.parent().is_some_and(|folder| !state.is_folder(folder)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let content = Content::default();
        state.names.insert(path.to_owned(), Arc::clone(&content));
        Ok(Box::new(MemoryFile { content }))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        Ok(self.content(path)?.lock().data.clone())
    }

    fn map(&self, path: &Path) -> io::Result<Bytes> {
        self.read(path).map(Bytes::from)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let state = self.state.lock();
        if !state.is_folder(folder) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside = |path: &PathBuf| path.parent() == Some(folder);
        let all = state.names.keys().chain(&state.folders).filter(|path| inside(path));
        let names: BTreeSet<_> =
            all.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect();
        Ok(names.into_iter().collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        if let Some(content) = state.names.remove(from) {
            state.names.insert(to.to_owned(), content);
            return Ok(());
        }
        if !state.is_folder(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let moved = |path: &Path| path.strip_prefix(from).map(|rest| to.join(rest)).ok();
        state.folders =
            state.folders.iter().map(|path| moved(path).unwrap_or_else(|| path.clone())).collect();
        for names in [true, false] {
            let map = if names { &mut state.names } else { &mut state.lasting };
            let all = std::mem::take(map);
            *map = all.into_iter().map(|(path, content)| (moved(&path).unwrap_or(path), content)).collect();
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.state.lock().names.remove(path).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn truncate(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let content = self.content(path)?;
        let mut content = content.lock();
        content.data.truncate(bytes as usize);
        content.synced = content.data.len();
        Ok(())
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        self.state.lock().folders.extend(folder.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        if !state.is_folder(folder) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.folders.retain(|path| !path.starts_with(folder));
        state.names.retain(|path, _| !path.starts_with(folder));
        state.lasting.retain(|path, _| !path.starts_with(folder));
        Ok(())
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let State { names, lasting, .. } = &mut *state;
        lasting.retain(|path, _| path.parent() != Some(folder));
        let inside = names.iter().filter(|(path, _)| path.parent() == Some(folder));
        lasting.extend(inside.map(|(path, content)| (path.clone(), Arc::clone(content))));
        Ok(())
    }
}

impl State {
    fn is_folder(&self, path: &Path) -> bool {
        path.as_os_str().is_empty() || self.folders.contains(path)
    }
}

#[derive(Debug)]
struct MemoryFile {
    content: Content,
}

impl Append for MemoryFile {
    fn append(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let mut content = self.content.lock();
        parts.iter().for_each(|part| content.data.extend_from_slice(part));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut content = self.content.lock();
        content.synced = content.data.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_cut_leaves_what_was_synced_and_a_kill_leaves_all() {
        let memory = Memory::new();
        let (folder, path) = (Path::new("a"), Path::new("a/b"));
        memory.create_folder(folder).unwrap();
        let mut file = memory.create(path).unwrap();
        file.append(&[b"12", b"34"]).unwrap();
        file.sync().unwrap();
        assert!(memory.after_power_cut(|_| 0).read(path).is_err(), "its name was not synced");
        memory.sync_folder(folder).unwrap();
        file.append(&[b"5678"]).unwrap();
        assert_eq!(memory.after_power_cut(|_| 0).read(path).unwrap(), b"1234");
        assert_eq!(memory.after_power_cut(|most| most / 2).read(path).unwrap(), b"123456");
        assert_eq!(memory.after_kill().read(path).unwrap(), b"12345678");
        memory.rename(folder, Path::new("c")).unwrap();
        assert_eq!(memory.list(Path::new("c")).unwrap(), ["b"]);
        memory.remove_folder(Path::new("c")).unwrap();
        assert!(memory.list(Path::new("c")).is_err());
    }
}
