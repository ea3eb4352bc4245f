//! The catalog's tablet is kept in order like those of a tablet server: else its log would grow for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use schema::Timestamp;
use server_base::maintenance::Tablets;
use server_base::physical_micros;
use tablet::{RowsetError, Tablet};

use crate::services::Context;

/// The one tablet of a master.
#[derive(Debug)]
pub(crate) struct CatalogTablet {
    context: Arc<Context>,
    failed: AtomicBool,
}

impl CatalogTablet {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context, failed: AtomicBool::new(false) }
    }
}

impl Tablets for CatalogTablet {
    fn running(&self) -> Vec<Arc<Tablet>> {
        let failed = self.failed.load(Ordering::Relaxed);
        self.context.catalog.lock().stored().filter(|_| !failed).into_iter().collect()
    }

    /// Entries are read at the start only, and none but the newest.
    fn oldest(&self, _: &Tablet) -> Timestamp {
        Timestamp::new(physical_micros(), 0)
    }

    fn memory_bytes(&self) -> u64 {
        u64::MAX
    }

    fn changed(&self) {}

    fn reopen(&self, _: &Arc<Tablet>) -> bool {
        let mut catalog = self.context.catalog.lock();
        if let Err(error) = catalog.has_room() {
            tracing::debug!(%error, "still no room for the catalog");
            return false;
        }
        match catalog.reopen() {
            Ok(()) => {
                tracing::info!("the catalog takes changes again");
                true
            }
            Err(error) => {
                tracing::error!(%error, "the catalog still takes no changes");
                false
            }
        }
    }

    /// What is in memory is right, so the master serves on. The next start will say what is wrong.
    fn failed(&self, _: &str, error: &RowsetError) {
        tracing::error!(%error, "the catalog's files are damaged: they stay as they are");
        self.failed.store(true, Ordering::Relaxed);
    }
}
