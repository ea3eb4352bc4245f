//! The tablets of a server on disk: a folder each, with what the tablet is, its log and its rows. tablet/FORMAT.md draws them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost::Message as _;
use proto::kudu::tserver::CreateTabletRequestPb;
use schema::HybridClock;
use server_base::StartError;
use server_base::data_folder::{self, DataFolder};
use tablet::backend::Backend;
use tablet::sealed::{self, Kind, SealedError};
use tablet::{BlockCache, LogOptions, OpenError, Storage, Tablet, TabletOptions};

/// Where tablets are kept.
#[derive(Debug)]
pub(crate) struct TabletStore {
    folder: DataFolder,
    log: LogOptions,
    cache: Arc<BlockCache>,
}

/// A tablet that was found at the start.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) id: String,
    /// How it was made and whether it is a tombstone, if that can be read.
    pub(crate) about: Result<(CreateTabletRequestPb, bool), StoreError>,
}

/// Files that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error(transparent)]
    Sealed(#[from] SealedError),
    #[error("{} is corrupt: it holds no tablet", .0.display())]
    NoTablet(PathBuf),
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },
}

impl From<StoreError> for StartError {
    fn from(error: StoreError) -> Self {
        Self::stored(error, false)
    }
}

/// What a server keeps its tablets in.
pub(crate) const TABLETS: &str = "tablets";

impl TabletStore {
    /// `cache_bytes` is for decoded blocks.
    pub(crate) fn new(folder: DataFolder, log: LogOptions, cache_bytes: usize) -> Self {
        Self { folder, log, cache: Arc::new(BlockCache::new(cache_bytes)) }
    }

    fn backend(&self) -> &dyn Backend {
        &**self.folder.backend()
    }

    /// Where a tablet is, for people.
    pub(crate) fn folder_of(&self, id: &str) -> String {
        self.folder.path().join(TABLETS).join(id).display().to_string()
    }

    /// Finishes what the end of the last process cut off, and lists what is here.
    pub(crate) fn find(&self) -> Result<Vec<Found>, StoreError> {
        let tablets = Path::new(TABLETS);
        let mut found = Vec::new();
        for name in self.backend().list(tablets).map_err(failed("list", tablets))? {
            let path = tablets.join(&name);
            if name.ends_with(NEW) || name.ends_with(GONE) {
                tracing::info!(path = %path.display(), "removing a tablet whose creation or deletion was cut off");
                self.backend().remove_folder(&path).map_err(failed("remove", &path))?;
                continue;
            }
            found.push(Found { about: self.about(&name), id: name });
        }
        Ok(found)
    }

    fn about(&self, id: &str) -> Result<(CreateTabletRequestPb, bool), StoreError> {
        let path = folder(id).join(ABOUT);
        let content = sealed::read(self.backend(), &path, KIND)?;
        let read = content.split_first().and_then(|(tombstone, request)| {
            Some((CreateTabletRequestPb::decode(request).ok()?, *tombstone != 0))
        });
        read.ok_or(StoreError::NoTablet(path))
    }

    /// Makes the files of a new tablet; after an error, or the end of the process, there are none.
    pub(crate) fn create(&self, id: &str, request: &CreateTabletRequestPb) -> Result<(), StoreError> {
        let (draft, place, tablets) =
            (Path::new(TABLETS).join(format!("{id}{NEW}")), folder(id), Path::new(TABLETS));
        let log = draft.join(DATA);
        // One that failed before, while the server ran.
        let _ = self.backend().remove_folder(&draft);
        self.backend().create_folder(&log).map_err(failed("create", &log))?;
        let written = write_about(self.backend(), &draft, request, false).and_then(|()| {
            self.backend().rename(&draft, &place).map_err(failed("rename", &draft))?;
            self.backend().sync_folder(tablets).map_err(failed("sync", tablets))
        });
        written.inspect_err(|_| drop(self.backend().remove_folder(&draft)))
    }

    /// Opens a tablet with the rows its log holds.
    pub(crate) fn open(&self, about: TabletOptions, clock: &Arc<HybridClock>) -> Result<Tablet, OpenError> {
        let backend = Arc::clone(self.folder.backend());
        let folder = folder(&about.id).join(DATA);
        let storage = Storage { backend, folder, log: self.log, cache: Arc::clone(&self.cache) };
        Tablet::open_in(storage, about, Arc::clone(clock))
    }

    /// Removes a tablet's files; if the process ends on the way, the next start does the rest.
    pub(crate) fn delete(&self, id: &str) -> Result<(), StoreError> {
        let (place, tablets) = (folder(id), Path::new(TABLETS));
        let gone = tablets.join(format!("{id}{GONE}"));
        let _ = self.backend().remove_folder(&gone);
        self.backend().rename(&place, &gone).map_err(failed("rename", &place))?;
        self.backend().sync_folder(tablets).map_err(failed("sync", tablets))?;
        self.backend().remove_folder(&gone).map_err(failed("remove", &gone))
    }

    /// Removes a tablet's rows and remembers that they are gone.
    pub(crate) fn tombstone(&self, id: &str) -> Result<(), StoreError> {
        let (request, _) = self.about(id)?;
        write_about(self.backend(), &folder(id), &request, true)?;
        self.clear_rows(id)
    }

    /// Whether the disk takes some more bytes.
    pub(crate) fn check_room(&self) -> std::io::Result<()> {
        data_folder::check_room(self.backend())
    }

    /// Removes the rows of a tombstone.
    pub(crate) fn clear_rows(&self, id: &str) -> Result<(), StoreError> {
        let log = folder(id).join(DATA);
        match self.backend().remove_folder(&log) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            done => done.map_err(failed("remove", &log)),
        }
    }
}

fn write_about(
    backend: &dyn Backend,
    folder: &Path,
    request: &CreateTabletRequestPb,
    tombstone: bool,
) -> Result<(), StoreError> {
    let mut content = vec![u8::from(tombstone)];
    content.extend(request.encode_to_vec());
    Ok(sealed::write(backend, &folder.join(ABOUT), KIND, &content)?)
}

fn folder(id: &str) -> PathBuf {
    Path::new(TABLETS).join(id)
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { action, path, source }
}

const KIND: Kind = Kind { magic: *b"NYALATAB", version: 1 };
const ABOUT: &str = "tablet";
const DATA: &str = "data";
const NEW: &str = ".new";
const GONE: &str = ".gone";
